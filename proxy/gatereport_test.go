package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"headgate/proxy/admission"
)

// refusingPolicy is a policy that refuses without a cause.
type refusingPolicy struct {
	admission.Policy
	reason admission.Reason
}

func (w refusingPolicy) Admit(admission.View, admission.Task) admission.Verdict {
	return admission.Verdict{Reason: w.reason}
}

// withPolicy gives a rig's gate a policy made of its own.
func withPolicy(make func(admission.Policy) admission.Policy) func(*fixture) {
	return func(p *fixture) {
		withOneWorker(p)
		p.gate.Policy = make(p.gate.Policy)
	}
}

// TestFalseRefusalIsCounted when the queue is said to be the cause, and for no
// other reason.
func TestFalseRefusalIsCounted(t *testing.T) {
	for _, reason := range admission.Reasons() {
		t.Run(reason.String(), func(t *testing.T) {
			r := newTestProxy(t, withPolicy(func(p admission.Policy) admission.Policy { return refusingPolicy{p, reason} }))
			r.allowFalseRefusals = true
			r.chat()
			want := 0.0
			if reason == admission.ReasonQueueAge || reason == admission.ReasonQueueDepth {
				want = 1
				if n := r.sum("headgate_false_refusals_total", "pool", "main", "reason", reason.String()); n != 1 {
					t.Errorf("%v counted for that reason", n)
				}
				if !strings.Contains(r.logs.String(), "a permit was free: 0 of 1 running") {
					t.Errorf("the log does not say why:\n%s", r.logs)
				}
			}
			if n := r.sum("headgate_false_refusals_total"); n != want {
				t.Errorf("%v counted, want %v", n, want)
			}
		})
	}
}

// TestLeakedPermitIsAFalseRefusal: the gate believes that a task runs which is over.
func TestLeakedPermitIsAFalseRefusal(t *testing.T) {
	r := newTestProxy(t, withOneWorker)
	r.allowFalseRefusals = true
	lost := r.gate.Offer(time.Now(), admission.Task{}).Ticket
	r.gate.Finish(time.Now(), lost)
	queued := r.queueCalls(3, chat)
	r.wantRefused(r.chat(), admission.ReasonQueueDepth)
	if n := r.sum("headgate_false_refusals_total", "reason", "queue_depth"); n != 1 {
		t.Errorf("%v false refusals, want 1", n)
	}
	r.gate.Release(time.Now(), lost, admission.Dropped)
	for _, c := range queued {
		r.wantCompleted(c.wait())
	}
}

// TestPanicOfThePolicyIsServed: the task is let in, and people can see at once
// that something is wrong.
func TestPanicOfThePolicyIsServed(t *testing.T) {
	for name, h := range map[string]hookedPolicy{
		"at the door":     {onAdmit: func() { panic("no idea") }},
		"at the dispatch": {onDispatch: func() { panic("no idea") }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestProxy(t, withPolicy(func(p admission.Policy) admission.Policy { h.Policy = p; return h }))
			r.wantCompleted(r.chat())
			r.wantCompleted(r.post(chatPath, stream))
			if n := r.sum("headgate_gate_panics_total", "pool", "main"); n != 2 {
				t.Errorf("%v panics of the pool's gate, want 2", n)
			}
			if gate, all := r.sum("headgate_panics_total", "where", "gate"), r.sum("headgate_panics_total"); gate != 2 || all != 2 {
				t.Errorf("%v panics in gates, %v in all; want 2", gate, all)
			}
			if l := r.logs.String(); !strings.Contains(l, "no idea") || !strings.Contains(l, "gatereport_test.go") {
				t.Errorf("the log does not say where:\n%s", l)
			}
		})
	}
}

// TestPanicIsCountedBeforeTheTaskEnds, which may take minutes.
func TestPanicIsCountedBeforeTheTaskEnds(t *testing.T) {
	r := newTestProxy(t, withPolicy(func(p admission.Policy) admission.Policy {
		return hookedPolicy{Policy: p, onAdmit: func() { panic("no idea") }}
	}))
	leave := r.occupy(1)
	if n := r.sum("headgate_gate_panics_total"); n != 1 || r.recorder.count() != 0 {
		t.Errorf("%v panics counted while %d tasks have ended", n, r.recorder.count())
	}
	leave()
}

