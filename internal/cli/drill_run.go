package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"headgate/internal/format"
	"headgate/runbooks/drill"
	"headgate/web/api"
)

const (
	pollInterval        = 250 * time.Millisecond
	unreachablePatience = 15 * time.Second // while waiting for a run
)

// RunDrill starts a drill, and waits for its verdict with Wait.
type RunDrill struct {
	drillService
	Speed        *float64 // nil: as the drill has it
	Reason       string
	Wait, DryRun bool
}

// Run starts the drill with that name or ID.
func (d *RunDrill) Run(ctx context.Context, name string) error {
	reason, err := reasonLine(d.Reason)
	if err != nil {
		return err
	}
	if err := api.CheckDrill(name); err != nil {
		return Usage(err)
	}
	request := api.DrillRunRequest{DryRun: d.DryRun, Reason: reason}
	if d.Speed != nil {
		if request.Speed = *d.Speed; !(request.Speed >= 1 && request.Speed <= api.MaxSpeed) {
			return Usagef("--speed must be from 1 to %d", api.MaxSpeed)
		}
	}
	return d.call(ctx, func(c *api.Client) error {
		reply, err := c.RunDrill(ctx, name, request)
		switch {
		case sentUnanswered(err):
			// Repeating the command would start another run.
			return fmt.Errorf("%w\nit may have started: headgate drill history --since 5m shows it", err)
		case err != nil:
			return err
		case reply.Run != nil && d.Wait:
			return (&runWaiter{RunDrill: d, client: c, id: *reply.Run}).wait(ctx)
		}
		return d.show(reply, func(p *printer) {
			if reply.Run == nil {
				planText(p, &reply.Plan)
				return
			}
			p.printf("%s started, at most %s: run %s\n", reply.Plan.Name, format.Table.Seconds(reply.Plan.WallTimeS), *reply.Run)
			p.printf("%s\n%s\n", d.showHint(*reply.Run), d.abortHint(*reply.Run))
		})
	})
}

// showHint and abortHint are the commands to continue with a run.
func (s *drillService) showHint(id string) string {
	return "show: headgate drill show " + id + s.shellArgs()
}

func (s *drillService) abortHint(id string) string {
	return "abort: headgate drill abort " + id + s.shellArgs()
}

// planText shows what a run would do, and why it could not start now.
func planText(p *printer, plan *api.DrillPlanView) {
	p.printf("%s (%s) would run on %s", plan.Name, plan.Drill, plan.Target)
	if plan.Pool != "" {
		p.printf(", pool %s", plan.Pool)
	}
	p.printf(", at most %s of scenario in %s at speed %g",
		format.Table.Seconds(plan.ScenarioS), format.Table.Seconds(plan.WallTimeS), plan.Speed)
	if plan.NotificationTarget != "" {
		p.printf(", messages to %s", plan.NotificationTarget)
	}
	p.printf("\n")
	for _, s := range plan.Steps {
		p.printf("  step    %s\n", s)
	}
	for _, h := range plan.Hypotheses {
		p.printf("  expect  %s\n", h)
	}
	if plan.Blocked != nil {
		p.printf("it could not start now: %s\n", *plan.Blocked)
	}
	p.printf("nothing was started\n")
}

// verdictError is the error of a run that was waited for, nil if it passed.
func verdictError(r *drill.Run) error {
	if r.Verdict == drill.Passed {
		return nil
	}
	text := fmt.Sprintf("drill %s %s: %s", r.Name, verdictText(r), r.Reason)
	return Error{ExitUnexpected, errors.New(format.Printable(text))}
}

// runWaiter polls a run until it has ended.
type runWaiter struct {
	*RunDrill
	client *api.Client
	id     string

	phase            string    // shown last
	unreachableSince time.Time // zero while the service answers
}

// wait returns the verdict as an error unless the run passed. When ctx ends, the run
// goes on.
func (w *runWaiter) wait(ctx context.Context) error {
	screen := IsTerminal(w.Err)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		report, err := w.client.Run(ctx, w.id, api.LastPoint)
		if ctx.Err() != nil {
			return w.detach(screen)
		}
		if err := w.tolerate(err); err != nil {
			return err
		}
		if err == nil {
			w.showProgress(&report, screen)
			if !report.Ended.IsZero() || report.Verdict != "" {
				return w.done(ctx, &report, screen)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return w.detach(screen)
		}
	}
}

// tolerate returns an error that ends the waiting. A service that does not answer is
// tolerated for a while: it may be restarting, and then closes its run as interrupted.
func (w *runWaiter) tolerate(err error) error {
	switch {
	case !isUnreachable(err):
		w.unreachableSince = time.Time{}
		return err
	case w.unreachableSince.IsZero():
		w.unreachableSince = w.Now()
	case w.Now().Sub(w.unreachableSince) > unreachablePatience:
		return err
	}
	return nil
}

