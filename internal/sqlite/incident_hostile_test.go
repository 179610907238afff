package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"headgate/alerts"
	"headgate/engine"
)

// badColumn is what a column of a table can hold that headgate never writes.
type badColumn struct {
	table, column string
	values        []string
}

var (
	badText  = []string{"CAST(x'ff' AS TEXT)", "x'61'", "printf('%03000d', 1)"}
	badID    = []string{"''", "'a.b'", "x'61'", "printf('%065d', 1)"}
	badTime  = []string{"'now'", "-1", "1.5", "9223372036854775807"}
	badFlag  = []string{"2", "-1", "'yes'", "0.5"}
	badCount = []string{"-1", "4294967296", "'many'", "x''"}
	badReal  = []string{"'x'", "x'00'", "9e999"}
	badWord  = []string{"'Open'", "'a b'", "7", "printf('%033d', 1)"}
)

func badIncidentColumns() []badColumn {
	return []badColumn{
		{"incidents", "id", badID}, {"incidents", "rule", badText}, {"incidents", "pool", badText}, {"incidents", "level", []string{"''", "'PAGE'", "2"}},
		{"incidents", "peak", badWord}, {"incidents", "opened_ms", badTime}, {"incidents", "changed_ms", badTime}, {"incidents", "why", badWord},
		{"incidents", "value", badReal}, {"incidents", "threshold", badReal}, {"incidents", "unit", badText}, {"incidents", "summary", badText},
		{"incidents", "feel", badText}, {"incidents", "runbook", badText}, {"incidents", "action", badText}, {"incidents", "seq", badCount},
		{"incidents", "reopened", badCount}, {"incidents", "flapping", badFlag}, {"incidents", "acked_by", badText},
		{"incidents", "ack_until_ms", badTime}, {"incidents", "told", badFlag}, {"incidents", "due", badFlag},
		{"rule_states", "rule", badText}, {"rule_states", "phase", badWord}, {"rule_states", "level", badWord}, {"rule_states", "incident", badID[1:]},
		{"rule_states", "warn_ns", []string{"-1", "'x'", "9e30"}}, {"rule_states", "resolved_ms", badTime},
		{"rule_states", "flips", []string{"','", "'1,'", "'1,x'", "'-1'", "'1 ,2'", "'9999999999999999999'", "x'31'", "1.5"}},
		{"silences", "id", badID}, {"silences", "rule", badText}, {"silences", "from_ms", badTime}, {"silences", "until_ms", badTime},
		{"silences", "actor", badText}, {"silences", "reason", badText},
	}
}

