package ui

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"headgate/internal/format"
	"headgate/runbooks/drill"
	"headgate/web/api"
)

// What one page shows of a run: it has to stay small.
const (
	shownReverts  = 30
	shownMessages = 30
	shownSpec     = 12 << 10 // bytes
	shownReason   = 400      // characters of what headgate writes into a run
	shownNote     = 700      // characters of what a definition says of itself
	shownName     = 100      // characters of a name
)

// runRefresh is how often the page of a run in progress refreshes itself, in seconds.
const runRefresh = 2

// runView is all about one run.
type runView struct {
	runRow
	Note          string
	Owner         string
	Pool          string
	Abortable     bool
	Phases        []phaseRow
	Charts        []chart
	Hypotheses    []drill.Hypothesis // those that did not hold first, then those that are not known
	Expected      []string           // while there are no hypotheses: what it must show
	Messages      []drill.Message
	MoreMessages  int // messages that are left out
	Reverts       []drill.RevertResult
	MoreReverts   int
	Comparison    *runComparison // nil: there is none before
	Definition    string         // as YAML; empty: none was kept
	LinkIncidents bool           // incidents are production's, and have pages
	Flash         string
}

func (p *Pages) run(w http.ResponseWriter, r *http.Request, v viewer) error {
	report, err := p.admin.Run(r.Context(), r.PathValue("id"), api.FullSeries)
	if err != nil {
		return err
	}
	view := p.runView(r.Context(), report, time.Now())
	if r.URL.Query().Get("done") == "abort" && report.Verdict != "" {
		view.Flash = "The run is stopped, and its faults are cleared."
	}
	pg := page{Title: report.Name + ": " + view.Label.Text, NavPath: drillsPath, Body: view}
	if view.Abortable {
		pg.Refresh = runRefresh
	}
	return p.show(w, r, v, http.StatusOK, pg, "run")
}

func (p *Pages) runView(ctx context.Context, report drill.Run, now time.Time) runView {
	view := runView{
		runRow: runRowOf(report), Note: format.Truncate(report.Spec.Note, shownNote), Owner: report.Spec.Owner, Pool: report.Spec.Pool,
		Abortable: report.Verdict == "", Phases: phaseRows(report, now), LinkIncidents: report.Spec.Target == drill.Live,
		Definition: specText(report.Spec),
	}
	if view.Why == "" {
		view.Why = format.Truncate(report.Reason, shownReason)
	}
	view.Charts = runCharts(report, p.poolFacts(ctx, report.Spec.Pool, now))
	view.Hypotheses = slices.Clone(report.Hypotheses)
	rank := func(h drill.Hypothesis) int {
		return slices.Index([]string{"bad", "warn", "ok"}, hypothesisLabelOf(h).Class)
	}
	slices.SortStableFunc(view.Hypotheses, func(a, b drill.Hypothesis) int { return cmp.Compare(rank(a), rank(b)) })
	if len(view.Hypotheses) == 0 {
		for _, e := range report.Spec.Expect {
			view.Expected = append(view.Expected, e.String())
		}
	}
	view.setMessages(report)
	if view.Verdict != "" {
		view.Comparison = p.compareWithPrevious(ctx, report)
	}
	return view
}

// poolFacts returns the limits of a pool; of the first if none is named.
func (p *Pages) poolFacts(ctx context.Context, pool string, now time.Time) PoolFacts {
	ctx, cancel := context.WithTimeout(ctx, factsTimeout)
	defer cancel()
	if pool == "" {
		if names := p.poolNames(); len(names) > 0 {
			pool = names[0]
		}
	}
	return p.facts.of(ctx, now, pool)
}

