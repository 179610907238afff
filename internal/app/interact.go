package app

import (
	"context"
	"errors"
	"time"

	"headgate/alerts/slack"
	"headgate/engine"
	"headgate/internal/config"
	"headgate/internal/sqlite"
	"headgate/runbooks/control/slackcmd"
	"headgate/runbooks/drill"
)

// interactionStopTimeout is how long a stop waits for interactions that were accepted and for requests in flight: what
// is stopped afterwards, the record among it, needs its time too.
const interactionStopTimeout = 2 * time.Second

// buttonsEnabled says whether button presses can come back: only then messages have buttons.
func buttonsEnabled(c config.Slack) bool {
	return !c.BotToken.Empty() && (!c.AppToken.Empty() || c.Listen != "" && !c.SigningSecret.Empty())
}

func interactionOptions(s config.Slack) slack.InteractionOptions {
	return slack.InteractionOptions{
		AppToken: s.AppToken.Reveal(), APIURL: s.APIURL, Listen: s.Listen, SigningSecret: s.SigningSecret.Reveal(),
		Allow: allowLists(s.Allow),
	}
}

func allowLists(c config.Allow) slack.AllowList {
	return slack.AllowList{
		slack.Rollback: c.Rollback, slack.Restore: c.Restore, slack.Drill: c.Drill, slack.Ack: c.Ack, slack.Silence: c.Silence,
	}
}

// newInteractions builds what receives button presses and commands from Slack; nil if the settings have none. It opens
// nothing.
func (a *App) newInteractions(cfg *config.Config) (*slack.Interactions, error) {
	if a.withoutMonitoring || a.sandbox.speed > 0 || a.notifiers.bot == nil || !buttonsEnabled(cfg.Slack) {
		return nil, nil
	}
	o := interactionOptions(cfg.Slack)
	o.Bot, o.Registerer, o.Log = a.notifiers.bot, a.registry, a.log.With("component", "slack")
	i, err := slack.NewInteractions(o)
	if setting := (*slack.SettingError)(nil); errors.As(err, &setting) {
		return nil, cfg.At("slack."+setting.Setting, setting.Err)
	}
	return i, err
}

// startInteractions begins to accept interactions, once everything exists that they can change. They stop before that.
func (a *App) startInteractions(w *monitor) error {
	if a.interactions == nil {
		return nil
	}
	w.onStop(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, interactionStopTimeout)
		defer cancel()
		return a.interactions.Stop(ctx)
	})
	c := slackcmd.Config{
		Control: a.control, Modes: a.modes, Audit: a.auditor, Incidents: slackIncidents{a}, Pools: a.slackPools,
		Links: a.cfg.Admin.ExternalURL != "", Log: a.log.With("component", "slack"), NewID: newID, Drills: a.currentDrillSpecs,
	}
	if a.drills != nil {
		c.StartDrill = func(ctx context.Context, s drill.Spec, actor, reason string) (drill.Run, error) {
			started, err := a.drills.Start(ctx, drill.StartRequest{Name: s.ID, Actor: actor, Reason: reason})
			return drill.Run{ID: started.Run}, err
		}
	}
	return a.interactions.Start(slackcmd.New(c))
}

// SlackAddr returns the address for requests from Slack; empty: none. Call it after Start.
func (a *App) SlackAddr() string {
	if a.interactions == nil {
		return ""
	}
	return a.interactions.Addr()
}

func (a *App) slackPools(now time.Time) []slackcmd.PoolLoad {
	var all []slackcmd.PoolLoad
	for _, p := range a.Pools() {
		recent := a.metrics.Recent(p.Name, now)
		load := slackcmd.PoolLoad{
			Name: p.Name, Gate: p.Gate.Snapshot(now), SLO: p.SLO,
			Admitted: max(recent.Arrivals-recent.Rejected-recent.Invalid, 0), Rejected: recent.Rejected,
		}
		if recent.Ended > 0 {
			load.P95 = recent.P95
		}
		all = append(all, load)
	}
	return all
}

// slackIncidents are the recorded incidents, for commands from Slack.
type slackIncidents struct{ app *App }

// History returns an incident and its events.
func (s slackIncidents) History(ctx context.Context, id string) (engine.Incident, []engine.Event, error) {
	h, err := s.app.store.IncidentHistory(ctx, id)
	if errors.Is(err, sqlite.ErrNoIncident) {
		err = engine.ErrNoIncident
	}
	return h.Incident, h.Events, err
}

// Append records an event through the engine's journal, so that its deliveries are planned in the same transaction.
func (s slackIncidents) Append(ctx context.Context, inc engine.Incident, e engine.Event) error {
	journal := s.app.store.EngineJournal(s.app.notificationPlanner(s.app.monitor))
	if err := journal.Save(ctx, engine.Batch{Incidents: []engine.Incident{inc}, Events: []engine.Event{e}}); err != nil {
		return err
	}
	s.app.monitor.wakeDispatcher()
	return nil
}
