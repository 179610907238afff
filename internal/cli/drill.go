package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"headgate/internal/format"
	"headgate/runbooks/drill"
	"headgate/web/api"
)

// drillService is a service that runs drills.
type drillService struct{ Service }

// call calls f with a client of the service. Whether it answers is found out before
// a token is looked for: where no service has ever run there is no token, and the
// missing token is not what is wrong.
func (s *drillService) call(ctx context.Context, f func(*api.Client) error) error {
	t, err := s.target()
	if err != nil {
		return err
	}
	if t.unusable != nil {
		err = pingWithoutToken(ctx, t)
	}
	if err == nil {
		err = s.Service.call(ctx, f)
	}
	if isUnreachable(err) {
		with := ""
		if s.Config != "" {
			with = " --config " + shellQuote(s.Config)
		}
		return fmt.Errorf("%w\ndrills run in the service; start it with: headgate serve%s", err, with)
	}
	return err
}

// pingWithoutToken returns an error if no service answers at the target.
func pingWithoutToken(ctx context.Context, t target) error {
	c, err := api.NewClient(api.ClientConfig{URL: t.url})
	if err != nil {
		return nil // the call that follows says why
	}
	defer c.Close()
	return c.Ping(ctx)
}

// runReader reads runs of drills: from the service, or from its database.
type runReader interface {
	Runs(ctx context.Context, q drill.Query) (api.DrillRunList, error)
	Run(ctx context.Context, id, series string) (drill.Run, error)
}

// readRuns calls f with a reader of the service, or of its database if there is no answer.
func (s *drillService) readRuns(ctx context.Context, f func(runReader) error) error {
	return s.callOrRead(ctx, func(c *api.Client) error { return f(c) },
		func(dir string) error { return f(recordedRuns{dir}) })
}

// allRuns reads all pages of a query.
func allRuns(ctx context.Context, r runReader, q drill.Query) ([]drill.Run, string, error) {
	q.Limit = api.MaxPage
	return readPages(func(after string) ([]drill.Run, string, error) {
		q.After = after
		list, err := r.Runs(ctx, q)
		return list.Items, list.Next, err
	})
}

// resolveRun completes the beginning of the ID of a run.
func resolveRun(ctx context.Context, r runReader, given string) (string, error) {
	all := func() ([]drill.Run, string, error) { return allRuns(ctx, r, drill.Query{}) }
	return resolveID("run", given, all, func(r *drill.Run) string { return r.ID })
}

// Drills lists drills.
type Drills struct{ drillService }

// Run lists them.
func (d *Drills) Run(ctx context.Context) error {
	return ask(ctx, d, func(c *api.Client) (api.DrillList, error) { return c.Drills(ctx) },
		func(p *printer, all *api.DrillList) { drillTable(p, all, d.Now()) })
}

// drillTable lists drills, with a banner while they are frozen and notes below the table.
func drillTable(p *printer, all *api.DrillList, now time.Time) {
	if f := all.Freeze; f.Frozen {
		p.line(warning, "FROZEN by %s: %s; no drill runs until headgate drill unfreeze",
			cmp.Or(f.By, "unknown"), cmp.Or(f.Reason, "no reason given"))
		p.printf("\n")
	}
	header := []any{"DRILL", "NAME", "TARGET", "POOL", "SCHEDULE", "NEXT", "LAST", "LAST PASSED"}
	list(p, all.Items, "no drills", header, func(t *table, d *api.DrillSummary) {
		schedule, next, last := "manual", "", ""
		if d.Schedule != "" {
			schedule = d.Schedule + " " + cmp.Or(d.Zone, "UTC")
		}
		if len(d.NextRuns) > 0 {
			next = timestamp(d.NextRuns[0].At.Time)
		}
		if d.Running != nil {
			last = "running"
		} else if d.Last != nil {
			last = d.Last.Verdict
		}
		t.row(plain, d.ID, d.Name, d.Target, d.Pool, schedule, next, last, passedAgo(d, now))
	})
	for i := range all.Items {
		p.notes(all.Items[i].ID, drillNotes(&all.Items[i]))
	}
}