// setMessages lists the notifications and reverted steps of the run, up to a limit.
func (v *runView) setMessages(report drill.Run) {
	// The lists of a running run belong to its runner: they must not be altered.
	v.Messages = slices.Clone(report.Messages[:min(len(report.Messages), shownMessages)])
	v.Reverts = slices.Clone(report.Reverts[:min(len(report.Reverts), shownReverts)])
	v.MoreMessages, v.MoreReverts = len(report.Messages)-len(v.Messages), len(report.Reverts)-len(v.Reverts)
	for n := range v.Messages {
		m := &v.Messages[n]
		m.Text, m.Incident = format.Truncate(m.Text, shownText), format.Truncate(m.Incident, shownName)
		m.Kind, m.Level, m.Channel = format.Truncate(m.Kind, shownName), format.Truncate(m.Level, shownName), format.Truncate(m.Channel, shownName)
	}
	for n := range v.Reverts {
		u := &v.Reverts[n]
		u.What, u.Note = format.Truncate(u.What, shownName), format.Truncate(u.Note, shownReason)
	}
}

// specText is the definition as YAML, empty if the run has none.
func specText(s drill.Spec) string {
	if s.ID == "" {
		return ""
	}
	text, err := s.YAML()
	if err != nil {
		return ""
	}
	return format.Truncate(string(text), shownSpec)
}

// hypothesisLabelOf says whether a hypothesis held.
func hypothesisLabelOf(h drill.Hypothesis) verdictLabel {
	switch {
	case !h.Measured:
		return verdictLabel{"warn", "?", "Not known"}
	case h.Passed:
		return verdictLabel{"ok", "✓", "Held"}
	}
	return verdictLabel{"bad", "✗", "Did not hold"}
}

// evidenceText is on what the value of a hypothesis rests, or why there is none.
func evidenceText(h drill.Hypothesis) string {
	if h.Measured {
		return format.Truncate(h.Evidence, shownReason)
	}
	return format.Truncate(h.Reason, shownReason)
}

// phaseRow is a part of a run, as a table shows it.
type phaseRow struct {
	Name, Note   string
	Began        time.Time
	Took         string
	Open         bool
	From, Length string // in thousandths of the run
	FaultActive  bool   // faults were in force
}

// phaseRows shows the phases against the time of the whole run.
func phaseRows(r drill.Run, now time.Time) (rows []phaseRow) {
	if len(r.Phases) == 0 {
		return nil
	}
	ends := func(p drill.Phase) time.Time {
		switch {
		case !p.Ended.IsZero():
			return p.Ended
		case !r.Ended.IsZero():
			return r.Ended
		}
		return now
	}
	first, last := r.Phases[0].Started, ends(r.Phases[len(r.Phases)-1])
	part := func(d time.Duration) string {
		return strconv.FormatFloat(1000*min(max(float64(d)/float64(max(last.Sub(first), 1)), 0), 1), 'f', 0, 64)
	}
	for _, p := range r.Phases {
		began, ended := p.Started, ends(p)
		took := max(ended.Sub(began), 0)
		rows = append(rows, phaseRow{
			Name: format.Sentence(humanize(string(p.Name))), Began: p.Started, Note: format.Truncate(p.Note, shownReason), Took: formatShortSeconds(took.Seconds()), Open: p.Ended.IsZero() && r.Ended.IsZero(),
			From: part(began.Sub(first)), Length: part(max(took, last.Sub(first)/200)), FaultActive: p.Name == drill.PhaseInject || p.Name == drill.PhaseHold,
		})
	}
	return rows
}

// drillsPath is where the pages of drills begin.
const drillsPath = "/drills"

// runRow is one run of a drill, as lists show it.
type runRow struct {
	drill.Run
	Label    verdictLabel
	Tightest *drill.Hypothesis // nil: there is none
	Why      string            // it did not pass, or what it wanted of a run that was not begun
	Trigger  string            // as people say it

	Due  time.Time // zero: by hand, or it did not begin
	Late time.Duration
}

// runRowOf shortens what was written by people, and leaves out what would be said twice.
func runRowOf(r drill.Run) runRow {
	if r.Verdict == drill.Passed {
		r.Reason = "" // it repeats the verdict
	}
	r.Name, r.Actor = format.Truncate(r.Name, shownName), format.Truncate(r.Actor, shownName)
	row := runRow{Run: r, Label: runLabelOf(r), Trigger: triggerName(string(r.Trigger)), Why: format.Truncate(r.Reason, shownReason)}
	if h, ok := r.Tightest(); ok {
		row.Tightest = &h
	}
	if row.Actor == string(r.Trigger) || row.Actor == row.Trigger {
		row.Actor = ""
	}
	if !r.Started.IsZero() && !r.Scheduled.IsZero() {
		row.Late, row.Due = max(r.Started.Sub(r.Scheduled), 0), r.Scheduled
	}
	if r.Count > 1 && !strings.Contains(row.Why, "due times") {
		row.Why = strings.TrimSpace(fmt.Sprintf("%s (%d due times)", row.Why, r.Count))
	}
	return row
}

