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
)

// ways are where faults work, each with its injector.
type ways struct {
	upstream, slack *fault.Injector
	speed           float64
	scope           fault.Scope // of faults upstream
}

// Inject implements drill.Place. Times upstream are those of the scenario; Slack's
// are real.
func (w *ways) Inject(_ context.Context, way drill.Way, i drill.Injection, ttl time.Duration) (drill.Lease, error) {
	f := i.Fault
	switch way {
	case drill.ToUpstream:
		f.Delay, f.Jitter = time.Duration(float64(f.Delay)/w.speed), time.Duration(float64(f.Jitter)/w.speed)
		l, err := w.upstream.Inject(f, w.scope, ttl)
		return leased(l), err
	case drill.ToSlack:
		if w.slack == nil {
			return nil, errors.New("nothing goes to Slack there")
		}
		l, err := w.slack.Inject(f, fault.Scope{}, ttl)
		return leased(l), err
	}
	return nil, fmt.Errorf("there is no way %.40q", string(way))
}

// Clear implements drill.Place.
func (w *ways) Clear(ctx context.Context) (drill.Cleared, error) {
	report, err := w.upstream.Clear(ctx)
	c := cleared(report)
	if w.slack == nil {
		return c, err
	}
	other, slackErr := w.slack.Clear(ctx)
	more := cleared(other)
	return drill.Cleared{
		Took: c.Took + more.Took, Held: c.Held + more.Held, LetGo: c.LetGo + more.LetGo,
		Confirmed: c.Confirmed && more.Confirmed,
	}, errors.Join(err, slackErr)
}

// befallen counts.
func (w *ways) befallen() map[drill.Way]int {
	all := map[drill.Way]int{drill.ToUpstream: w.upstream.Report().Total()}
	if w.slack != nil {
		all[drill.ToSlack] = w.slack.Report().Total()
	}
	return all
}

// cleared says what is left, by counts that are taken where faults work.
func cleared(r fault.Report) drill.Cleared {
	return drill.Cleared{Took: r.Took, Held: r.Held, LetGo: r.LetGo, Confirmed: r.Standing == 0 && r.Held == 0}
}

// lease is a fault in force.
type lease struct{ *fault.Lease }

func leased(l *fault.Lease) drill.Lease {
	if l == nil {
		return nil
	}
	return lease{l}
}

// Renew implements drill.Lease.
func (l lease) Renew(_ context.Context, ttl time.Duration) error {
	err := l.Lease.Renew(ttl)
	if errors.Is(err, fault.ErrExpired) {
		return drill.ErrLapsed
	}
	return err
}

// Clear implements drill.Lease.
func (l lease) Clear(ctx context.Context) (drill.Cleared, error) {
	r, err := l.Lease.Clear(ctx)
	c := cleared(r)
	c.Confirmed = !l.Stands() && err == nil // others may stand
	if err == nil {
		c.Held = 0
	}
	return c, err
}

// canaryLook is how often a canary is looked at.
const canaryLook = time.Millisecond

// canary holds one call of its own by a fault, clears it, and returns how long that
// took. What is on the way is nobody else's.
func canary(ctx context.Context) (time.Duration, error) {
	way := fault.New(trip(func(r *http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusNoContent, Body: http.NoBody, Request: r}, nil
	}), 0)
	if _, err := way.Inject(fault.Fault{Kind: fault.Hang, Share: 1}, fault.Scope{}, drill.LeaseTTL); err != nil {
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
	if report.LetGo != 1 || report.Held != 0 || report.Standing != 0 {
		return 0, fmt.Errorf("clearing let %d of 1 calls go, and left %d", report.LetGo, report.Held)
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
	look := time.NewTicker(canaryLook)
	defer look.Stop()
	for way.Report().Held == 0 {
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
