package app

import (
	"context"
	"slices"
	"time"

	"headgate/engine"
	"headgate/internal/format"
)

// refreshMessage puts the message right whose button was pressed on a mode, if its incident
// is over for so long that the engine has let go of it: nobody else would tell there
// that the mode has changed since, and the button would stand for ever. What it adds
// goes through the record and the outbox, as the engine's own.
func (d *slackExecutor) refreshMessage(ctx context.Context, id, pool string) {
	d.refreshMu.Lock() // what is read here must not be read twice
	defer d.refreshMu.Unlock()
	if slices.ContainsFunc(d.app.monitor.engine.Incidents(), func(i engine.Incident) bool { return i.ID == id }) {
		return // the engine tells it
	}
	story, err := d.app.store.IncidentHistory(ctx, id)
	s, ok := d.app.modes.State(pool)
	if err != nil || !ok || story.Incident.Key.Pool != pool || len(story.Events) == 0 {
		return
	}
	if last := story.Events[len(story.Events)-1]; !last.At.Before(s.Since) {
		return // it has been told, or was so then
	}
	inc := story.Incident
	inc.Seq++
	e := engine.Event{
		ID: newID(), Incident: inc.ID, Seq: inc.Seq, Kind: engine.EventMode, At: time.Now().UTC().Truncate(time.Millisecond),
		Level: inc.Level, Value: inc.Value, By: s.Actor, Text: format.TruncateBytes(s.Reason, maxReason),
	}
	journal := d.app.store.EngineJournal(d.app.notificationPlanner(d.app.monitor))
	if err := journal.Save(ctx, engine.Batch{Incidents: []engine.Incident{inc}, Events: []engine.Event{e}}); err != nil {
		d.app.log.Warn("a message in Slack is out of date", "incident", id, "error", err)
		return
	}
	d.app.monitor.wakeDispatcher()
}