// passedAgo says how many days ago a drill last passed.
func passedAgo(d *api.DrillSummary, now time.Time) string {
	late := ""
	if d.Overdue {
		late = ", overdue"
	}
	if d.LastPassedAt.IsZero() {
		return "never" + late
	}
	if days := int(now.Sub(d.LastPassedAt.Time) / (24 * time.Hour)); days > 0 {
		return format.Plural(days, "day") + " ago" + late
	}
	return "today" + late
}

// drillNotes are what the table does not say.
func drillNotes(d *api.DrillSummary) (lines []string) {
	for _, problem := range d.Problems {
		lines = append(lines, "cannot run: "+problem)
	}
	if d.Running != nil {
		lines = append(lines, "running: headgate drill show "+*d.Running)
	}
	for _, n := range d.NextRuns {
		line := fmt.Sprintf("due %s (%s)", n.Local, timestamp(n.At.Time))
		if n.Note != "" {
			line += ", " + n.Note
		}
		lines = append(lines, line)
	}
	return lines
}

// DrillHistory lists runs of drills.
type DrillHistory struct {
	drillService
	Drill, Verdict, Trigger, Since, Until string
	CSV                                   bool
}

// Run lists them.
func (h *DrillHistory) Run(ctx context.Context) error {
	if h.JSON && h.CSV {
		return Usage(errors.New("--json and --csv exclude each other"))
	}
	q, err := h.query()
	if err != nil {
		return Usagef("--%w", err)
	}
	return h.readRuns(ctx, func(r runReader) error {
		all, rest, err := allRuns(ctx, r, q)
		if err != nil {
			return err
		}
		h.warnTruncated(rest, "runs")
		if h.CSV {
			return api.WriteRunsCSV(h.Out, all)
		}
		return h.show(api.DrillRunList{Items: all, Next: rest}, func(p *printer) { runTable(p, all) })
	})
}

// query reads the flags as the API reads its parameters of the same names.
func (h *DrillHistory) query() (drill.Query, error) {
	v := url.Values{"drill": {h.Drill}}
	for name, text := range map[string]string{
		"verdict": h.Verdict, "trigger": h.Trigger, "since": h.Since, "until": h.Until,
	} {
		v.Set(name, strings.ReplaceAll(text, " ", ""))
	}
	return api.RunQuery(v, h.Now())
}

// runTable lists runs. One that never started shows when it was due.
func runTable(p *printer, all []drill.Run) {
	header := []any{"ID", "DRILL", "VERDICT", "STARTED", "TRIGGER", "TOOK", "TIGHTEST", "REASON"}
	list(p, all, "no runs", header, func(t *table, r *drill.Run) {
		tightest := ""
		if h, ok := r.Tightest(); ok {
			value, limit := format.Table.Value(h.Value, h.Unit), format.Table.Value(h.Limit, h.Unit)
			tightest = fmt.Sprintf("%s %s of %s", h.Measure, value, limit)
		}
		took := "-"
		if !r.Started.IsZero() && !r.Ended.IsZero() {
			took = elapsed(r.Took())
		}
		t.row(verdictStyle(r), r.ID, r.Drill, verdictText(r), timestampOr(cmp.Or(r.Started, r.Scheduled), ""),
			r.Trigger, took, tightest, r.Reason)
	})
}

// verdictText is the verdict of a run, or its status before that.
func verdictText(r *drill.Run) string {
	return cmp.Or(string(r.Verdict), string(r.Status))
}

// verdictStyle makes a run stand out that did not pass.
func verdictStyle(r *drill.Run) style {
	switch drill.Verdict(verdictText(r)) {
	case drill.Failed, drill.Interrupted:
		return alarm
	case drill.Aborted, drill.Inconclusive, drill.Missed:
		return warning
	default:
		return plain
	}
}

// ShowDrillRun shows one run.
type ShowDrillRun struct{ drillService }

// Run shows the run whose ID begins as given.
func (s *ShowDrillRun) Run(ctx context.Context, id string) error {
	return s.readRuns(ctx, func(r runReader) error {
		id, err := resolveRun(ctx, r, id)
		if err != nil {
			return err
		}
		series := api.LastPoint
		if s.JSON {
			series = api.FullSeries
		}
		report, err := r.Run(ctx, id, series)
		if err != nil {
			return err
		}
		return s.show(report, func(p *printer) { runText(p, &report) })
	})
}