// panickingMonitor is a watcher that panics: a fault of the gate that is not the policy's.
type panickingMonitor struct{}

func (panickingMonitor) OnLimits(admission.Limits) {}

func (panickingMonitor) OnStep(_ time.Time, _ *admission.Ticket, step admission.Step) {
	if step == admission.StepFinished {
		panic("sunk")
	}
}

func (panickingMonitor) CheckRefusal(time.Time, admission.Class, admission.Reason) string {
	panic("sunk")
}

// TestPanicOfTheGateItself: the task fails if it has not begun, its answer
// stands if it is over; both are counted as the gate's.
func TestPanicOfTheGateItself(t *testing.T) {
	refuses := withPolicy(func(p admission.Policy) admission.Policy { return refusingPolicy{p, admission.ReasonQueueAge} })
	for status, edit := range map[int]func(*fixture){
		http.StatusInternalServerError: refuses,
		http.StatusOK:                  withOneWorker,
	} {
		r := newTestProxy(t, func(p *fixture) { edit(p); p.gate.Monitor = panickingMonitor{} })
		if a := r.chat(); a.status != status || a.err != nil {
			t.Errorf("status %d (%v), want %d", a.status, a.err, status)
		}
		r.task(1)
		if n := r.sum("headgate_gate_panics_total", "pool", "main"); n != 1 {
			t.Errorf("status %d: %v panics of the gate, want 1", status, n)
		}
	}
}

// slowGateCalls returns how many calls on the gate took more than a second, of tasks that
// found a permit free, and how many there were: two a task.
func (r *testProxy) slowGateCalls() (slow, all uint64) {
	r.Helper()
	h := r.metricFamily("headgate_gate_free_seconds")[0].GetHistogram()
	for _, b := range h.GetBucket() {
		if b.GetUpperBound() == 1 {
			return h.GetSampleCount() - b.GetCumulativeCount(), h.GetSampleCount()
		}
	}
	r.Fatal("there is no bound at one second")
	return 0, 0
}

// TestSlowGateIsSeen before its task ends, when a permit was free. It takes a
// real second: on a virtual clock nobody could wait for the gate's lock.
func TestSlowGateIsSeen(t *testing.T) {
	naps := make(chan time.Duration, 1)
	naps <- 1010 * time.Millisecond
	nap := func() {
		select {
		case d := <-naps:
			time.Sleep(d)
		default:
		}
	}
	r := newTestProxy(t, withPolicy(func(p admission.Policy) admission.Policy { return hookedPolicy{Policy: p, onAdmit: nap} }))
	leave := r.occupy(1)
	r.eventually("the gate's time is seen", func() bool { slow, all := r.slowGateCalls(); return slow == 1 && all == 2 })
	queued := r.queueCalls(1, chat)[0]
	leave()
	r.wantCompleted(queued.wait())
	if _, all := r.slowGateCalls(); all != 2 {
		t.Errorf("%d calls of who found a permit free, want 2: who waited does not count", all)
	}
}

// TestQueueWaitIsNotGateTime: however long tasks wait for workers, whoever
// leaves them waiting, the gate is not called slow and its refusals not false.
func TestQueueWaitIsNotGateTime(t *testing.T) {
	withSynctest(t, withOneWorker, func(r *testProxy) {
		leave := r.occupy(1)
		queued := r.queueCalls(3, chat)
		for range 20 {
			r.wantRefused(r.chat(), admission.ReasonQueueDepth)
			r.wantRefused(r.chat(deadlineHeader, "1ms"), admission.ReasonQueueDepth)
		}
		time.Sleep(26 * time.Second)
		r.wantRefused(r.chat(), admission.ReasonQueueAge)
		leave()
		for _, c := range queued {
			r.wantCompleted(c.wait())
		}
		if slow, all := r.slowGateCalls(); slow != 0 || all != 2 {
			t.Errorf("%d of %d slow, want 0 of 2", slow, all)
		}
	})
}