// runLabelOf says how a run ended, or how far it is.
func runLabelOf(r drill.Run) verdictLabel {
	if r.Verdict == "" {
		return verdictLabel{"run", "▶", "Running"}
	}
	return verdictLabelOf(string(r.Verdict))
}

func triggerName(trigger string) string {
	for _, c := range triggerChoices() {
		if c.Value == trigger {
			return c.Name
		}
	}
	return humanize(trigger)
}

// formatShortSeconds shows a number of seconds of which a part counts.
func formatShortSeconds(v any) string {
	s, ok := toFloat(v)
	switch {
	case !ok || s >= 1:
		return formatSeconds(v)
	case s < 0.001:
		return "under 1 ms"
	}
	return formatNumber(math.Ceil(s*1000)) + " ms"
}

// clauseSentence makes a reason a sentence.
func clauseSentence(s string) string { return format.Sentence(strings.TrimRight(s, ".") + ".") }

// measureName is the name of a measure for people.
func measureName(name drill.Measure) string {
	switch name {
	case "p95_turnaround":
		return "p95"
	case "bad_retry_after":
		return "bad Retry-After"
	default:
		return humanize(string(name))
	}
}

// formatMeasure shows a value of a hypothesis, which may be absent.
func formatMeasure(v any, unit string) string {
	f, ok := toFloat(v)
	switch {
	case !ok:
		return "not known"
	case unit == "s" || unit == "ratio":
		return formatValue(f, unit)
	default:
		return formatNumber(f)
	}
}

// measured shows the value of a hypothesis.
func measured(h drill.Hypothesis) string {
	if !h.Measured {
		return formatMeasure(nil, h.Unit)
	}
	return formatMeasure(h.Value, h.Unit)
}

// limitText is what a value is held to.
func limitText(h drill.Hypothesis) string {
	limit := formatMeasure(h.Limit, h.Unit)
	switch h.Compare {
	case ">=":
		return "at least " + limit
	case "==":
		return "exactly " + limit
	default:
		return "at most " + limit
	}
}

// ofLimitText is the same after a value, short.
func ofLimitText(h drill.Hypothesis) string {
	limit := formatMeasure(h.Limit, h.Unit)
	if h.Compare == ">=" {
		return "of at least " + limit
	}
	return "of " + limit
}

// marginText says how far a value stayed from its limit.
func marginText(h drill.Hypothesis) string {
	m := h.Margin
	far := format.Text.Percent(math.Round(math.Abs(m)*100) / 100)
	if h.Limit == 0 {
		far = formatMeasure(math.Abs(m), h.Unit)
	}
	switch {
	case !h.Measured:
		return "not known"
	case m > 2 && h.Limit != 0:
		return "far away"
	case m > 0:
		return far + " to spare"
	case m < 0:
		return "missed by " + far
	case h.Passed:
		return "just so"
	default:
		return "not held"
	}
}

// runComparison is what is different from the run of the same drill before.
type runComparison struct {
	Before  runRow
	Rows    []comparisonRow
	Changed bool       // the definition is another
	Lines   []diffLine // what is different in it
	More    bool       // there is more of that
}

// comparisonRow is one value, then and now.
type comparisonRow struct {
	Name, Then, Now, Change string
	Class                   string // ok: better; bad: worse; idle: the same, or not to be compared
}

// diffLine is a line of a definition that is only in one of two.
type diffLine struct{ Sign, Text string }

const shownLines = 60