// runText shows a run in full: verdict, facts, hypotheses, phases, messages, rollbacks.
func runText(p *printer, r *drill.Run) {
	head := r.Name + "  " + strings.ToUpper(verdictText(r))
	if r.Reason != "" {
		head += "  " + r.Reason
	}
	p.line(verdictStyle(r), "%s", head)
	if r.Live {
		p.printf("%s\n", runProgress(r))
	}
	p.printf("\n")
	runFacts(p, r)
	if len(r.Hypotheses) > 0 {
		hypotheses(p, r.Hypotheses)
	}
	if len(r.Phases) > 0 {
		phases(p, r.Phases)
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		if i == 0 {
			p.printf("\nMESSAGES\n")
		}
		p.printf("%s  %s %s  %s\n", timestampOr(m.Accepted, "not accepted"), m.Level, m.Kind, format.FirstLine(m.Text))
	}
	for i := range r.Reverts {
		u := &r.Reverts[i]
		if i == 0 {
			p.printf("\nROLLBACKS\n")
		}
		result, note := "done", ""
		if !u.OK {
			result = "FAILED"
		}
		if u.Note != "" {
			note = ": " + u.Note
		}
		p.printf("%s  %s  %s in %s%s\n", timestamp(u.At), u.What, result, elapsed(u.Took), note)
	}
}

// runFacts shows what identifies a run, and its durations. "took" is wall-clock time,
// "recovered" is scenario time.
func runFacts(p *printer, r *drill.Run) {
	t := p.table()
	t.fact("drill", fmt.Sprintf("%s, spec %s, on %s", r.Drill, r.SpecVersion, r.Target))
	trigger := string(r.Trigger)
	if r.Actor != trigger {
		trigger += ", " + r.Actor
	}
	t.fact("started", fmt.Sprintf("%s (%s)", timestampOr(r.Started, "never"), trigger))
	t.fact("due", timestampOr(r.Scheduled, ""))
	if !r.Started.IsZero() && !r.Ended.IsZero() {
		t.fact("took", fmt.Sprintf("%s at speed %g", elapsed(r.Took()), r.Speed))
	}
	if r.Count > 0 {
		t.fact("missed", fmt.Sprintf("%d due times", r.Count))
	}
	if r.ClearTook > 0 && r.Injected > 0 {
		t.fact("faults", fmt.Sprintf("injected into %d calls, cleared in %s", r.Injected, elapsed(r.ClearTook)))
	}
	if r.Recovered > 0 {
		t.fact("recovered", "within "+elapsed(r.Recovered))
	}
	t.fact("version", r.Version)
	t.fact("id", r.ID)
	t.end()
}

// hypotheses shows each hypothesis with its margin: the distance from the limit as a share
// of the limit, below 0 if it failed.
func hypotheses(p *printer, all []drill.Hypothesis) {
	p.printf("\n")
	header := []any{blank{}, "HYPOTHESIS", "VALUE", "LIMIT", "MARGIN", "EVIDENCE"}
	list(p, all, "", header, func(t *table, h *drill.Hypothesis) {
		result, look, note := "held", plain, h.Evidence
		value, margin := format.Table.Value(h.Value, h.Unit), format.Table.Percent(h.Margin)
		switch {
		case !h.Measured:
			result, look, note = "unknown", warning, cmp.Or(h.Reason, h.Evidence)
			value, margin = format.Unknown, "-"
		case !h.Passed:
			result, look, note = "FAILED", alarm, strings.TrimPrefix(h.Reason+"; "+h.Evidence, "; ")
		}
		limit := string(h.Compare) + " " + format.Table.Value(h.Limit, h.Unit)
		t.row(look, result, h.Measure, value, limit, margin, note)
	})
}

// phases shows the phases in the order in which they started.
func phases(p *printer, all []drill.Phase) {
	p.printf("\n")
	list(p, all, "", []any{"PHASE", "STARTED", "TOOK", "NOTE"}, func(t *table, ph *drill.Phase) {
		took := "running"
		if !ph.Ended.IsZero() {
			took = elapsed(ph.Ended.Sub(ph.Started))
		}
		t.row(plain, ph.Name, timestamp(ph.Started), took, ph.Note)
	})
}
