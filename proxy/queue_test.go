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
			r := newRig(t, oneWorker)
			leave := r.occupy(1)
			waiting := r.queue(2, body)
			waiting[0].leave()
			<-waiting[0].answer
			r.eventually("the queue is one shorter", func() bool { return r.held().depth == 1 })
			if n := r.stub.Stats().Calls; n != 1 {
				t.Errorf("%d calls went upstream while one ran", n)
			}
			leave()
			r.completed(waiting[1].wait())
			if n := r.stub.Stats().Calls; n != 2 {
				t.Errorf("%d calls went upstream, want the one that ran and the one that stayed", n)
			}
			r.settle()
			if n := r.seen.outcomes(); n[admission.ClientGone] != 2 || n[admission.Completed] != 1 {
				t.Errorf("outcomes %v", n)
			}
		})
	}
}

func TestFiftyQueuedClientsVanish(t *testing.T) {
	r := newRig(t, func(p *plan) { oneWorker(p); p.gate.Policy = admission.None{} })
	leave := r.occupy(1)
	var group sync.WaitGroup
	ctx, vanish := context.WithCancel(context.Background())
	for range 50 {
		req := r.request(ctx, chatPath, chat)
		group.Go(func() { r.do(req) })
	}
	r.eventually("all wait", func() bool { return r.held().depth == 50 })
	vanish()
	group.Wait()
	r.eventually("nobody waits", func() bool { return r.held().depth == 0 })
	leave()
	r.completed(r.chat())
	if n := r.stub.Stats().Calls; n != 2 {
		t.Errorf("%d calls went upstream, want 2", n)
	}
}

// The grant and the departure meet at every possible moment.
func TestClientLeavesWhileThePermitComes(t *testing.T) {
	r := newRig(t, oneWorker)
	for i := range 200 {
		leave := r.occupy(1)
		waiting := r.queue(1, chat)[0]
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
		r.eventually("the permit is back", func() bool { return r.held() == (holdings{}) })
	}
}

func TestClientLeavesBetweenGrantAndDispatch(t *testing.T) {
	ctx, leave := context.WithCancel(context.Background())
	r := newRig(t, func(p *plan) { p.gate.Policy = hooked{Policy: p.gate.Policy, onDispatch: leave} })
	if _, aborted := r.handle(r.request(ctx, chatPath, chat)); !aborted {
		t.Error("a client that has gone was answered")
	}
	if o := r.want(admission.ClientGone, 0); !o.Granted {
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
	r := newRig(t, nil)
	if rec, aborted := r.handle(r.request(ctx, chatPath, chat)); !aborted {
		t.Errorf("a client that has gone was answered with %d", rec.Code)
	}
	r.want(admission.ClientGone, 0)
	if n := r.stub.Stats().Calls; n != 0 {
		t.Errorf("%d calls went upstream", n)
	}
}

func TestDrainTurnsAwayThoseWhoWaitAndThoseWhoCome(t *testing.T) {
	bubble(t, oneWorker, func(r *rig) {
		running := r.start(chatPath, chat, "Stub-Service", "10s")
		r.eventually("one runs", func() bool { return r.held().inFlight == 1 })
		queued := r.queue(2, chat)
		r.gate.Drain(time.Now())
		for _, c := range queued {
			r.refused(c.wait(), admission.ReasonDraining)
		}
		r.refused(r.chat(), admission.ReasonDraining)
		r.completed(running.wait())
		if n := r.seen.outcomes(); n[admission.Drained] != 3 || n[admission.Completed] != 1 {
			t.Errorf("outcomes %v", n)
		}
	})
}

// What runs when the drain time is over is cut off, and counts as drained.
func TestCutOffAfterTheDrainTime(t *testing.T) {
	ctx, cut := context.WithCancelCause(context.Background())
	r := newRig(t, func(p *plan) { oneWorker(p); p.base = func() context.Context { return ctx } })
	running := r.start(chatPath, stream, "Stub-Fault", "hang_after=1")
	r.eventually("one runs", func() bool { return r.stub.Stats().InFlight == 1 })
	waiting := r.queue(1, chat)[0]
	cut(ErrDraining)
	for _, c := range []call{running, waiting} {
		if a := c.wait(); a.err == nil {
			t.Errorf("a whole answer: %d %s", a.status, a.body)
		}
	}
	r.settle()
	if n := r.seen.outcomes(); n[admission.Drained] != 2 {
		t.Errorf("outcomes %v", n)
	}
}

func TestLimitOfTheQueueHoldsInPassThrough(t *testing.T) {
	r := newRig(t, func(p *plan) { oneWorker(p); p.gate.Mode, p.gate.QueueLimit = admission.PassThrough, 5 })
	leave := r.occupy(1)
	waiting := r.queue(5, chat)
	r.refused(r.chat(), admission.ReasonMemory)
	leave()
	for _, c := range waiting {
		r.completed(c.wait())
	}
}

func TestModelsTakeNoPermit(t *testing.T) {
	r := newRig(t, oneWorker)
	leave := r.occupy(1)
	defer leave()
	res, err := r.client.Get(r.data.url() + modelsPath)
	if err != nil {
		t.Fatal(err)
	}
	if a := read(res); a.status != http.StatusOK || a.err != nil {
		t.Errorf("status %d (%v)", a.status, a.err)
	}
	if h := r.held(); h.inFlight != 1 || h.depth != 0 {
		t.Errorf("held %+v", h)
	}
}