// newUncheckedStore is a record with one row of everything, and no checks.
func newUncheckedStore(t testing.TB) *Store {
	t.Helper()
	s, err := Ephemeral(t.Context(), testOptions(""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	b := newIncidentBatch("i-1")
	b.Silences = []engine.Silence{fullSilence("queue_age")}
	saveBatch(t, s, b, planPost)
	saveOutbox(t, s, alerts.Changes{Threads: []alerts.Thread{{Incident: "i-1", Destination: alerts.ToPage, Ref: alerts.Ref{Channel: "C", TS: "1"}}}})
	if _, err := s.writer.ExecContext(t.Context(), "PRAGMA ignore_check_constraints = 1"); err != nil {
		t.Fatal(err)
	}
	return s
}

// forEachBadValue calls check with a record in which one value is as it should not be, for
// each value of each column.
func forEachBadValue(t *testing.T, columns []badColumn, check func(s *Store, h badColumn, value string)) {
	t.Helper()
	s := newUncheckedStore(t)
	run := func(statement string) {
		t.Helper()
		if _, err := s.writer.ExecContext(t.Context(), statement); err != nil {
			t.Fatalf("%.80s: %v", statement, err)
		}
	}
	kept := map[string]bool{}
	for _, h := range columns {
		if !kept[h.table] {
			kept[h.table] = true
			run("CREATE TEMP TABLE kept_" + h.table + " AS SELECT * FROM " + h.table)
		}
		for _, value := range h.values {
			run("UPDATE " + h.table + " SET " + h.column + " = " + value)
			check(s, h, value)
			run("DELETE FROM " + h.table)
			run("INSERT INTO " + h.table + " SELECT * FROM kept_" + h.table)
		}
	}
	checkHistory(t, mustLoadIncident(t, s, "i-1")) // what was spoilt was the value alone
}

// TestHostileIncidents: a value that makes no sense is never guessed at.
func TestHostileIncidents(t *testing.T) {
	forEachBadValue(t, badIncidentColumns(), func(s *Store, h badColumn, value string) {
		got, err := s.EngineJournal(nil).Load(t.Context())
		if !errors.Is(err, ErrCorrupt) || got.Incidents != nil || got.States != nil {
			t.Errorf("%s.%s = %s: %v, want ErrCorrupt", h.table, h.column, value, err)
			return
		}
		wantContains(t, err.Error(), h.table+"."+h.column)
	})
}

// TestHostileStory: the same for what is read with one incident.
func TestHostileStory(t *testing.T) {
	forEachBadValue(t, []badColumn{
		{"incident_events", "id", badID}, {"incident_events", "seq", badCount}, {"incident_events", "kind", badWord}, {"incident_events", "at_ms", badTime},
		{"incident_events", "level", badWord}, {"incident_events", "value", badReal}, {"incident_events", "actor", badText},
		{"incident_events", "muted", badFlag}, {"incident_events", "digested", badFlag}, {"incident_events", "flips", badCount},
		{"deliveries", "id", badID[1:]}, {"deliveries", "seq", badCount}, {"deliveries", "kind", badWord}, {"deliveries", "destination", badWord},
		{"deliveries", "created_ms", badTime}, {"deliveries", "state", badWord}, {"deliveries", "attempts", badCount}, {"deliveries", "tried_ms", badTime},
		{"deliveries", "not_before_ms", badTime}, {"deliveries", "reason", badText}, {"deliveries", "plain", badFlag}, {"deliveries", "doubts", badCount},
		{"deliveries", "channel", badText}, {"deliveries", "ts", badText}, {"deliveries", "diverted", badFlag},
		{"deliveries", "note", []string{"''", "'null'", "'[]'", "'{}'", "x'7b7d'", "note || 'x'", "replace(note, 'warn', 'WARN')", "replace(note, '-0.25', '\"\"')",
			"replace(note, '\"ping\":0', '\"ping\":2')", "replace(note, '\"note\":', '\"notes\":')", "replace(note, '\"late\":0,', '')", "replace(note, '\"why\":\"\"', '\"why\":null')",
			"replace(note, '\"seq\":1', '\"seq\":1e400')", "printf('%060000d', 1)", "printf('%.*c', 50000, '[')", "replace(note, '\"note\":{', '\"more\":1,\"note\":{')"}},
	}, func(s *Store, h badColumn, value string) {
		got, err := s.IncidentHistory(t.Context(), "i-1")
		if !errors.Is(err, ErrCorrupt) || got.Incident.ID != "" {
			t.Errorf("%s.%s = %s: %+v, %v, want ErrCorrupt", h.table, h.column, value, got, err)
			return
		}
		wantContains(t, err.Error(), h.table+"."+h.column)
		ds, err := s.Outbox().Pending(t.Context(), 10)
		if h.table == "deliveries" && (err != nil || len(ds) != 0) {
			t.Errorf("%s.%s = %s: %+v, %v, want it to be passed over", h.table, h.column, value, ds, err)
		}
	})
}

// TestHostileRoot: where a message stands is not guessed at either.
func TestHostileRoot(t *testing.T) {
	for _, column := range []string{"channel", "ts"} {
		for _, value := range badText {
			s := newUncheckedStore(t)
			if _, err := s.writer.ExecContext(t.Context(), "UPDATE delivery_roots SET "+column+" = "+value); err != nil {
				t.Fatal(err)
			}
			if got, err := s.Outbox().Thread(t.Context(), "i-1", alerts.ToPage); !errors.Is(err, ErrCorrupt) || got != (alerts.Ref{}) {
				t.Errorf("%s = %s: %v, %v, want ErrCorrupt", column, value, got, err)
			}
		}
	}
}

// TestHugeIncident: rows beyond what is ever written are not loaded.
func TestHugeIncident(t *testing.T) {
	dir, path := newRecordDir(t)
	s, err := Open(t.Context(), testOptions(dir))
	if err != nil {
		t.Fatal(err)
	}
	saveBatch(t, s, newIncidentBatch("i-1"), planPost)
	closeStore(t, s)
	execSQL(t, path, "UPDATE incidents SET summary = CAST(zeroblob(5000000) AS TEXT)")
	s = openTestStore(t, dir)
	if _, err := s.EngineJournal(nil).Load(t.Context()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("load: %v, want ErrCorrupt", err)
	}
	if _, _, err := s.Incidents(t.Context(), IncidentFilter{}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("list: %v, want ErrCorrupt", err)
	}
}

// TestChecks: the tables themselves refuse flags and numbers that cannot be.
func TestChecks(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	saveBatch(t, s, newIncidentBatch("i-1"), planPost)
	for _, change := range []string{
		"incidents SET due = 2", "incidents SET opened_ms = -1", "incidents SET seq = -1", "incident_events SET muted = 3",
		"rule_states SET warn_ns = -1", "deliveries SET plain = -1", "deliveries SET attempts = -1",
	} {
		if _, err := s.writer.ExecContext(t.Context(), "UPDATE "+change); err == nil {
			t.Errorf("passed: %s", change)
		}
	}
}

// FuzzNote: a note is refused, or it comes back as it was read.
func FuzzNote(f *testing.F) {
	full, err := encodeNote(alerts.Notification{Incident: fullIncident("i-1"), Event: fullEvent("i-1", 1), Mode: "observe", ModeSince: noon, Ping: true, FallbackReason: "why"})
	if err != nil {
		f.Fatal(err)
	}
	empty, err := encodeNote(alerts.Notification{})
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{full, empty, "", "{}", "null", full + " ", strings.Replace(full, "31.5", "31", 1), strings.Replace(full, "31.5", "-0.0", 1)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := rowDecoder{table: "deliveries"}
		n := got.note("note", s)
		if got.err != nil {
			if !errors.Is(got.err, ErrCorrupt) {
				t.Fatal(got.err)
			}
			return
		}
		wantClean(t, n.Incident.Summary, n.Incident.Impact, n.Incident.ID, n.Event.By, n.Mode, n.FallbackReason)
		text, err := encodeNote(n)
		if err != nil || len(text) > maxLength/2 {
			t.Fatalf("%d bytes, %v", len(text), err)
		}
		again := rowDecoder{table: "deliveries"}
		if diff := cmp.Diff(n, again.note("note", text)); diff != "" || again.err != nil {
			t.Fatalf("%v (-first +second):\n%s", again.err, diff)
		}
	})
}

// FuzzDelivery: whatever a deliverer or a sender makes of a delivery's texts and
// numbers, it is refused, or comes back fit to be shown.
func FuzzDelivery(f *testing.F) {
	s, err := Ephemeral(f.Context(), testOptions(""))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { closeStore(f, s) })
	f.Add("i-1", 1, "post", "page", "queued", "rate limited", "C1", "1.000100", 31.5, int64(1772366400000))
	f.Add("an incident", math.MaxInt64, "edit", "fallback", "retry", "\x1b[2J\u202e", "\xff", "", math.NaN(), int64(math.MinInt64))
	f.Add("i\n", -1, "", "", "", "", "", "", math.Inf(1), int64(math.MaxInt64))
	f.Fuzz(func(t *testing.T, id string, seq int, kind, to, state, reason, channel, ts string, value float64, at int64) {
		d := alerts.Delivery{
			ID: newID(), Incident: id, Seq: seq, Kind: alerts.Kind(kind), Destination: alerts.Destination(to), State: alerts.State(state),
			Reason: reason, Ref: alerts.Ref{Channel: channel, TS: ts}, Attempts: seq, Created: noon, LastAttempt: noon.Add(1).AddDate(int(at%100_000), 0, 0),
			Notification: alerts.Notification{Incident: engine.Incident{ID: id, Value: value, Summary: reason}, Event: engine.Event{Value: value, By: channel}},
		}
		if _, err := s.writer.ExecContext(context.Background(), "DELETE FROM deliveries"); err != nil {
			t.Fatal(err)
		}
		if err := s.Outbox().Save(t.Context(), alerts.Changes{Add: []alerts.Delivery{d}}); err != nil {
			if validateDelivery(d) == nil {
				t.Fatal(err)
			}
			return
		}
		ds, err := s.Outbox().Pending(t.Context(), 10)
		if err != nil || len(ds) != int(btoi(d.State.Pending())) {
			t.Fatalf("%+v, %v", ds, err)
		}
		for _, got := range ds {
			if got.Key() != d.Key() {
				t.Fatalf("%v became %v", d.Key(), got.Key())
			}
			wantClean(t, got.Reason, got.Ref.Channel, got.Ref.TS, got.Notification.Incident.Summary)
		}
	})
}

