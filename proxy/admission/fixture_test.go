package admission_test

import (
	"cmp"
	"testing"
	"time"

	"headgate/proxy/admission"
)

// defaultThreshold is the threshold policy with the default limits.
var defaultThreshold = admission.Threshold{MaxQueueAge: 25 * time.Second, DepthMultiple: 2}

// newGate returns a gate of c; what c leaves out is one worker, the default
// rule, room for a thousand waiting tasks and 10 s of assumed service.
func newGate(t testing.TB, c admission.Config) *admission.Gate {
	t.Helper()
	c.Workers = cmp.Or(c.Workers, 1)
	c.QueueLimit = cmp.Or(c.QueueLimit, 1000)
	c.AssumedService = cmp.Or(c.AssumedService, 10*time.Second)
	if c.Policy == nil {
		c.Policy = defaultThreshold
	}
	g, err := admission.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// at is a time on the virtual clock of a test.
func at(d time.Duration) time.Time { return epoch.Add(d) }

// waiterLog records what a waiter received. It is for one goroutine.
type waiterLog struct{ received []admission.Refusal }

func (b *waiterLog) Done(r admission.Refusal) { b.received = append(b.received, r) }

// submission is a task of a table test: its ticket and what its waiter received.
type submission struct {
	waiterLog
	admission.Decision
}

// offer offers a task at a time on the virtual clock.
func offer(g *admission.Gate, d time.Duration, task admission.Task) *submission {
	v := new(submission)
	task.Waiter = &v.waiterLog
	v.Decision = g.Offer(at(d), task)
	return v
}

// offerN offers n plain tasks at once.
func offerN(g *admission.Gate, d time.Duration, n int) []*submission {
	all := make([]*submission, n)
	for i := range all {
		all[i] = offer(g, d, admission.Task{})
	}
	return all
}

// wantReason checks why a task was refused, on arrival or while it waited.
func (v *submission) wantReason(t *testing.T, want admission.Reason) {
	t.Helper()
	got := v.Reason
	switch {
	case v.Waiting && len(v.received) != 1:
		t.Fatalf("received %v, want one call", v.received)
	case v.Waiting:
		got = v.received[0].Reason
	}
	if got != want {
		t.Fatalf("reason is %q, want %q", got, want)
	}
}

// wantWaiting checks that a task was queued and has received nothing yet.
func (v *submission) wantWaiting(t *testing.T) {
	t.Helper()
	if !v.Waiting || len(v.received) != 0 {
		t.Fatalf("waiting %v, refused %q, received %v; want it to wait", v.Waiting, v.Reason, v.received)
	}
}

// wantGauges checks permits out, tasks waiting and the age of the oldest.
func wantGauges(t *testing.T, g *admission.Gate, d time.Duration, inFlight, depth int, oldest time.Duration) {
	t.Helper()
	s := g.Snapshot(at(d))
	if s.InFlight != inFlight || s.Depth != depth || s.OldestAge != oldest {
		t.Fatalf("in flight %d, depth %d, oldest %s; want %d, %d, %s",
			s.InFlight, s.Depth, s.OldestAge, inFlight, depth, oldest)
	}
}
