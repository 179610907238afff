package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"headgate/engine"
)

// maxTimes bounds the flips that are read of a state.
const maxTimes = 1000

var incidentTable = table{name: "incidents", key: []string{"id"}, columns: []string{
	"id", "rule", "pool", "level", "peak", "opened_ms", "changed_ms", "ended_ms", "why", "value", "threshold", "unit",
	"summary", "feel", "runbook", "action", "seq", "reopened", "flapping", "acked_by", "ack_until_ms", "told", "due",
}}

func incidentValues(i engine.Incident) []any {
	return []any{
		cleanName(i.ID), cleanName(i.Key.Rule), cleanName(i.Key.Pool), i.Level.String(), i.Peak.String(), ms(i.Opened), ms(i.Changed), ms(i.Ended),
		string(i.Resolution), finiteOrZero(i.Value), finiteOrZero(i.Threshold), cleanName(i.Unit),
		clean(i.Summary, maxReason), clean(i.Impact, maxReason), cleanName(i.Runbook), cleanName(i.Action),
		countValue(i.Seq), countValue(i.ReopenCount), btoi(i.Flapping), cleanName(i.AckedBy), ms(i.AckUntil), btoi(i.Notified), btoi(i.PendingUnmute),
	}
}

// incidentFrom reads what incidentValues has written, from a row or from a note. The
// ID in a note may be any text: nothing is found by it.
func incidentFrom(f *rowDecoder, v []any) engine.Incident {
	return engine.Incident{
		ID: f.text("id", v[0], maxName), Key: engine.Key{Rule: f.text("rule", v[1], maxName), Pool: f.text("pool", v[2], maxName)},
		Level: f.level("level", v[3]), Peak: f.level("peak", v[4]),
		Opened: f.optionalTime("opened_ms", v[5]), Changed: f.optionalTime("changed_ms", v[6]), Ended: f.optionalTime("ended_ms", v[7]),
		Resolution: engine.Resolution(f.word("why", v[8])), Value: f.finite("value", v[9]), Threshold: f.finite("threshold", v[10]),
		Unit: f.text("unit", v[11], maxName), Summary: f.text("summary", v[12], maxReason), Impact: f.text("feel", v[13], maxReason),
		Runbook: f.text("runbook", v[14], maxName), Action: f.text("action", v[15], maxName),
		Seq: f.count("seq", v[16]), ReopenCount: f.count("reopened", v[17]), Flapping: f.flag("flapping", v[18]),
		AckedBy: f.text("acked_by", v[19], maxName), AckUntil: f.optionalTime("ack_until_ms", v[20]),
		Notified: f.flag("told", v[21]), PendingUnmute: f.flag("due", v[22]),
	}
}

func decodeIncident(v []any) (engine.Incident, error) {
	f := rowDecoder{table: incidentTable.name}
	f.id("id", v[0])
	i := incidentFrom(&f, v)
	return i, f.err
}

var eventTable = table{name: "incident_events", key: []string{"incident", "seq"}, columns: []string{
	"id", "incident", "seq", "kind", "at_ms", "level", "value", "actor", "muted", "digested", "flips", "words",
}}

func eventValues(e engine.Event) []any {
	return []any{
		cleanName(e.ID), cleanName(e.Incident), countValue(e.Seq), string(e.Kind), ms(e.At), e.Level.String(), finiteOrZero(e.Value), cleanName(e.By),
		btoi(e.Muted), btoi(e.Digested), countValue(e.Count), clean(e.Text, maxReason),
	}
}

// eventFrom is for events what incidentFrom is for incidents.
func eventFrom(f *rowDecoder, v []any) engine.Event {
	return engine.Event{
		ID: f.text("id", v[0], maxName), Incident: f.text("incident", v[1], maxName), Seq: f.count("seq", v[2]),
		Kind: engine.EventKind(f.word("kind", v[3])), At: f.optionalTime("at_ms", v[4]), Level: f.level("level", v[5]),
		Value: f.finite("value", v[6]), By: f.text("actor", v[7], maxName),
		Muted: f.flag("muted", v[8]), Digested: f.flag("digested", v[9]), Count: f.count("flips", v[10]),
		Text: f.text("words", v[11], maxReason),
	}
}

func decodeEvent(v []any) (engine.Event, error) {
	f := rowDecoder{table: eventTable.name}
	f.id("id", v[0])
	e := eventFrom(&f, v)
	return e, f.err
}

var stateTable = table{name: "rule_states", key: []string{"rule", "pool"}, columns: []string{
	"rule", "pool", "phase", "level", "incident", "warn_ns", "page_ns", "clear_ns", "calm_ns", "idle_ns", "lost_ns",
	"resolved_ms", "reminded_ms", "digested_ms", "flips",
}}

// phases are the words for engine.Phase, in its order.
func phases() []string { return []string{"ok", "pending", "firing", "recovering"} }

