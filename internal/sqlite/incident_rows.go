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

// maxFlips bounds the flips that are read of a state.
const maxFlips = 1000

var incidentTable = table{name: "incidents", key: []string{"id"}, columns: []string{
	"id", "rule", "pool", "level", "peak", "opened_ms", "changed_ms", "ended_ms", "why", "value", "threshold", "unit",
	"summary", "feel", "runbook", "action", "seq", "reopened", "flapping", "acked_by", "ack_until_ms", "told", "due",
}}

func incidentValues(i engine.Incident) []any {
	return []any{
		short(i.ID), short(i.Key.Rule), short(i.Key.Pool), i.Level.String(), i.Peak.String(), ms(i.Opened), ms(i.Changed), ms(i.Ended),
		string(i.Why), finite(i.Value), finite(i.Threshold), short(i.Unit),
		clean(i.Summary, maxReason), clean(i.Feel, maxReason), short(i.Runbook), short(i.Action),
		tally(i.Seq), tally(i.Reopened), bit(i.Flapping), short(i.AckedBy), ms(i.AckUntil), bit(i.Told), bit(i.Due),
	}
}

// incidentOf reads what incidentValues has written, from a row or from a note. The
// ID in a note may be any text: nothing is found by it.
func incidentOf(f *fields, v []any) engine.Incident {
	return engine.Incident{
		ID: f.text("id", v[0], maxName), Key: engine.Key{Rule: f.text("rule", v[1], maxName), Pool: f.text("pool", v[2], maxName)},
		Level: f.level("level", v[3]), Peak: f.level("peak", v[4]),
		Opened: f.when("opened_ms", v[5]), Changed: f.when("changed_ms", v[6]), Ended: f.when("ended_ms", v[7]),
		Why: engine.Resolution(f.word("why", v[8])), Value: f.finite("value", v[9]), Threshold: f.finite("threshold", v[10]),
		Unit: f.text("unit", v[11], maxName), Summary: f.text("summary", v[12], maxReason), Feel: f.text("feel", v[13], maxReason),
		Runbook: f.text("runbook", v[14], maxName), Action: f.text("action", v[15], maxName),
		Seq: f.count("seq", v[16]), Reopened: f.count("reopened", v[17]), Flapping: f.flag("flapping", v[18]),
		AckedBy: f.text("acked_by", v[19], maxName), AckUntil: f.when("ack_until_ms", v[20]),
		Told: f.flag("told", v[21]), Due: f.flag("due", v[22]),
	}
}

func incidentRow(v []any) (engine.Incident, error) {
	f := fields{table: incidentTable.name}
	f.id("id", v[0])
	i := incidentOf(&f, v)
	return i, f.bad
}

var eventTable = table{name: "incident_events", key: []string{"incident", "seq"}, columns: []string{
	"id", "incident", "seq", "kind", "at_ms", "level", "value", "actor", "muted", "digested", "flips", "words",
}}

func eventValues(e engine.Event) []any {
	return []any{
		short(e.ID), short(e.Incident), tally(e.Seq), string(e.Kind), ms(e.At), e.Level.String(), finite(e.Value), short(e.By),
		bit(e.Muted), bit(e.Digested), tally(e.Count), clean(e.Words, maxReason),
	}
}

// eventOf is for events what incidentOf is for incidents.
func eventOf(f *fields, v []any) engine.Event {
	return engine.Event{
		ID: f.text("id", v[0], maxName), Incident: f.text("incident", v[1], maxName), Seq: f.count("seq", v[2]),
		Kind: engine.EventKind(f.word("kind", v[3])), At: f.when("at_ms", v[4]), Level: f.level("level", v[5]),
		Value: f.finite("value", v[6]), By: f.text("actor", v[7], maxName),
		Muted: f.flag("muted", v[8]), Digested: f.flag("digested", v[9]), Count: f.count("flips", v[10]),
		Words: f.text("words", v[11], maxReason),
	}
}

func eventRow(v []any) (engine.Event, error) {
	f := fields{table: eventTable.name}
	f.id("id", v[0])
	e := eventOf(&f, v)
	return e, f.bad
}

var stateTable = table{name: "rule_states", key: []string{"rule", "pool"}, columns: []string{
	"rule", "pool", "phase", "level", "incident", "warn_ns", "page_ns", "clear_ns", "calm_ns", "idle_ns", "lost_ns",
	"resolved_ms", "reminded_ms", "digested_ms", "flips",
}}

// phases are the words for engine.Phase, in its order.
func phases() []string { return []string{"ok", "pending", "firing", "recovering"} }

func phaseOf(f *fields, column string, v any) engine.Phase {
	return engine.Phase(max(0, slices.Index(phases(), f.one(column, v, phases()))))
}

func stateValues(s engine.State) []any {
	length := func(d time.Duration) int64 { return int64(max(d, 0)) }
	return []any{
		short(s.Key.Rule), short(s.Key.Pool), phases()[s.Phase], s.Level.String(), s.Incident,
		length(s.WarnFor), length(s.PageFor), length(s.ClearFor), length(s.CalmFor), length(s.IdleFor), length(s.LostFor),
		ms(s.Resolved), ms(s.Reminded), ms(s.Digested), flipsText(s.Flips),
	}
}

func stateRow(v []any) (engine.State, error) {
	f := fields{table: stateTable.name}
	s := engine.State{
		Key:   engine.Key{Rule: f.text("rule", v[0], maxName), Pool: f.text("pool", v[1], maxName)},
		Phase: phaseOf(&f, "phase", v[2]), Level: f.level("level", v[3]), Incident: f.idOrNone("incident", v[4]),
		WarnFor: f.length("warn_ns", v[5]), PageFor: f.length("page_ns", v[6]), ClearFor: f.length("clear_ns", v[7]),
		CalmFor: f.length("calm_ns", v[8]), IdleFor: f.length("idle_ns", v[9]), LostFor: f.length("lost_ns", v[10]),
		Resolved: f.when("resolved_ms", v[11]), Reminded: f.when("reminded_ms", v[12]), Digested: f.when("digested_ms", v[13]),
		Flips: f.flips("flips", v[14]),
	}
	return s, f.bad
}

func flipsText(flips []time.Time) string {
	flips = flips[max(0, len(flips)-maxFlips):]
	texts := make([]string, len(flips))
	for n, at := range flips {
		texts[n] = strconv.FormatInt(ms(at), 10)
	}
	return strings.Join(texts, ",")
}

// flips reads times with commas between them.
func (f *fields) flips(column string, v any) []time.Time {
	s := f.raw(column, v)
	if s == "" {
		return nil
	}
	texts := strings.Split(s, ",")
	if len(texts) > maxFlips {
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
		s.ID, short(s.Rule), short(s.Pool), ms(s.From), ms(s.Until), short(s.By), clean(s.Reason, maxReason), bit(s.Lifted),
	}
}

func silenceRow(v []any) (engine.Silence, error) {
	f := fields{table: silenceTable.name}
	s := engine.Silence{
		ID: f.id("id", v[0]), Rule: f.text("rule", v[1], maxName), Pool: f.text("pool", v[2], maxName),
		From: f.when("from_ms", v[3]), Until: f.when("until_ms", v[4]),
		By: f.text("actor", v[5], maxName), Reason: f.text("reason", v[6], maxReason), Lifted: f.flag("lifted", v[7]),
	}
	return s, f.bad
}

// writableBatch refuses what could not be read back. Only a mistake in the program
// makes such a batch.
func writableBatch(b engine.Batch) error {
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
		word("why an incident has ended", string(i.Why))
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