// FuzzIncidentRows reads rows past SQLite: reading is an error, or gives what can
// be written and read again.
func FuzzIncidentRows(f *testing.F) {
	f.Add("i-1", "warn", "opened", "1,2", int64(1), 31.5, []byte("x"), uint32(0))
	f.Add("", "none", "", "", int64(0), math.NaN(), []byte(nil), uint32(0xffff))
	f.Add("0", "warn", "0", "0", int64(1), 31.5, []byte("0"), uint32(16))
	f.Add("\x00", "page", "Kind", ",", int64(-1), math.Inf(-1), []byte{0xff}, uint32(7))
	f.Fuzz(func(t *testing.T, id, level, word, flips string, number int64, float float64, blob []byte, mix uint32) {
		others := []any{nil, float, blob, id, number, true, word}
		spoil := func(row []any) []any {
			for i := range row {
				if mix>>(i%32)&1 == 1 {
					row[i] = others[(i+int(mix%97))%len(others)]
				}
			}
			return row
		}
		n := number
		wantRoundTrip(t, incidentTable, spoil([]any{id, word, word, level, level, n, n, n, word, float, float, word, word, word, word, word, n, n, n & 1, word, n, n & 1, n & 1}), decodeIncident, incidentValues)
		wantRoundTrip(t, eventTable, spoil([]any{id, id, n, word, n, level, float, word, n & 1, n & 1, n, word}), decodeEvent, eventValues)
		wantRoundTrip(t, stateTable, spoil([]any{word, word, "firing", level, id, n, n, n, n, n, n, n, n, n, flips}), decodeState, stateValues)
		wantRoundTrip(t, silenceTable, spoil([]any{id, word, word, n, n, word, word, n & 1}), decodeSilence, silenceValues)
	})
}

// wantRoundTrip reads a row, and if that makes sense, writes it and reads it again.
func wantRoundTrip[T any](t *testing.T, of table, row []any, read func([]any) (T, error), write func(T) []any) {
	t.Helper()
	v, err := read(row)
	if err != nil {
		if !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		return
	}
	again, err := read(write(v))
	if diff := cmp.Diff(v, again); diff != "" || err != nil {
		t.Fatalf("%s: %v (-first +second):\n%s", of.name, err, diff)
	}
	if text := fmt.Sprint(write(v)...); len(text) > maxLength/2 {
		t.Fatalf("%s: a row of %d bytes", of.name, len(text))
	}
}
