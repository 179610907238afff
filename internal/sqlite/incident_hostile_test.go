package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
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

	// The same for values in a body, in JSON.
	badJSONText  = []string{`7`, `"` + strings.Repeat("t", maxReason+1) + `"`}
	badJSONTime  = []string{`"now"`, `-1`, `"1960-01-01T00:00:00Z"`, `"10000-01-01T00:00:00Z"`}
	badJSONFlag  = []string{`2`, `"yes"`}
	badJSONCount = []string{`-1`, `4294967296`, `"many"`, `0.5`}
	badJSONReal  = []string{`"x"`, `{}`}
	badJSONWord  = []string{`"Open"`, `"a b"`, `7`, `"` + strings.Repeat("w", maxWord+1) + `"`}
	badBody      = []string{"''", "'null'", "'[]'", "'{}'", "x'7b7d'", "body || 'x'", "body || '1'", "printf('%060000d', 1)", "printf('%.*c', 50000, '[')",
		"CAST(body || x'ff' AS TEXT)", "replace(body, ':1', ':1e400')"}
)

// inBody are the bad values of a path within the body of a table.
func inBody(table, path string, values []string) badColumn {
	bad := badColumn{table: table, column: "body"}
	for _, v := range values {
		bad.values = append(bad.values, fmt.Sprintf("json_set(body, '$.%s', json('%s'))", path, v))
	}
	return bad
}

func badIncidentColumns() []badColumn {
	return []badColumn{
		{"incidents", "id", badID}, {"incidents", "rule", badText}, {"incidents", "pool", badText}, {"incidents", "opened_ms", badTime},
		{"incidents", "ended_ms", badTime[:2]}, {"incidents", "due", badFlag}, {"incidents", "body", badBody},
		inBody("incidents", "id", []string{`"i-2"`, `7`}), inBody("incidents", "level", []string{`""`, `"PAGE"`, `2`}), inBody("incidents", "peak", badJSONWord),
		inBody("incidents", "changed_at", badJSONTime), inBody("incidents", "end_reason", badJSONWord), inBody("incidents", "value", badJSONReal),
		inBody("incidents", "threshold", badJSONReal), inBody("incidents", "unit", badJSONText), inBody("incidents", "summary", badJSONText),
		inBody("incidents", "impact", badJSONText), inBody("incidents", "runbook", badJSONText), inBody("incidents", "action", badJSONText),
		inBody("incidents", "seq", badJSONCount), inBody("incidents", "reopened", badJSONCount), inBody("incidents", "flapping", badJSONFlag),
		inBody("incidents", "acked_by", badJSONText), inBody("incidents", "ack_until", badJSONTime), inBody("incidents", "notified", badJSONFlag),
		{"rule_states", "rule", badText}, {"rule_states", "incident", badID[1:]}, {"rule_states", "body", badBody[:9]},
		inBody("rule_states", "phase", badJSONWord), inBody("rule_states", "level", badJSONWord), inBody("rule_states", "warn_ns", []string{`-1`, `"x"`, `9e30`}),
		inBody("rule_states", "last_resolved", badJSONTime), inBody("rule_states", "flap_times", []string{`"x"`, `[""]`, `[1]`, `["1960-01-01T00:00:00Z"]`}),
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
		{"incident_events", "seq", badCount}, {"incident_events", "kind", badWord}, {"incident_events", "at_ms", badTime},
		{"incident_events", "actor", badText}, {"incident_events", "body", badBody},
		inBody("incident_events", "id", []string{`""`, `"a.b"`}), inBody("incident_events", "level", badJSONWord), inBody("incident_events", "value", badJSONReal),
		inBody("incident_events", "muted", badJSONFlag), inBody("incident_events", "digested", badJSONFlag), inBody("incident_events", "count", badJSONCount),
		{"deliveries", "id", badID[1:]}, {"deliveries", "seq", badCount}, {"deliveries", "kind", badWord}, {"deliveries", "destination", badWord},
		{"deliveries", "created_ms", badTime}, {"deliveries", "state", badWord}, {"deliveries", "diverted", badFlag}, {"deliveries", "body", badBody},
		inBody("deliveries", "attempts", badJSONCount), inBody("deliveries", "tried_at", badJSONTime), inBody("deliveries", "next_at", badJSONTime),
		inBody("deliveries", "reason", badJSONText), inBody("deliveries", "plain_text", badJSONFlag), inBody("deliveries", "ambiguous_attempts", badJSONCount),
		inBody("deliveries", "ref.channel", badJSONText), inBody("deliveries", "ref.ts", badJSONText), inBody("deliveries", "ref", []string{`[]`, `"C"`}),
		inBody("deliveries", "notification.incident.level", badJSONWord), inBody("deliveries", "notification.event.level", badJSONWord),
		inBody("deliveries", "notification.event.value", badJSONReal), inBody("deliveries", "notification.ping", badJSONFlag),
		inBody("deliveries", "notification.running", badJSONCount), inBody("deliveries", "notification.mode_since", badJSONTime),
		inBody("deliveries", "notification.fallback_reason", badJSONText), inBody("deliveries", "notification.incident", []string{`[]`, `7`}),
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
	execSQL(t, path, "UPDATE incidents SET body = CAST(zeroblob(5000000) AS TEXT)")
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
		"incidents SET due = 2", "incidents SET opened_ms = -1", "incident_events SET seq = -1", "deliveries SET diverted = -1",
	} {
		if _, err := s.writer.ExecContext(t.Context(), "UPDATE "+change); err == nil {
			t.Errorf("passed: %s", change)
		}
	}
}

