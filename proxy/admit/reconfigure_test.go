package admit_test

import (
	"testing"
	"time"

	"headgate/proxy/admit"
)

func TestReconfigure(t *testing.T) {
	g := newGate(t, admit.Config{Mode: admit.PassThrough, QueueLimit: 2})
	all := crowd(g, 0, 3)
	offer(g, 0, admit.Task{}).wantFate(t, admit.ReasonMemory)
	c := admit.Config{Workers: 2, Policy: admit.None{}, Mode: admit.Observe, QueueLimit: 3, AssumedService: time.Second}
	if err := g.Reconfigure(at(0), c); err != nil {
		t.Fatal(err)
	}
	all[1].wantFate(t, admit.ReasonNone)
	all[2].wantWaits(t)
	s := g.Snapshot(at(0))
	if s.Mode != admit.PassThrough || s.Policy != "none" || s.Workers != 2 || s.Service.Mean != time.Second {
		t.Fatalf("after the change: %+v", s)
	}
	for range 2 {
		offer(g, 0, admit.Task{}).wantWaits(t)
	}
	offer(g, 0, admit.Task{}).wantFate(t, admit.ReasonMemory)
}

func TestReconfigureChangesAllOrNothing(t *testing.T) {
	g := newGate(t, admit.Config{Workers: 3})
	before := g.Snapshot(at(0))
	good := admit.Config{Workers: 9, Policy: admit.None{}, QueueLimit: 9, AssumedService: time.Second}
	for field, spoil := range map[string]func(*admit.Config){
		"workers":           func(c *admit.Config) { c.Workers = 0 },
		"policy":            func(c *admit.Config) { c.Policy = nil },
		"passthrough_queue": func(c *admit.Config) { c.QueueLimit = 0 },
		"assumed_service":   func(c *admit.Config) { c.AssumedService = 0 },
	} {
		c := good
		spoil(&c)
		wantField(t, g.Reconfigure(at(0), c), field)
		if got := g.Snapshot(at(0)); got != before {
			t.Fatalf("bad %s changed the gate: %+v", field, got)
		}
	}
}
