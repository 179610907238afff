package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"headgate/proxy/fault"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/runner"
)

// faultPoints are where faults work, each with its injector.
type faultPoints struct {
	upstream, slack *fault.Injector
	speed           float64
	scope           fault.Scope // of faults upstream
}

// Inject implements drill.Injector. Times upstream are those of the scenario; Slack's
// are real.
func (w *faultPoints) Inject(_ context.Context, way drill.FaultTarget, i drill.Injection, ttl time.Duration) (drill.Lease, error) {
	f := i.Fault
	switch way {
	case drill.TargetUpstream:
		f.Delay, f.Jitter = time.Duration(float64(f.Delay)/w.speed), time.Duration(float64(f.Jitter)/w.speed)
		l, err := w.upstream.Inject(f, w.scope, ttl)
		return toLease(l), err
	case drill.TargetSlack:
		if w.slack == nil {
			return nil, errors.New("nothing goes to Slack there")
		}
		l, err := w.slack.Inject(f, fault.Scope{}, ttl)
		return toLease(l), err
	}
	return nil, fmt.Errorf("there is no way %.40q", string(way))
}

// Clear implements drill.Injector.
func (w *faultPoints) Clear(ctx context.Context) (drill.ClearResult, error) {
	report, err := w.upstream.Clear(ctx)
	c := toCleared(report)
	if w.slack == nil {
		return c, err
	}
	other, slackErr := w.slack.Clear(ctx)
	more := toCleared(other)
	return drill.ClearResult{
		Took: c.Took + more.Took, Held: c.Held + more.Held, Released: c.Released + more.Released,
		Confirmed: c.Confirmed && more.Confirmed,
	}, errors.Join(err, slackErr)
}

// faultHits counts.
func (w *faultPoints) faultHits() map[drill.FaultTarget]int {
	all := map[drill.FaultTarget]int{drill.TargetUpstream: w.upstream.Report().TotalHits()}
	if w.slack != nil {
		all[drill.TargetSlack] = w.slack.Report().TotalHits()
	}
	return all
}

// toCleared says what is left, by counts that are taken where faults work.
func toCleared(r fault.Report) drill.ClearResult {
	return drill.ClearResult{Took: r.ClearTime, Held: r.Stalled, Released: r.Released, Confirmed: r.Active == 0 && r.Stalled == 0}
}

// faultLease is a fault in force.
type faultLease struct{ *fault.Lease }

func toLease(l *fault.Lease) drill.Lease {
	if l == nil {
		return nil
	}
	return faultLease{l}
}

// Renew implements drill.Lease.
func (l faultLease) Renew(_ context.Context, ttl time.Duration) error {
	err := l.Lease.Renew(ttl)
	if errors.Is(err, fault.ErrLeaseExpired) {
		return drill.ErrLeaseExpired
	}
	return err
}

// Clear implements drill.Lease.
func (l faultLease) Clear(ctx context.Context) (drill.ClearResult, error) {
	r, err := l.Lease.Clear(ctx)
	c := toCleared(r)
	c.Confirmed = !l.Active() && err == nil // others may stand
	if err == nil {
		c.Held = 0
	}
	return c, err
}

// canaryPollInterval is how often a canary is looked at.
const canaryPollInterval = time.Millisecond

// runCanary holds one call of its own by a fault, clears it, and returns how long that
// took. What is on the way is nobody else's.
func runCanary(ctx context.Context) (time.Duration, error) {
	way := fault.New(roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
	}), 0)
	if _, err := way.Inject(fault.Fault{Kind: fault.Hang, Share: 1}, fault.Scope{}, runner.LeaseTTL); err != nil {
		return 0, err
	}
	let := make(chan error, 1)
	go func() { let <- sendCanary(ctx, way) }()
	if err := awaitHeld(ctx, way, let); err != nil {
		return 0, err
	}
	began := time.Now()
	report, err := way.Clear(ctx)
	if err != nil {
		return 0, fmt.Errorf("the canary was not let go: %w", err)
	}
	if report.Released != 1 || report.Stalled != 0 || report.Active != 0 {
		return 0, fmt.Errorf("clearing let %d of 1 calls go, and left %d", report.Released, report.Stalled)
	}
	select {
	case err = <-let:
		return time.Since(began), err
	case <-ctx.Done():
		return 0, fmt.Errorf("the canary was not answered: %w", context.Cause(ctx))
	}
}

func sendCanary(ctx context.Context, way http.RoundTripper) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://canary/", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	res, err := way.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("the canary died: %w", err)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return errors.Join(err, res.Body.Close())
}

// awaitHeld waits until the fault holds the canary.
func awaitHeld(ctx context.Context, way *fault.Injector, let <-chan error) error {
	look := time.NewTicker(canaryPollInterval)
	defer look.Stop()
	for way.Report().Stalled == 0 {
		select {
		case <-look.C:
		case err := <-let:
			return errors.Join(errors.New("the fault did not hold the canary"), err)
		case <-ctx.Done():
			return fmt.Errorf("the canary did not come: %w", context.Cause(ctx))
		}
	}
	return nil
}
