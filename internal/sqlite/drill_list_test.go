package sqlite

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/runbooks/control"
	"headgate/runbooks/drill"
)

// recordRuns records runs of three drills, one of them renamed, with every verdict
// and trigger, several at the same moment, and one that goes on. Oldest first.
func recordRuns(t testing.TB, s *Store) (all []drill.Run) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	drills := []string{"burst", "overload", "alert-path"}
	for n := range 60 {
		of := drills[r.IntN(3)]
		run := newManualRun(runID(n), of)
		run.Trigger = triggers[r.IntN(3)]
		run.Started = noon.Add(time.Duration(n/3*2) * time.Hour)
		if of == "burst" && n < 30 {
			run.Name = "Old name"
		}
		run = mustClaim(t, s, run.Started, run)
		if n < 59 {
			run = mustSaveRun(t, s, run.Started, withVerdict(run, drill.Verdicts()[r.IntN(7)]))
		}
		all = append(all, run)
	}
	return all
}

// matchesQuery says whether a query means a run, in the plainest way.
func matchesQuery(q drill.Query, r drill.Run) bool {
	names := map[string][]string{"Old name": {"burst"}, "Weekly burst": {"burst"}, "Weekly overload": {"overload"}}
	return (q.Drill == "" || q.Drill == r.Drill || slices.Contains(names[q.Drill], r.Drill)) &&
		(len(q.Verdicts) == 0 || slices.Contains(q.Verdicts, r.Verdict)) &&
		(len(q.Triggers) == 0 || slices.Contains(q.Triggers, r.Trigger)) &&
		!r.Started.Before(q.Since) && (q.Until.IsZero() || r.Started.Before(q.Until)) && (!q.Running || r.Status != drill.Ended)
}

// queries are ways to ask.
func queries() (out []drill.Query) {
	for _, of := range []string{"", "burst", "Old name", "Weekly overload", "unknown"} {
		for _, verdicts := range [][]drill.Verdict{nil, {drill.Passed}, {drill.Failed, drill.Missed, drill.Aborted}, {"no such"}} {
			for _, by := range [][]drill.Trigger{nil, {drill.ByHand}, {drill.BySchedule, drill.ByCatchUp}} {
				for _, span := range [][2]time.Time{{}, {noon.Add(10 * time.Hour), noon.Add(25 * time.Hour)}, {{}, noon.Add(7 * time.Hour)}} {
					out = append(out, drill.Query{Drill: of, Verdicts: verdicts, Triggers: by, Since: span[0], Until: span[1]})
				}
			}
		}
	}
	return append(out, drill.Query{Running: true}, drill.Query{Running: true, Drill: "burst"}, drill.Query{Running: true, Verdicts: []drill.Verdict{drill.Passed}})
}

// TestRunsFiltered: each query finds what it means and nothing else, newest first,
// whatever the size of the pages.
func TestRunsFiltered(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	all := recordRuns(t, s)
	for n, q := range queries() {
		var want []string
		for _, r := range slices.Backward(all) {
			if matchesQuery(q, r) {
				want = append(want, r.ID)
			}
		}
		q.Limit = []int{9, 31, 100}[n%3]
		if n%40 == 0 {
			q.Limit = 1
		}
		if diff := cmp.Diff(want, listRunIDs(t, s, q)); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", q, diff)
		}
	}
	picked, err := s.Drills().RunsByID(t.Context(), []string{all[7].ID, "gone", "", all[3].ID})
	if err != nil || len(picked) != 2 || picked[0].ID != all[7].ID || picked[1].ID != all[3].ID {
		t.Errorf("picked %v, %v", picked, err)
	}
	for _, key := range []string{"x", "1.", "-1.a", "1.a.b", "01.a"} {
		for _, q := range []drill.Query{{After: key}, {After: key, Until: noon}} {
			if _, _, err := s.Drills().Runs(t.Context(), q); !errors.Is(err, control.ErrUnknownCursor) {
				t.Errorf("after %q: %v, want ErrKey", key, err)
			}
		}
	}
}