// compareWithPrevious compares a run with the one of the same drill before it that went to its
// end, nil if there is none.
func (p *Pages) compareWithPrevious(ctx context.Context, now drill.Run) *runComparison {
	if now.Started.IsZero() {
		return nil
	}
	list, err := p.admin.Runs(ctx, drill.Query{
		Drill: now.Drill, Until: now.Started, Limit: 1,
		Verdicts: []drill.Verdict{drill.Passed, drill.Failed, drill.Inconclusive},
	})
	if err != nil || len(list.Items) == 0 || list.Items[0].Drill != now.Drill {
		return nil
	}
	before := list.Items[0]
	d := &runComparison{Before: runRowOf(before), Rows: comparisonRows(before, now), Changed: before.SpecVersion != now.SpecVersion}
	if d.Changed {
		if old, err := p.admin.Run(ctx, before.ID, api.NoSeries); err == nil {
			d.Lines, d.More = diffLines(specText(old.Spec), specText(now.Spec))
		}
	}
	return d
}

func comparisonRows(then, now drill.Run) (rows []comparisonRow) {
	find := func(in drill.Run, h drill.Hypothesis) int {
		return slices.IndexFunc(in.Hypotheses, func(o drill.Hypothesis) bool { return o.Measure == h.Measure && o.Compare == h.Compare })
	}
	for _, h := range now.Hypotheses {
		if n := find(then, h); n >= 0 {
			rows = append(rows, compareHypothesis(then.Hypotheses[n], h))
		} else {
			rows = append(rows, comparisonRow{measureName(h.Measure), dash, measured(h) + " " + ofLimitText(h), "was not required", "idle"})
		}
	}
	for _, h := range then.Hypotheses {
		if find(now, h) < 0 {
			rows = append(rows, comparisonRow{measureName(h.Measure), measured(h) + " " + ofLimitText(h), dash, "is no longer required", "idle"})
		}
	}
	if then.Recovered > 0 && now.Recovered > 0 {
		rows = append(rows, comparisonRow{"recovered after", formatSeconds(then.Recovered.Seconds()), formatSeconds(now.Recovered.Seconds()), "", "idle"})
	}
	return rows
}

// compareHypothesis ignores differences of margins of half a percent, which are noise.
func compareHypothesis(then, now drill.Hypothesis) comparisonRow {
	row := comparisonRow{measureName(now.Measure), measured(then) + " " + ofLimitText(then), measured(now) + " " + ofLimitText(now), "the same", "idle"}
	a, b := then.Margin, now.Margin
	switch {
	case !then.Measured || !now.Measured:
		row.Change = "cannot be compared"
	case then.Passed && !now.Passed:
		row.Change, row.Class = "no longer holds", "bad"
	case !then.Passed && now.Passed:
		row.Change, row.Class = "holds now", "ok"
	case b > a+0.005:
		row.Change, row.Class = "larger margin", "ok"
	case b < a-0.005:
		row.Change, row.Class = "smaller margin", "bad"
	}
	return row
}

// diffLines returns the lines that are only in one of two texts, in their order. It follows the longest common
// subsequence (Wagner and Fischer, "The String-to-String Correction Problem", 1974).
func diffLines(a, b string) (apart []diffLine, more bool) {
	old, fresh := strings.Split(a, "\n"), strings.Split(b, "\n")
	const most = 1000 // lines compared, since time and memory grow with their product
	old, fresh = old[:min(len(old), most)], fresh[:min(len(fresh), most)]
	common := make([][]int, len(old)+1) // [i][j]: length of the subsequence of old[i:] and fresh[j:]
	for i := len(old); i >= 0; i-- {
		common[i] = make([]int, len(fresh)+1)
		for j := len(fresh) - 1; j >= 0 && i < len(old); j-- {
			common[i][j] = max(common[i+1][j], common[i][j+1])
			if old[i] == fresh[j] {
				common[i][j] = common[i+1][j+1] + 1
			}
		}
	}
	for i, j := 0, 0; i < len(old) || j < len(fresh); {
		switch {
		case i < len(old) && j < len(fresh) && old[i] == fresh[j]:
			i, j = i+1, j+1
		case j == len(fresh) || i < len(old) && common[i+1][j] >= common[i][j+1]:
			apart = append(apart, diffLine{"−", old[i]})
			i++
		default:
			apart = append(apart, diffLine{"+", fresh[j]})
			j++
		}
	}
	return apart[:min(len(apart), shownLines)], len(apart) > shownLines
}
