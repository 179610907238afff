package sandbox

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
)

// faultPoints are the targets of faults, each with its injector.
type faultPoints struct {
	upstream, slack *fault.Injector // slack is nil for a live drill
	speed           float64
	scope           fault.Scope // of faults upstream
}

// Inject puts a fault in force. Times upstream are scenario time; those of Slack are real.
func (p *faultPoints) Inject(
	_ context.Context, target drill.FaultTarget, i drill.Injection, ttl time.Duration,
) (drill.Lease, error) {
	injector, f, scope := p.slack, i.Fault, fault.Scope{}
	switch {
	case target == drill.TargetUpstream:
		injector, scope = p.upstream, p.scope
		f.Delay, f.Jitter = time.Duration(float64(f.Delay)/p.speed), time.Duration(float64(f.Jitter)/p.speed)
	case target != drill.TargetSlack:
		return nil, fmt.Errorf("unknown target of faults %.40q", string(target))
	case p.slack == nil:
		return nil, errors.New("a live drill has no faults on the way to Slack")
	}
	l, err := injector.Inject(f, scope, ttl)
	if err != nil {
		return nil, err
	}
	return faultLease{l}, nil
}

// Clear ends all faults.
func (p *faultPoints) Clear(ctx context.Context) (drill.ClearResult, error) {
	report, err := p.upstream.Clear(ctx)
	c := clearResult(report)
	if p.slack == nil {
		return c, err
	}
	report, slackErr := p.slack.Clear(ctx)
	more := clearResult(report)
	return drill.ClearResult{
		Took: c.Took + more.Took, Held: c.Held + more.Held, Released: c.Released + more.Released,
		Confirmed: c.Confirmed && more.Confirmed,
	}, errors.Join(err, slackErr)
}

func (p *faultPoints) faultHits() map[drill.FaultTarget]int {
	all := map[drill.FaultTarget]int{drill.TargetUpstream: p.upstream.Report().TotalHits()}
	if p.slack != nil {
		all[drill.TargetSlack] = p.slack.Report().TotalHits()
	}
	return all
}

// clearResult says what is left, by the counts of the injector.
func clearResult(r fault.Report) drill.ClearResult {
	confirmed := r.Active == 0 && r.Stalled == 0
	return drill.ClearResult{Took: r.ClearTime, Held: r.Stalled, Released: r.Released, Confirmed: confirmed}
}

// faultLease is a fault in force.
type faultLease struct{ *fault.Lease }

var _ drill.Lease = faultLease{}

// Renew extends the lease.
func (l faultLease) Renew(_ context.Context, ttl time.Duration) error {
	return l.Lease.Renew(ttl)
}

// Clear ends the fault.
func (l faultLease) Clear(ctx context.Context) (drill.ClearResult, error) {
	r, err := l.Lease.Clear(ctx)
	c := clearResult(r)
	c.Confirmed = !l.Active() && err == nil // others may be in force
	if err == nil {
		c.Held = 0
	}
	return c, err
}

const (
	canaryTTL          = time.Second
	canaryPollInterval = time.Millisecond
)

// Canary holds one separate call by a fault, clears the fault, and returns how long that took. No other call
// passes the injector.
func (*faultPoints) Canary(ctx context.Context) (time.Duration, error) {
	injector := fault.New(roundTripperFunc(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
	}), 0)
	if _, err := injector.Inject(fault.Fault{Kind: fault.Hang, Share: 1}, fault.Scope{}, canaryTTL); err != nil {
		return 0, err
	}
	answered := make(chan error, 1)
	go func() { answered <- sendCanary(ctx, injector) }()
	if err := awaitHeld(ctx, injector, answered); err != nil {
		return 0, err
	}
	began := time.Now()
	report, err := injector.Clear(ctx)
	if err != nil {
		return 0, fmt.Errorf("the canary was not released: %w", err)
	}
	if report.Released != 1 || report.Stalled != 0 || report.Active != 0 {
		return 0, fmt.Errorf("clearing released %d of 1 calls, and left %d", report.Released, report.Stalled)
	}
	select {
	case err = <-answered:
		return time.Since(began), err
	case <-ctx.Done():
		return 0, fmt.Errorf("the canary was not answered: %w", context.Cause(ctx))
	}
}

func sendCanary(ctx context.Context, transport http.RoundTripper) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://canary/", strings.NewReader("{}"))
	if err != nil {
		return err
	}
	res, err := transport.RoundTrip(r)
	if err != nil {
		return fmt.Errorf("the canary failed: %w", err)
	}
	_, err = io.Copy(io.Discard, res.Body)
	return errors.Join(err, res.Body.Close())
}

// awaitHeld waits until the fault holds the canary.
func awaitHeld(ctx context.Context, injector *fault.Injector, answered <-chan error) error {
	poll := time.NewTicker(canaryPollInterval)
	defer poll.Stop()
	for injector.Report().Stalled == 0 {
		select {
		case <-poll.C:
		case err := <-answered:
			return errors.Join(errors.New("the fault did not hold the canary"), err)
		case <-ctx.Done():
			return fmt.Errorf("the canary was not sent: %w", context.Cause(ctx))
		}
	}
	return nil
}
