package admission_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headgate/proxy/admission"
)

// blockingPolicy is a policy that does not come to its end until it is let go.
type blockingPolicy struct {
	admission.Threshold
	asked atomic.Int64
	in    chan struct{} // gets one when the policy is asked
	free  chan struct{} // closed: it goes on
}

func newBlockingPolicy() *blockingPolicy {
	return &blockingPolicy{Threshold: defaultThreshold, in: make(chan struct{}, 100), free: make(chan struct{})}
}

func (p *blockingPolicy) Admit(v admission.View, t admission.Task) admission.Verdict {
	p.asked.Add(1)
	p.in <- struct{}{}
	<-p.free
	return p.Threshold.Admit(v, t)
}

// TestSnapshotOfBlockedGate comes at once, with what was known last.
func TestSnapshotOfBlockedGate(t *testing.T) {
	p := newBlockingPolicy()
	g := newGate(t, admission.Config{Workers: 3, Policy: p, Mode: admission.Observe})
	var group sync.WaitGroup
	group.Go(func() { g.Offer(at(0), admission.Task{}) })
	<-p.in
	if s := g.Snapshot(at(time.Second)); s.Workers != 3 || s.Mode != admission.Observe || s.InFlight != 0 || s.Policy != "threshold" {
		t.Errorf("before anybody has looked: %+v", s)
	}
	for _, behind := range []time.Duration{0, 3 * time.Second, 0} {
		if s := g.Snapshot(at(time.Second + behind)); s.StaleFor != behind {
			t.Errorf("behind by %s, want %s", s.StaleFor, behind)
		}
	}
	close(p.free)
	group.Wait()
	if s := g.Snapshot(at(time.Minute)); s.InFlight != 1 || s.StaleFor != 0 {
		t.Errorf("in flight %d, behind by %s; want 1 and 0", s.InFlight, s.StaleFor)
	}
}

// TestSnapshotShowsLatestSettings though the gate is stuck since.
func TestSnapshotShowsLatestSettings(t *testing.T) {
	p := newBlockingPolicy()
	g := newGate(t, admission.Config{Policy: p, Mode: admission.PassThrough})
	g.SetMode(at(0), admission.Observe)
	var group sync.WaitGroup
	group.Go(func() { g.Offer(at(0), admission.Task{}) })
	<-p.in
	if s := g.Snapshot(at(0)); s.Mode != admission.Observe {
		t.Errorf("mode %s, want the one that was set", s.Mode)
	}
	close(p.free)
	group.Wait()
}

// TestPassThroughBypassesBlockedPolicy: only the caller inside the policy
// is blocked by it; callers in the queue for the lock are not, so SetMode takes effect.
func TestPassThroughBypassesBlockedPolicy(t *testing.T) {
	p := newBlockingPolicy()
	g := newGate(t, admission.Config{Workers: 20, Policy: p})
	var group sync.WaitGroup
	group.Go(func() { g.Offer(at(0), admission.Task{}) })
	<-p.in
	for range 10 {
		group.Go(func() { g.Offer(at(0), admission.Task{}) })
	}
	group.Go(func() { g.SetMode(at(0), admission.PassThrough) })
	for !g.PassThrough() {
		time.Sleep(time.Millisecond) // between looks
	}
	close(p.free)
	group.Wait()
	if n := p.asked.Load(); n != 1 {
		t.Errorf("the policy was asked %d times, want once", n)
	}
	if s := g.Snapshot(at(0)); s.Mode != admission.PassThrough || s.InFlight != 11 {
		t.Errorf("mode %s, %d in flight", s.Mode, s.InFlight)
	}
	g.SetMode(at(0), admission.Enforce)
	g.Offer(at(0), admission.Task{})
	if n := p.asked.Load(); n != 2 || g.PassThrough() {
		t.Errorf("the policy was asked %d times after the return, want twice", n)
	}
}