// TestRunsPlan: every statement that looks for runs is answered by one index, in
// its order: it visits no more rows than it returns, however many there are.
func TestRunsPlan(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	seen := map[string]bool{}
	for _, q := range queries() {
		for _, after := range []pageKey{{}, {noon.Add(20 * time.Hour), "r-1"}, {noon, "r-1"}} {
			p := page{since: q.Since, after: after, limit: 50}
			var drills []string
			if q.Drill != "" {
				drills = []string{q.Drill}
			}
			for _, w := range conditions(drills, q) {
				text, args := p.runStatement(w, q.Until)
				if seen[text] {
					continue
				}
				seen[text] = true
				wantIndexOnly(t, explainStorePlan(t, s, text, args...), text, w.text)
			}
		}
	}
	wantIndexOnly(t, explainStorePlan(t, s, selectUnfinished, 1), selectUnfinished, "")
}

// wantIndexOnly checks a plan: one search or scan of an index in its order, no sorting.
// With conditions of equality, all of them lead into the index.
func wantIndexOnly(t *testing.T, steps []string, text, equal string) {
	t.Helper()
	if len(steps) != 1 || !strings.Contains(steps[0], "USING COVERING INDEX") && !strings.Contains(steps[0], "USING INDEX drill_runs_open") {
		t.Errorf("%s\nis answered by %q", text, steps)
		return
	}
	for _, c := range strings.Split(equal, " AND ") {
		if c = strings.ReplaceAll(c, " ", ""); c != "" && !strings.Contains(steps[0], c) {
			t.Errorf("%s\nis answered by %q, which leaves %q to be looked for", text, steps, c)
		}
	}
	if strings.Contains(text, "(at_ms, id) <") && !strings.Contains(steps[0], "(at_ms,id)<") && !strings.Contains(steps[0], "at_ms<") {
		t.Errorf("%s\nis answered by %q, which reads from the newest on", text, steps)
	}
}

func explainStorePlan(t testing.TB, s *Store, text string, args ...any) []string {
	t.Helper()
	all, err := readConn(t.Context(), s.reader, func(r *reader) []string {
		return query(r, table{}, func(r *row) string { return fmt.Sprint(r.values[3]) }, "EXPLAIN QUERY PLAN "+text, args...)
	})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return all
}