func decodePhase(f *rowDecoder, column string, v any) engine.Phase {
	return engine.Phase(max(0, slices.Index(phases(), f.oneOf(column, v, phases()))))
}

func stateValues(s engine.State) []any {
	length := func(d time.Duration) int64 { return int64(max(d, 0)) }
	return []any{
		cleanName(s.Key.Rule), cleanName(s.Key.Pool), phases()[s.Phase], s.Level.String(), s.Incident,
		length(s.WarnFor), length(s.PageFor), length(s.ClearFor), length(s.BelowPageFor), length(s.IdleFor), length(s.MissingFor),
		ms(s.LastResolved), ms(s.LastNotified), ms(s.LastDigest), encodeTimes(s.FlapTimes),
	}
}

func decodeState(v []any) (engine.State, error) {
	f := rowDecoder{table: stateTable.name}
	s := engine.State{
		Key:   engine.Key{Rule: f.text("rule", v[0], maxName), Pool: f.text("pool", v[1], maxName)},
		Phase: decodePhase(&f, "phase", v[2]), Level: f.level("level", v[3]), Incident: f.optionalID("incident", v[4]),
		WarnFor: f.duration("warn_ns", v[5]), PageFor: f.duration("page_ns", v[6]), ClearFor: f.duration("clear_ns", v[7]),
		BelowPageFor: f.duration("calm_ns", v[8]), IdleFor: f.duration("idle_ns", v[9]), MissingFor: f.duration("lost_ns", v[10]),
		LastResolved: f.optionalTime("resolved_ms", v[11]), LastNotified: f.optionalTime("reminded_ms", v[12]), LastDigest: f.optionalTime("digested_ms", v[13]),
		FlapTimes: f.times("flips", v[14]),
	}
	return s, f.err
}

func encodeTimes(flips []time.Time) string {
	flips = flips[max(0, len(flips)-maxTimes):]
	texts := make([]string, len(flips))
	for n, at := range flips {
		texts[n] = strconv.FormatInt(ms(at), 10)
	}
	return strings.Join(texts, ",")
}

// times reads times with commas between them.
func (f *rowDecoder) times(column string, v any) []time.Time {
	s := f.raw(column, v)
	if s == "" {
		return nil
	}
	texts := strings.Split(s, ",")
	if len(texts) > maxTimes {
		f.fail(column)
		return nil
	}
	flips := make([]time.Time, len(texts))
	for n, text := range texts {
		at, err := strconv.ParseInt(text, 10, 64)
		if err != nil || at < 1 { // 0 stands for no time, and none is never written here
			f.fail(column)
			return nil
		}
		flips[n] = f.time(column, at)
	}
	return flips
}

var silenceTable = table{name: "silences", key: []string{"id"}, columns: []string{
	"id", "rule", "pool", "from_ms", "until_ms", "actor", "reason", "lifted",
}}

func silenceValues(s engine.Silence) []any {
	return []any{
		s.ID, cleanName(s.Rule), cleanName(s.Pool), ms(s.From), ms(s.Until), cleanName(s.By), clean(s.Reason, maxReason), btoi(s.EndHandled),
	}
}

func decodeSilence(v []any) (engine.Silence, error) {
	f := rowDecoder{table: silenceTable.name}
	s := engine.Silence{
		ID: f.id("id", v[0]), Rule: f.text("rule", v[1], maxName), Pool: f.text("pool", v[2], maxName),
		From: f.optionalTime("from_ms", v[3]), Until: f.optionalTime("until_ms", v[4]),
		By: f.text("actor", v[5], maxName), Reason: f.text("reason", v[6], maxReason), EndHandled: f.flag("lifted", v[7]),
	}
	return s, f.err
}

// validateBatch refuses what could not be read back. Only a mistake in the program
// makes such a batch.
func validateBatch(b engine.Batch) error {
	var errs []error
	check := func(what, id string) {
		if !validID(id) {
			errs = append(errs, fmt.Errorf("the ID of %s must be 1 to %d letters, digits and dashes", what, maxID))
		}
	}
	word := func(what, s string) {
		if !isWord(s) {
			errs = append(errs, fmt.Errorf("%s must be a word of at most %d small letters, is %.40q", what, maxWord, s))
		}
	}
	for _, i := range b.Incidents {
		check("an incident", i.ID)
		word("why an incident has ended", string(i.Resolution))
	}
	for _, e := range b.Events {
		check("an event", e.ID)
		check("an event's incident", e.Incident)
		word("the kind of an event", string(e.Kind))
	}
	for _, s := range b.Silences {
		check("a silence", s.ID)
	}
	for _, s := range b.States {
		if s.Incident != "" {
			check("a state's incident", s.Incident)
		}
		if int(s.Phase) >= len(phases()) {
			errs = append(errs, errors.New("no such phase"))
		}
	}
	return errors.Join(errs...)
}
