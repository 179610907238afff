package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"headgate/web/api"
)

// runWaiter looks at a run until it has ended.
type runWaiter struct {
	*drillRun
	client   *api.Client
	id       string
	out, err io.Writer

	phase            string    // that was told last
	unreachableSince time.Time // since then nothing answers; zero: it does
}

// wait returns the verdict as an error unless it is passed. When ctx ends, the run
// is left alone.
func (w *runWaiter) wait(ctx context.Context) error {
	screen := isTerminal(w.err)
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		report, err := w.client.Run(ctx, w.id, api.LastPoint)
		if ctx.Err() != nil {
			return w.detach(screen)
		}
		if err := w.checkReachable(err); err != nil {
			return err
		}
		if err == nil {
			w.showProgress(&report, screen)
			if report.EndedAt != nil || report.Verdict != nil {
				return w.done(ctx, &report)
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return w.detach(screen)
		}
	}
}

// checkReachable returns an error that is not worth waiting on. Silence is borne for a
// while: a service may be restarted, and its run is then closed as interrupted.
func (w *runWaiter) checkReachable(err error) error {
	var silence *api.UnreachableError
	switch {
	case !errors.As(err, &silence):
		w.unreachableSince = time.Time{}
		return err
	case w.unreachableSince.IsZero():
		w.unreachableSince = w.host.now()
	case w.host.now().Sub(w.unreachableSince) > unreachablePatience:
		return err
	}
	return nil
}

// showProgress shows how a run goes: on a screen in one line that changes, elsewhere a
// line for each phase.
func (w *runWaiter) showProgress(r *api.DrillReport, screen bool) {
	if screen {
		fmt.Fprint(w.err, "\r\x1b[K"+progress(r)) // who looks may have gone
		return
	}
	if phase := phaseOf(&r.DrillRun); phase != w.phase {
		w.phase = phase
		fmt.Fprintf(w.err, "headgate: %s\n", progress(r))
	}
}

func phaseOf(r *api.DrillRun) string {
	if len(r.Phases) == 0 {
		return r.Status
	}
	return r.Phases[len(r.Phases)-1].Name
}

// progress is a run in one line.
func progress(r *api.DrillReport) string {
	parts := []string{sanitize(r.Name), sanitize(phaseOf(&r.DrillRun))}
	if n := len(r.Series); n > 0 {
		p := &r.Series[n-1]
		parts = append(parts, fmt.Sprintf("scenario %.0f s", p.AtS), "p95 "+secondsOrDash(p.P95S), "oldest "+formatSeconds(p.QueueAgeS),
			fmt.Sprintf("queued %d", p.QueueDepth), fmt.Sprintf("in flight %d", p.InFlight))
	}
	return strings.Join(parts, "  ")
}

func (w *runWaiter) done(ctx context.Context, r *api.DrillReport) error {
	if isTerminal(w.err) {
		fmt.Fprint(w.err, "\r\x1b[K")
	}
	if w.json {
		whole, err := w.client.Run(ctx, w.id, api.FullSeries)
		if err != nil {
			return err
		}
		if err := printJSON(w.out, whole); err != nil {
			return err
		}
		return verdictError(&whole.DrillRun)
	}
	text := runText{DrillReport: r, paint: colorizerFor(w.host, w.out)}
	if _, err := w.out.Write(text.text()); err != nil {
		return err
	}
	return verdictError(&r.DrillRun)
}

func (w *runWaiter) detach(screen bool) error {
	if screen {
		fmt.Fprintln(w.err)
	}
	return fmt.Errorf("not waiting any longer, the run goes on\nread it: headgate drill show %s%s\nstop it: headgate drill abort %s%s",
		sanitize(w.id), w.where.shellArgs(), sanitize(w.id), w.where.shellArgs())
}
