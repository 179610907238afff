package proxy

import (
	"context"
	"net/http"
	"sync"
	"testing"
	"time"

	"headgate/proxy/admission"
)

func TestQueuedClientLeavesAtOnce(t *testing.T) {
	for name, body := range map[string]string{"JSON": chat, "stream": stream} {
		t.Run(name, func(t *testing.T) {
			r := newTestProxy(t, withOneWorker)
			leave := r.occupy(1)
			waiting := r.queueCalls(2, body)
			waiting[0].leave()
			<-waiting[0].answer
			r.eventually("the queue is one shorter", func() bool { return r.heldResources().depth == 1 })
			if n := r.stub.Stats().Calls; n != 1 {
				t.Errorf("%d calls went upstream while one ran", n)
			}
			leave()
			r.wantCompleted(waiting[1].wait())
			if n := r.stub.Stats().Calls; n != 2 {
				t.Errorf("%d calls went upstream, want the one that ran and the one that stayed", n)
			}
			r.wantIdle()
			if n := r.recorder.outcomes(); n[admission.ClientGone] != 2 || n[admission.Completed] != 1 {
				t.Errorf("outcomes %v", n)
			}
		})
	}
}

func TestManyQueuedClientsLeave(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) { withOneWorker(p); p.gate.Policy = admission.None{} })
	leave := r.occupy(1)
	var group sync.WaitGroup
	ctx, vanish := context.WithCancel(context.Background())
	for range 50 {
		req := r.request(ctx, chatPath, chat)
		group.Go(func() { r.do(req) })
	}
	r.eventually("all wait", func() bool { return r.heldResources().depth == 50 })
	vanish()
	group.Wait()
	r.eventually("nobody waits", func() bool { return r.heldResources().depth == 0 })
	leave()
	r.wantCompleted(r.chat())
	if n := r.stub.Stats().Calls; n != 2 {
		t.Errorf("%d calls went upstream, want 2", n)
	}
}

// The grant and the departure meet at every possible moment.
func TestClientLeavesWhileThePermitComes(t *testing.T) {
	r := newTestProxy(t, withOneWorker)
	for i := range 200 {
		leave := r.occupy(1)
		waiting := r.queueCalls(1, chat)[0]
		var group sync.WaitGroup
		group.Go(leave)
		group.Go(func() {
			for range i * 10 { // later and later, within what a grant takes
				r.gate.Snapshot(time.Now())
			}
			waiting.leave()
		})
		group.Wait()
		<-waiting.answer
		r.eventually("the permit is back", func() bool { return r.heldResources() == (resources{}) })
	}
}

func TestClientLeavesBetweenGrantAndDispatch(t *testing.T) {
	ctx, leave := context.WithCancel(context.Background())
	r := newTestProxy(t, func(p *fixture) { p.gate.Policy = hookedPolicy{Policy: p.gate.Policy, onDispatch: leave} })
	if _, aborted := r.serveRecorded(r.request(ctx, chatPath, chat)); !aborted {
		t.Error("a client that has gone was answered")
	}
	if o := r.wantOutcome(admission.ClientGone, 0); !o.Granted {
		t.Error("it held a permit")
	}
	if n := r.stub.Stats().Calls; n != 0 {
		t.Errorf("%d calls went upstream", n)
	}
}

// Before the queue or in it: a client that has gone is the same to us.
func TestClientLeavesBeforeTheQueue(t *testing.T) {
	ctx, leave := context.WithCancel(context.Background())
	leave()
	r := newTestProxy(t, nil)
	if rec, aborted := r.serveRecorded(r.request(ctx, chatPath, chat)); !aborted {
		t.Errorf("a client that has gone was answered with %d", rec.Code)
	}
	r.wantOutcome(admission.ClientGone, 0)
	if n := r.stub.Stats().Calls; n != 0 {
		t.Errorf("%d calls went upstream", n)
	}
}

func TestDrainRefusesWaitingAndNewTasks(t *testing.T) {
	withSynctest(t, withOneWorker, func(r *testProxy) {
		running := r.start(chatPath, chat, "Stub-Service", "10s")
		r.eventually("one runs", func() bool { return r.heldResources().inFlight == 1 })
		queued := r.queueCalls(2, chat)
		r.gate.Drain(time.Now())
		for _, c := range queued {
			r.wantRefused(c.wait(), admission.ReasonDraining)
		}
		r.wantRefused(r.chat(), admission.ReasonDraining)
		r.wantCompleted(running.wait())
		if n := r.recorder.outcomes(); n[admission.Drained] != 3 || n[admission.Completed] != 1 {
			t.Errorf("outcomes %v", n)
		}
	})
}

// What runs when the drain time is over is cut off, and counts as drained.
func TestDrainTimeoutCancelsTasks(t *testing.T) {
	ctx, cut := context.WithCancelCause(context.Background())
	r := newTestProxy(t, func(p *fixture) { withOneWorker(p); p.base = func() context.Context { return ctx } })
	running := r.start(chatPath, stream, "Stub-Fault", "hang_after=1")
	r.eventually("one runs", func() bool { return r.stub.Stats().InFlight == 1 })
	waiting := r.queueCalls(1, chat)[0]
	cut(ErrDrainTimeout)
	for _, c := range []call{running, waiting} {
		if a := c.wait(); a.err == nil {
			t.Errorf("a whole answer: %d %s", a.status, a.body)
		}
	}
	r.wantIdle()
	if n := r.recorder.outcomes(); n[admission.Drained] != 2 {
		t.Errorf("outcomes %v", n)
	}
}

func TestLimitOfTheQueueHoldsInPassThrough(t *testing.T) {
	r := newTestProxy(t, func(p *fixture) { withOneWorker(p); p.gate.Mode, p.gate.QueueLimit = admission.PassThrough, 5 })
	leave := r.occupy(1)
	waiting := r.queueCalls(5, chat)
	r.wantRefused(r.chat(), admission.ReasonMemory)
	leave()
	for _, c := range waiting {
		r.wantCompleted(c.wait())
	}
}

func TestModelsTakeNoPermit(t *testing.T) {
	r := newTestProxy(t, withOneWorker)
	leave := r.occupy(1)
	defer leave()
	res, err := r.client.Get(r.server.url() + modelsPath)
	if err != nil {
		t.Fatal(err)
	}
	if a := read(res); a.status != http.StatusOK || a.err != nil {
		t.Errorf("status %d (%v)", a.status, a.err)
	}
	if h := r.heldResources(); h.inFlight != 1 || h.depth != 0 {
		t.Errorf("held %+v", h)
	}
}
