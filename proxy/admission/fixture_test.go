package admission_test

import (
	"cmp"
	"testing"
	"time"

	"headgate/proxy/admission"
)

// article is the rule with the article's own numbers.
var article = admission.Threshold{MaxQueueAge: 25 * time.Second, DepthMultiple: 2}

// newGate returns a gate of c; what c leaves out is one worker, the article's
// rule, room for a thousand waiting tasks and 10 s of assumed service.
func newGate(t testing.TB, c admission.Config) *admission.Gate {
	t.Helper()
	c.Workers = cmp.Or(c.Workers, 1)
	c.QueueLimit = cmp.Or(c.QueueLimit, 1000)
	c.AssumedService = cmp.Or(c.AssumedService, 10*time.Second)
	if c.Policy == nil {
		c.Policy = article
	}
	g, err := admission.New(c)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// at is a time on the virtual clock of a test.
func at(d time.Duration) time.Time { return epoch.Add(d) }

// box keeps what a waiter was told. It is for one goroutine.
type box struct{ told []admission.Refusal }

func (b *box) Settled(r admission.Refusal) { b.told = append(b.told, r) }

// guest is a task of a table test: its ticket and what it was told.
type guest struct {
	box
	admission.Decision
}

// offer offers a task at a time on the virtual clock.
func offer(g *admission.Gate, d time.Duration, task admission.Task) *guest {
	v := new(guest)
	task.Waiter = &v.box
	v.Decision = g.Offer(at(d), task)
	return v
}

// crowd offers n plain tasks at once.
func crowd(g *admission.Gate, d time.Duration, n int) []*guest {
	all := make([]*guest, n)
	for i := range all {
		all[i] = offer(g, d, admission.Task{})
	}
	return all
}

// wantFate checks what a task was told at the door, or while it waited.
func (v *guest) wantFate(t *testing.T, want admission.Reason) {
	t.Helper()
	got := v.Reason
	switch {
	case v.Waiting && len(v.told) != 1:
		t.Fatalf("was told %v, want to be told once", v.told)
	case v.Waiting:
		got = v.told[0].Reason
	}
	if got != want {
		t.Fatalf("fate is %q, want %q", got, want)
	}
}

// wantWaits checks that a task was queued and has heard nothing yet.
func (v *guest) wantWaits(t *testing.T) {
	t.Helper()
	if !v.Waiting || len(v.told) != 0 {
		t.Fatalf("waiting %v, refused %q, told %v; want it to wait", v.Waiting, v.Reason, v.told)
	}
}

// wantGauges checks permits out, tasks waiting and the age of the oldest.
func wantGauges(t *testing.T, g *admission.Gate, d time.Duration, inFlight, depth int, oldest time.Duration) {
	t.Helper()
	s := g.Snapshot(at(d))
	if s.InFlight != inFlight || s.Depth != depth || s.Oldest != oldest {
		t.Fatalf("in flight %d, depth %d, oldest %s; want %d, %d, %s",
			s.InFlight, s.Depth, s.Oldest, inFlight, depth, oldest)
	}
}
