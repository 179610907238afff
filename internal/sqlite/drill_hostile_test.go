package sqlite

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"headgate/runbooks/drill"
)

// newUncheckedDrillStore is a record with one row of everything about drills, and no checks.
func newUncheckedDrillStore(t testing.TB) *Store {
	t.Helper()
	s, err := Ephemeral(t.Context(), testOptions(""))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeStore(t, s) })
	recordEndedRun(t, s, "old", "burst", noon, drill.Passed)
	r := mustClaim(t, s, noon.Add(time.Hour), newScheduledRun("r-1", "burst"))
	mustSaveRun(t, s, noon.Add(time.Hour), withProgress(r, 10))
	d := s.Drills()
	if err := errors.Join(d.SetFreeze(t.Context(), drill.Freeze{Actor: "anna"}), d.SetDueTime(t.Context(), drill.DueTime{Drill: "burst", Next: noon})); err != nil {
		t.Fatal(err)
	}
	for _, statement := range []string{"PRAGMA ignore_check_constraints = 1", "DELETE FROM drill_parts WHERE run = 'old'"} {
		if _, err := s.writer.ExecContext(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// TestHostileDrills: whatever makes no sense in a row about drills is an error that
// names its column, from each call that reads it, and never a guess.
func TestHostileDrills(t *testing.T) {
	ctx := t.Context()
	readers := map[string]func(s *Store) error{
		"drill_runs": func(s *Store) error {
			_, err := s.Drills().Run(ctx, "r-1")
			if _, _, listed := s.Drills().Runs(ctx, drill.Query{}); !errors.Is(listed, ErrCorrupt) {
				t.Errorf("the list says %v", listed)
			}
			return err
		},
		"drill_lock": func(s *Store) error {
			_, err := s.Drills().Claim(ctx, noon, newManualRun("r-9", "burst"), lease)
			if saved := s.Drills().Save(ctx, noon, newManualRun("r-1", "burst")); !errors.Is(saved, ErrCorrupt) {
				t.Errorf("saving says %v", saved)
			}
			return err
		},
		"drill_freeze": func(s *Store) error {
			_, err := s.Drills().Claim(ctx, noon, newManualRun("r-9", "burst"), lease)
			if _, read := s.Drills().Frozen(ctx); !errors.Is(read, ErrCorrupt) {
				t.Errorf("reading says %v", read)
			}
			return err
		},
		"drill_dues":   func(s *Store) error { _, err := s.Drills().DueTimes(ctx); return err },
		"drill_latest": func(s *Store) error { _, err := s.Drills().History(ctx, drill.HistoryQuery{}); return err },
		"drill_days":   func(s *Store) error { _, err := s.Drills().History(ctx, drill.HistoryQuery{}); return err },
		"drill_parts":  func(s *Store) error { _, err := s.Drills().Run(ctx, "r-1"); return err },
		"drill_series": func(s *Store) error { _, err := s.Drills().Run(ctx, "r-1"); return err },
	}
	s := newUncheckedDrillStore(t)
	run := func(statement string) {
		t.Helper()
		if _, err := s.writer.ExecContext(ctx, statement); err != nil {
			t.Fatalf("%.80s: %v", statement, err)
		}
	}
	before := loadRun1(t, s)
	for name := range readers {
		run("CREATE TEMP TABLE kept_" + name + " AS SELECT * FROM " + name)
	}
	for _, h := range badDrillColumns() {
		for _, value := range h.values {
			where := ""
			if part, ok := strings.CutPrefix(h.column, "body of "); ok {
				where = " WHERE part = '" + part + "'"
			}
			column, _, _ := strings.Cut(h.column, " ")
			if h.table == "drill_runs" {
				where = " WHERE id = 'r-1'"
			}
			run("UPDATE " + h.table + " SET " + column + " = " + value + where)
			if err := readers[h.table](s); !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s.%s = %s: %v, want ErrCorrupt", h.table, h.column, value, err)
			} else {
				wantContains(t, err.Error(), h.table+"."+column)
			}
			run("DELETE FROM " + h.table)
			run("INSERT INTO " + h.table + " SELECT * FROM kept_" + h.table)
		}
	}
	if diff := cmp.Diff(before, loadRun1(t, s)); diff != "" { // what was spoilt was the value alone
		t.Errorf("-want +got:\n%s", diff)
	}
}

func loadRun1(t testing.TB, s *Store) drill.Run {
	t.Helper()
	return mustLoadRun(t, s, "r-1")
}

func badDrillColumns() []badColumn {
	badLength := []string{"-1", "'x'", "9e30"}
	badList := []string{"''", "'{}'", "'[1]'", "x'5b5d'", "body || 'x'", "printf('%.*c', 50000, '[')"}
	badItem := func(what ...string) (out []string) {
		for n := 0; n < len(what); n += 2 {
			out = append(out, "replace(body, '"+what[n]+"', '"+what[n+1]+"')")
		}
		return append(out, badList...)
	}
	return []badColumn{
		{"drill_runs", "drill", badText}, {"drill_runs", "cause", badWord}, {"drill_runs", "scheduled_ms", badTime},
		{"drill_runs", "status", []string{"''", "'RUNNING'", "2", "'over'"}}, {"drill_runs", "verdict", append([]string{"'passed'"}, badWord...)},
		{"drill_runs", "fence", []string{"-1", "9007199254740992", "'x'"}}, {"drill_runs", "opening", badText}, {"drill_runs", "body", badBody},
		inBody("drill_runs", "id", []string{`"r-2"`, `7`}), inBody("drill_runs", "name", badJSONText), inBody("drill_runs", "version", badJSONText),
		inBody("drill_runs", "actor", badJSONText), inBody("drill_runs", "speed", badJSONReal), inBody("drill_runs", "started_at", badJSONTime),
		inBody("drill_runs", "ended_at", badJSONTime), inBody("drill_runs", "reason", badJSONText), inBody("drill_runs", "missed", badJSONCount),
		inBody("drill_runs", "injected", badJSONCount), inBody("drill_runs", "clear_took_s", []string{`-1`, `"x"`, `9e30`}),
		inBody("drill_runs", "recovered_s", []string{`-1`, `"x"`}), inBody("drill_runs", "phases", []string{`{}`, `[1]`, `"x"`}),
		inBody("drill_runs", "phases[1].name", badJSONWord), inBody("drill_runs", "phases[0].note", badJSONText), inBody("drill_runs", "phases[0].ended_at", badJSONTime),
		inBody("drill_runs", "hypotheses", []string{`{}`, `[1]`}), inBody("drill_runs", "hypotheses[0].evidence", badJSONText),
		inBody("drill_runs", "hypotheses[0].value", []string{`"41"`, `{}`}), inBody("drill_runs", "hypotheses[0].passed", badJSONFlag),
		{"drill_lock", "run", badID[1:]}, {"drill_lock", "drill", badText}, {"drill_lock", "since_ms", badTime}, {"drill_lock", "until_ms", badTime},
		{"drill_lock", "lease_ns", badLength}, {"drill_lock", "fence", []string{"-1", "9007199254740991", "'x'", "9223372036854775807"}},
		{"drill_freeze", "frozen", badFlag}, {"drill_freeze", "actor", badText}, {"drill_freeze", "reason", badText}, {"drill_freeze", "since_ms", badTime},
		{"drill_dues", "drill", badText}, {"drill_dues", "schedule", badText}, {"drill_dues", "zone", badText}, {"drill_dues", "next_ms", badTime},
		{"drill_latest", "name", badText}, {"drill_latest", "run", badID}, {"drill_latest", "verdict", badWord}, {"drill_latest", "at_ms", badTime},
		{"drill_latest", "passed", badID[1:]}, {"drill_latest", "passed_ms", badTime},
		{"drill_days", "runs", badCount}, {"drill_days", "judged", badCount}, {"drill_days", "margin", badReal}, {"drill_days", "tightest", badReal},
		{"drill_days", "verdict", badWord},
		{"drill_parts", "body of spec", []string{"''", "'[]'", "body || '1'", "replace(body, ':60,', ':1e400,')", "replace(body, 'default', '" + strings.Repeat("d", maxReason+1) + "')"}},
		{"drill_parts", "body of undo", badItem("restored", strings.Repeat("f", maxReason+1), `"took_s":1`, `"took_s":-1`)},
		{"drill_parts", "body of messages", badItem("second line", strings.Repeat("f", maxReason+1), `"accepted_at":"2026`, `"accepted_at":"1926`)},
		{"drill_series", "chunk", []string{"1", "-1", "'x'"}}, {"drill_series", "points", []string{"-1", "601", "'x'"}},
		{"drill_series", "body", []string{"''", "'!'", "body || 'AA'", "body || '='", "body || body", "substr(body, 3)", "x'00'", "'" + strings.Repeat("_", 200) + "'"}},
	}
}

// TestManyTexts: what does not fit into a run is cut or left out, and the run can
// be read nevertheless.
func TestManyTexts(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	long := strings.Repeat("\"é\x1b\n", 5_000)
	r := newManualRun("r-1", "burst")
	r.Name, r.Actor, r.Version = long, long, long
	r = mustClaim(t, s, noon, r)
	r.Reason = long
	for range 2 * maxItems {
		r.Phases = append(r.Phases, drill.Phase{Name: drill.PhaseName(long), Note: long})
		r.Hypotheses = append(r.Hypotheses, drill.Hypothesis{Value: math.NaN(), Margin: math.Inf(-1), Evidence: long, Reason: long})
		r.Reverts = append(r.Reverts, drill.RevertResult{What: long, Note: long, Took: -1})
		r.Messages = append(r.Messages, drill.Message{Text: long, Channel: long, Kind: "post"})
	}
	r.Phases = nil // names are words of the program's own
	r.Series = make([]drill.Point, drill.MaxPoints+10)
	r.Series[5] = drill.Point{At: math.NaN(), Turnaround: math.Inf(1), QueueAge: -7, Depth: -1, Served: math.MaxInt}
	mustSaveRun(t, s, noon, withVerdict(r, drill.Failed))
	got := mustLoadRun(t, s, "r-1")
	if len(got.Hypotheses) == 0 || len(got.Reverts) == 0 || len(got.Messages) == 0 || len(got.Series) != drill.MaxPoints || len(got.Reason) > maxReason {
		t.Errorf("%d hypotheses, %d undone, %d messages, %d points", len(got.Hypotheses), len(got.Reverts), len(got.Messages), len(got.Series))
	}
	wantClean(t, got.Name, got.Actor, got.Version, got.Reason, got.Hypotheses[0].Reason, got.Reverts[0].Note, strings.ReplaceAll(got.Messages[0].Text, "\n", ""))
	if p := got.Series[5]; p.At != 0 || p.QueueAge != 0 || p.Depth != 0 || p.Served != math.MaxInt32 {
		t.Errorf("%+v", p)
	}
}

// TestHugeChunk: the largest points that there can be fit into their row.
func TestHugeChunk(t *testing.T) {
	points := make([]drill.Point, pointsPerChunk)
	for n := range points {
		points[n] = drill.Point{At: 1e30 * float64(1-n%2*2), Turnaround: 1e30, QueueAge: 1e30, Depth: math.MaxInt, InFlight: math.MaxInt, Arrived: math.MaxInt,
			Served: math.MaxInt, Refused: math.MaxInt, Errors: math.MaxInt}
	}
	body := packPoints(points)
	if len(body) > maxBody {
		t.Errorf("%d bytes", len(body))
	}
	if got, ok := unpackPoints(body, pointsPerChunk); !ok || len(got) != pointsPerChunk {
		t.Errorf("%d points, %v", len(got), ok)
	}
}

// FuzzSeries: a text is refused, or holds points that come back as they are.
func FuzzSeries(f *testing.F) {
	f.Add(packPoints(series(20)), 20)
	f.Add("", 0)
	f.Add("AAAAAAAAAAAA", 1)
	f.Add("/////////////////////", 3)
	f.Fuzz(func(t *testing.T, body string, n int) {
		points, ok := unpackPoints(body, min(max(n, 0), pointsPerChunk))
		if !ok {
			return
		}
		again, ok := unpackPoints(packPoints(points), len(points))
		if diff := cmp.Diff(points, again); !ok || diff != "" {
			t.Fatalf("-first +second:\n%s", diff)
		}
	})
}

// FuzzRun: any body or part of a run is rejected, or is encoded again as it was read.
func FuzzRun(f *testing.F) {
	run := withProgress(newManualRun("r-1", "burst"), 0)
	for _, v := range []any{run, run.Spec, run.Reverts, run.Messages} {
		body, err := encodeBody(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
		f.Add(strings.ToLower(body))
	}
	f.Add(`[{"text":"a\u001b[2J\nb\u202e"}]`)
	f.Fuzz(func(t *testing.T, body string) {
		if len(body) > maxBody/8 {
			return
		}
		wantSameBody[drill.Run](t, body)
		wantSameBody[drill.Spec](t, body)
		wantSameBody[[]drill.RevertResult](t, body)
		wantSameBody[[]drill.Message](t, body)
	})
}

// wantSameBody reads a body, and if that makes sense, writes it and reads it again.
func wantSameBody[T any](t *testing.T, body string) {
	t.Helper()
	r := partTable.rowOf("r-1", "part", body)
	v := decodeBody[T](r, "body")
	if r.err != nil {
		if !errors.Is(r.err, ErrCorrupt) {
			t.Fatal(r.err)
		}
		return
	}
	again, err := encodeBody(v)
	if err != nil {
		t.Fatal(err)
	}
	r.values[2] = again
	if diff := cmp.Diff(v, decodeBody[T](r, "body"), cmpopts.EquateEmpty()); diff != "" || r.err != nil {
		t.Fatalf("%v (-first +second):\n%s", r.err, diff)
	}
}