// TestHistory: the sums are those of the runs, by day and drill, and each drill's
// latest run and pass are known.
func TestHistory(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	var all []drill.Run
	r := rand.New(rand.NewPCG(3, 4))
	for n := range 60 {
		run := newManualRun(runID(n), []string{"burst", "overload"}[r.IntN(2)])
		run.Started = noon.Add(time.Duration(n) * 7 * time.Hour)
		run = mustClaim(t, s, run.Started, run)
		for range r.IntN(3) {
			run.Hypotheses = append(run.Hypotheses, drill.Hypothesis{Measured: r.IntN(4) > 0, Margin: float64(r.IntN(200)-100) / 64})
		}
		all = append(all, mustSaveRun(t, s, run.Started, withVerdict(run, drill.Verdicts()[r.IntN(3)])))
	}
	for _, q := range []drill.HistoryQuery{{}, {Drill: "burst"}, {Drill: "Weekly overload"}, {Drill: "unknown"}, {Since: noon.AddDate(0, 0, 3), Until: noon.AddDate(0, 0, 9)}} {
		got, err := s.Drills().History(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(countHistory(all, q), got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", q, diff)
		}
	}
	h, err := s.Drills().History(t.Context(), drill.HistoryQuery{})
	if latest, again := s.Drills().Latest(t.Context()); err != nil || again != nil || !cmp.Equal(latest, h.Latest) {
		t.Errorf("latest %v, %v, %v", latest, err, again)
	}
	got := explainStorePlan(t, s, "SELECT * FROM drill_days WHERE day_ms >= ? AND day_ms <= ? ORDER BY day_ms DESC, drill DESC, verdict DESC LIMIT 5", 1, 2)
	if len(got) != 1 || !strings.Contains(got[0], "day_ms>? AND day_ms<?") {
		t.Errorf("a year is read by %q", got)
	}
}

// countHistory is History by counting runs.
func countHistory(all []drill.Run, q drill.HistoryQuery) (h drill.History) {
	latest := map[string]*drill.Latest{}
	for _, r := range all {
		if q.Drill != "" && q.Drill != r.Drill && q.Drill != r.Name {
			continue
		}
		l := latest[r.Drill]
		if l == nil {
			l = &drill.Latest{Drill: r.Drill}
			latest[r.Drill] = l
		}
		l.Name, l.Run, l.Verdict, l.At = r.Name, r.ID, r.Verdict, r.Started
		if r.Verdict == drill.Passed {
			l.PassedRun, l.PassedAt = r.ID, r.Started
		}
		day := r.Started.Truncate(24 * time.Hour)
		if !q.Since.IsZero() && (day.Before(q.Since.Truncate(24*time.Hour)) || day.After(q.Until)) {
			continue
		}
		n := slices.IndexFunc(h.Days, func(d drill.Day) bool { return d.Day.Equal(day) && d.Drill == r.Drill })
		if n < 0 {
			h.Days, n = append(h.Days, drill.Day{Day: day, Drill: r.Drill, Verdicts: map[drill.Verdict]int{}}), len(h.Days)
		}
		d := &h.Days[n]
		d.Verdicts[r.Verdict]++
		if t, ok := r.Tightest(); ok {
			if d.WithMargin == 0 || t.Margin < d.Tightest {
				d.Tightest = t.Margin
			}
			d.WithMargin, d.MarginSum = d.WithMargin+1, d.MarginSum+t.Margin
		}
	}
	slices.SortStableFunc(h.Days, func(a, b drill.Day) int {
		if c := a.Day.Compare(b.Day); c != 0 {
			return c
		}
		return strings.Compare(a.Drill, b.Drill)
	})
	for _, of := range []string{"burst", "overload"} {
		if l := latest[of]; l != nil {
			h.Latest = append(h.Latest, *l)
		}
	}
	return h
}

// TestPruneRuns: runs that ended before the time go with all that belongs to them;
// those that go on stay, and so does the last pass of each drill.
func TestPruneRuns(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	day := func(n int) time.Time { return noon.AddDate(0, 0, n) }
	recordEndedRun(t, s, "first-pass", "burst", day(0), drill.Passed)
	recordEndedRun(t, s, "last-pass", "burst", day(1), drill.Passed)
	recordEndedRun(t, s, "failed", "burst", day(1), drill.Failed)
	recordEndedRun(t, s, "never-passed", "overload", day(2), drill.Aborted)
	recordEndedRun(t, s, "young", "burst", day(5), drill.Failed)
	goesOn := mustClaim(t, s, day(2).Add(time.Hour), newManualRun("goes-on", "burst"))
	goesOn = mustSaveRun(t, s, day(2).Add(time.Hour), withProgress(goesOn, 700))
	rows := func() (n int) {
		if err := s.reader.QueryRowContext(t.Context(), "SELECT (SELECT count(*) FROM drill_parts) + (SELECT count(*) FROM drill_series)").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := rows()
	for range 2 {
		if _, err := s.Prune(t.Context(), day(5)); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"young", "goes-on", "last-pass"}, listRunIDs(t, s, drill.Query{})); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
	if gone := before - rows(); gone != 3*3 { // no series, three parts
		t.Errorf("%d rows of parts and series are gone", gone)
	}
	if diff := cmp.Diff(goesOn, mustLoadRun(t, s, "goes-on")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	h, err := s.Drills().History(t.Context(), drill.HistoryQuery{})
	if err != nil || len(h.Days) != 1 || len(h.Latest) != 2 || !h.Latest[0].PassedAt.Equal(day(1)) {
		t.Errorf("%+v, %v", h, err)
	}
	mustSaveRun(t, s, day(6), withVerdict(goesOn, drill.Passed))
	if _, err := s.Prune(t.Context(), day(9)); err != nil {
		t.Fatal(err)
	}
	if got := listRunIDs(t, s, drill.Query{}); !cmp.Equal(got, []string{"goes-on"}) {
		t.Errorf("%v: there is a later pass now", got)
	}
}