// eraseLine returns to the start of a terminal's line and empties it.
const eraseLine = "\r\x1b[K"

// showProgress rewrites one line on a terminal; elsewhere it adds a line per phase.
func (w *runWaiter) showProgress(r *drill.Run, screen bool) {
	if screen {
		fmt.Fprint(w.Err, eraseLine+format.Printable(runProgress(r)))
		return
	}
	if phase := phaseOf(r); phase != w.phase {
		w.phase = phase
		w.messagef("%s", runProgress(r))
	}
}

// phaseOf is the latest phase of a run, or its status before the first.
func phaseOf(r *drill.Run) string {
	if len(r.Phases) == 0 {
		return string(r.Status)
	}
	return string(r.Phases[len(r.Phases)-1].Name)
}

// runProgress is a run in one line.
func runProgress(r *drill.Run) string {
	parts := []string{r.Name, phaseOf(r)}
	if n := len(r.Series); n > 0 {
		p := &r.Series[n-1]
		p95 := "-"
		if p.Turnaround >= 0 {
			p95 = format.Table.Seconds(p.Turnaround)
		}
		parts = append(parts, fmt.Sprintf("scenario %.0f s", p.At), "p95 "+p95, "oldest "+format.Table.Seconds(p.QueueAge),
			fmt.Sprintf("queued %d", p.Depth), fmt.Sprintf("in flight %d", p.InFlight))
	}
	return strings.Join(parts, "  ")
}

// done shows the result. Polling fetches the last point of the series only, so that JSON
// needs another request for all points.
func (w *runWaiter) done(ctx context.Context, r *drill.Run, screen bool) (err error) {
	if screen {
		fmt.Fprint(w.Err, eraseLine)
	}
	report := *r
	if w.JSON {
		if report, err = w.client.Run(ctx, w.id, api.FullSeries); err != nil {
			return err
		}
	}
	if err := w.show(report, func(p *printer) { runText(p, &report) }); err != nil {
		return err
	}
	return verdictError(&report)
}

// detach ends the waiting. Its error gives exit code 1, because the verdict is unknown.
func (w *runWaiter) detach(screen bool) error {
	if screen {
		fmt.Fprintln(w.Err)
	}
	return fmt.Errorf("stopped waiting, the run continues\n%s\n%s", w.showHint(w.id), w.abortHint(w.id))
}

// StopDrills aborts a run, freezes all drills, or unfreezes them.
type StopDrills struct {
	drillService
	Reason string
}

// Abort aborts the run whose ID begins as given.
func (s *StopDrills) Abort(ctx context.Context, id string) error {
	abort := func(c *api.Client, ctx context.Context, reason string) (run drill.Run, err error) {
		id, err := resolveRun(ctx, c, id)
		if err != nil {
			return run, err
		}
		return c.Abort(ctx, id, reason)
	}
	return stopDrills(ctx, s, abort, func(p *printer, run *drill.Run) {
		p.printf("%s: %s, faults cleared\n%s\n", run.Name, verdictText(run), s.showHint(run.ID))
	})
}

// Freeze aborts the run that is active and lets no drill run.
func (s *StopDrills) Freeze(ctx context.Context) error {
	if strings.TrimSpace(s.Reason) == "" {
		return Usage(errors.New("--reason must say why: others will wonder why no drill runs"))
	}
	return stopDrills(ctx, s, (*api.Client).Freeze, func(p *printer, f *api.DrillFreeze) {
		p.printf("drills are frozen by %s: %s\nundo: headgate drill unfreeze%s\n",
			cmp.Or(f.By, "unknown"), f.Reason, s.shellArgs())
	})
}

// Unfreeze lets drills run again.
func (s *StopDrills) Unfreeze(ctx context.Context) error {
	return stopDrills(ctx, s, (*api.Client).Unfreeze, func(p *printer, _ *api.DrillFreeze) {
		p.printf("drills may run\n")
	})
}

// stopDrills sends a request with the checked reason. All three requests are idempotent.
func stopDrills[T any](ctx context.Context, s *StopDrills,
	request func(c *api.Client, ctx context.Context, reason string) (T, error), text func(*printer, *T)) error {
	reason, err := reasonLine(s.Reason)
	if err != nil {
		return err
	}
	return ask(ctx, s, func(c *api.Client) (T, error) {
		reply, err := request(c, ctx, reason)
		return reply, maybeApplied(err)
	}, text)
}
