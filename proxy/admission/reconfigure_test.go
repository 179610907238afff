package admission_test

import (
	"testing"
	"time"

	"headgate/proxy/admission"
)

func TestReconfigure(t *testing.T) {
	g := newGate(t, admission.Config{Mode: admission.PassThrough, QueueLimit: 2})
	all := offerN(g, 0, 3)
	offer(g, 0, admission.Task{}).wantReason(t, admission.ReasonMemory)
	c := admission.Config{Workers: 2, Policy: admission.None{}, Mode: admission.Observe, QueueLimit: 3, AssumedService: time.Second}
	if err := g.Reconfigure(at(0), c); err != nil {
		t.Fatal(err)
	}
	all[1].wantReason(t, admission.ReasonNone)
	all[2].wantWaiting(t)
	s := g.Snapshot(at(0))
	if s.Mode != admission.PassThrough || s.Policy != "none" || s.Workers != 2 || s.Service.Mean != time.Second {
		t.Fatalf("after the change: %+v", s)
	}
	for range 2 {
		offer(g, 0, admission.Task{}).wantWaiting(t)
	}
	offer(g, 0, admission.Task{}).wantReason(t, admission.ReasonMemory)
}

func TestReconfigureChangesAllOrNothing(t *testing.T) {
	g := newGate(t, admission.Config{Workers: 3})
	before := g.Snapshot(at(0))
	good := admission.Config{Workers: 9, Policy: admission.None{}, QueueLimit: 9, AssumedService: time.Second}
	for field, spoil := range map[string]func(*admission.Config){
		"workers":           func(c *admission.Config) { c.Workers = 0 },
		"policy":            func(c *admission.Config) { c.Policy = nil },
		"passthrough_queue": func(c *admission.Config) { c.QueueLimit = 0 },
		"assumed_service":   func(c *admission.Config) { c.AssumedService = 0 },
	} {
		c := good
		spoil(&c)
		wantField(t, g.Reconfigure(at(0), c), field)
		if got := g.Snapshot(at(0)); got != before {
			t.Fatalf("bad %s changed the gate: %+v", field, got)
		}
	}
}
