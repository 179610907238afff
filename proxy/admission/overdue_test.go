package admission_test

import (
	"testing"
	"time"

	"headgate/proxy/admission"
)

// backlog returns a gate that went to pass-through with one task running and
// four waiting, of which, at 30 s and 10 s a task, the second and the last are
// lost: one is late already, one would end too late.
func backlog(t *testing.T) (*admission.Gate, []*submission) {
	t.Helper()
	g := newGate(t, admission.Config{Mode: admission.PassThrough})
	var all []*submission
	for _, deadline := range []time.Duration{0, 50 * time.Second, 20 * time.Second, 60 * time.Second, 69 * time.Second} {
		task := admission.Task{Deadline: at(deadline)}
		if deadline == 0 {
			task.Deadline = time.Time{}
		}
		all = append(all, offer(g, 0, task))
	}
	return g, all
}

func TestWaitingTasksAreGrandfathered(t *testing.T) {
	g, all := backlog(t)
	g.SetMode(at(30*time.Second), admission.Enforce)
	for i, v := range all[1:] {
		if r := g.Expire(at(100*time.Second), v.Ticket); r.Reason != admission.ReasonNone {
			t.Fatalf("waiting task %d expired as %q, want it kept", i, r.Reason)
		}
	}
	for i := range all {
		g.Release(at(100*time.Second), all[i].Ticket, admission.Served)
		if i+1 < len(all) {
			all[i+1].wantReason(t, admission.ReasonNone)
			if d := g.Start(at(100*time.Second), all[i+1].Ticket); d.Reason != admission.ReasonNone {
				t.Fatalf("granted task %d was refused at its start: %q", i+1, d.Reason)
			}
		}
	}
	late := offer(g, 100*time.Second, admission.Task{Deadline: at(99 * time.Second)})
	late.wantReason(t, admission.ReasonDeadlinePassed)
}

func TestSetSameModeGrandfathersNothing(t *testing.T) {
	g := newGate(t, admission.Config{})
	offer(g, 0, admission.Task{})
	v := offer(g, 0, admission.Task{Deadline: at(time.Second)})
	g.SetMode(at(0), admission.Enforce)
	if r := g.Expire(at(time.Second), v.Ticket); r.Reason != admission.ReasonDeadlinePassed {
		t.Fatalf("expired as %q, want deadline_passed", r.Reason)
	}
}

func TestDropOverdue(t *testing.T) {
	g, all := backlog(t)
	now := 30 * time.Second
	n, drain := g.Overdue(at(now))
	if n != 2 || drain != 40*time.Second {
		t.Fatalf("overdue %d, drain %s; want 2 and 40s", n, drain)
	}
	g.SetMode(at(now), admission.Enforce)
	if n := g.DropOverdue(at(now)); n != 2 {
		t.Fatalf("dropped %d, want 2", n)
	}
	all[1].wantWaiting(t)
	all[2].wantReason(t, admission.ReasonDeadlinePassed)
	all[3].wantWaiting(t)
	all[4].wantReason(t, admission.ReasonDeadlineUnmeetable)
	for _, i := range []int{2, 4} {
		if retry := all[i].received[0].RetryAfter; retry < time.Second || retry > time.Minute {
			t.Fatalf("task %d may come back in %s", i, retry)
		}
	}
	wantGauges(t, g, now, 1, 2, now)
	if n := g.DropOverdue(at(now)); n != 0 {
		t.Fatalf("dropped %d more", n)
	}
}