// FuzzBody: a body is rejected, or it is encoded again as it was read.
func FuzzBody(f *testing.F) {
	full, err := encodeBody(alerts.Delivery{Incident: "i-1", Seq: 1, Created: noon, State: alerts.Sent, Notification: alerts.Notification{
		Incident: fullIncident("i-1"), Event: fullEvent("i-1", 1), Mode: "observe", ModeSince: noon, Ping: true, FallbackReason: "why",
	}})
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{full, "", "{}", "null", full + " ", strings.Replace(full, "31.5", "31", 1), strings.Replace(full, "31.5", "-0.0", 1)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		r := deliveryTable.rowOf("", "i-1", int64(1), "post", "page", int64(1), "sent", int64(0), s)
		d := decodeBody[alerts.Delivery](r, "body")
		if r.err != nil {
			if !errors.Is(r.err, ErrCorrupt) {
				t.Fatal(r.err)
			}
			return
		}
		n := d.Notification
		wantClean(t, n.Incident.Summary, n.Incident.Impact, n.Incident.ID, n.Event.By, n.Mode, n.FallbackReason)
		text, err := encodeBody(d)
		if err != nil || len(text) > maxLength {
			t.Fatalf("%d bytes, %v", len(text), err)
		}
		r.values[8] = text
		if diff := cmp.Diff(d, decodeBody[alerts.Delivery](r, "body")); diff != "" || r.err != nil {
			t.Fatalf("%v (-first +second):\n%s", r.err, diff)
		}
	})
}

// FuzzDelivery: with any texts and numbers, a delivery is rejected, or it is read
// back valid for display.
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
	for _, v := range []any{fullIncident("i-1"), fullEvent("i-1", 1), fullState("queue_age", "i-1")} {
		body, err := encodeBody(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add("i-1", "queue_age", body, int64(1), []byte("x"), uint32(0))
	}
	f.Add("", "", "", int64(0), []byte(nil), uint32(0xffff))
	f.Add("\x00", "Kind", "{}", int64(-1), []byte{0xff}, uint32(7))
	f.Fuzz(func(t *testing.T, id, word, body string, number int64, blob []byte, mix uint32) {
		others := []any{nil, 0.5, blob, id, number, true, word}
		row := func(of table, row ...any) *row {
			for i := range row {
				if mix>>(i%32)&1 == 1 {
					row[i] = others[(i+int(mix%97))%len(others)]
				}
			}
			return of.rowOf(row...)
		}
		n := number
		wantRereadable(t, row(incidentTable, id, word, word, n, n, n&1, body), decodeIncident)
		wantRereadable(t, row(eventTable, id, n, word, n, word, body), decodeEvent)
		wantRereadable(t, row(stateTable, word, word, id, body), decodeState)
	})
}

// wantRereadable reads a row, and if that makes sense, writes its body and reads it again.
func wantRereadable[T any](t *testing.T, r *row, from func(*row) T) {
	t.Helper()
	v := from(r)
	if r.err != nil {
		if !errors.Is(r.err, ErrCorrupt) {
			t.Fatal(r.err)
		}
		return
	}
	text, err := encodeBody(v)
	if err != nil || len(text) > maxLength {
		t.Fatalf("%s: a body of %d bytes, %v", r.table, len(text), err)
	}
	r.values[slices.Index(r.columns, "body")] = text
	if diff := cmp.Diff(v, from(r)); diff != "" || r.err != nil {
		t.Fatalf("%s: %v (-first +second):\n%s", r.table, r.err, diff)
	}
}
