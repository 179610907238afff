package admission_test

import (
	"strings"
	"testing"
	"time"

	"headgate/proxy/admission"
)

// panickingPolicy is a policy that panics where it is told to.
type panickingPolicy struct {
	admission.Threshold
	admit, dispatch *bool
}

func (p panickingPolicy) Admit(v admission.View, t admission.Task) admission.Verdict {
	if *p.admit {
		panic("no idea about " + t.Class.String())
	}
	return defaultThreshold.Admit(v, t)
}

func (p panickingPolicy) Dispatch(v admission.View, t admission.Task) admission.Reason {
	if *p.dispatch {
		panic("lost my nerve")
	}
	return defaultThreshold.Dispatch(v, t)
}

// TestPanicInAdmitAdmits: whoever the policy cannot decide about comes in as
// in mode passthrough, within the bound on memory.
func TestPanicInAdmitAdmits(t *testing.T) {
	for _, m := range []admission.Mode{admission.Enforce, admission.Observe} {
		yes, no := true, false
		g := newGate(t, admission.Config{Policy: panickingPolicy{defaultThreshold, &yes, &no}, Mode: m, QueueLimit: 4})
		all := offerN(g, 0, 5)
		all[0].wantReason(t, admission.ReasonNone)
		for _, v := range all[1:] {
			v.wantWaiting(t)
		}
		offer(g, 0, admission.Task{}).wantReason(t, admission.ReasonMemory)
		wantGauges(t, g, 0, 1, 4, 0)
		p := g.TakePanics()
		if p.Count != 6 || p.Value != "no idea about interactive" || !strings.Contains(string(p.Stack), "panickingPolicy.Admit") {
			t.Fatalf("caught %d, first %v\n%s", p.Count, p.Value, p.Stack)
		}
		if p := g.TakePanics(); p.Count != 0 || p.Value != nil || p.Stack != nil {
			t.Fatalf("told twice: %+v", p)
		}
	}
}

// TestPanicInDispatchDispatches: the task goes upstream as in mode passthrough,
// and the permit comes back once.
func TestPanicInDispatchDispatches(t *testing.T) {
	yes, no := true, false
	g := newGate(t, admission.Config{Policy: panickingPolicy{defaultThreshold, &no, &yes}})
	task := admission.Task{Deadline: at(time.Second)}
	running, waits := offer(g, 0, task), offer(g, 0, task)
	if d := g.Start(at(time.Minute), running.Ticket); d.Ticket != running.Ticket || d.Reason != admission.ReasonNone {
		t.Fatalf("started with %+v", d)
	}
	if r := g.Expire(at(time.Minute), waits.Ticket); r != (admission.Refusal{}) {
		t.Fatalf("expired: %+v", r)
	}
	if !g.Release(at(time.Minute), running.Ticket, admission.Served) || g.Release(at(time.Minute), running.Ticket, admission.Served) {
		t.Fatal("the permit did not come back just once")
	}
	waits.wantReason(t, admission.ReasonNone)
	wantGauges(t, g, time.Minute, 1, 0, 0)
	if p := g.TakePanics(); p.Count != 3 || p.Value != "lost my nerve" {
		t.Fatalf("caught %d, first %v", p.Count, p.Value)
	}
}

// TestPassThroughSkipsPolicy: the way out of a policy that panics.
func TestPassThroughSkipsPolicy(t *testing.T) {
	yes := true
	g := newGate(t, admission.Config{Policy: panickingPolicy{defaultThreshold, &yes, &yes}, Mode: admission.PassThrough})
	running := offer(g, 0, admission.Task{})
	g.Start(at(0), running.Ticket)
	g.Release(at(0), running.Ticket, admission.Served)
	if p := g.TakePanics(); p.Count != 0 {
		t.Fatalf("caught %+v", p)
	}
}

// TestLockIsFreeAfterAPanic of something that is not the policy.
func TestLockIsFreeAfterAPanic(t *testing.T) {
	d := &panickingMonitor{}
	g := newGate(t, admission.Config{Monitor: d})
	d.panics = true
	func() {
		defer func() {
			if recover() == nil {
				t.Error("the panic was swallowed")
			}
		}()
		offer(g, 0, admission.Task{})
	}()
	d.panics = false
	g.Snapshot(at(0)) // would wait for ever
}

// panickingMonitor is a watcher that panics.
type panickingMonitor struct {
	recordingMonitor
	panics bool
}

func (f *panickingMonitor) OnStep(time.Time, *admission.Ticket, admission.Step) {
	if f.panics {
		panic("fainted")
	}
}
