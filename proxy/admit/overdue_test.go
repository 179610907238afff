package admit_test

import (
	"testing"
	"time"

	"headgate/proxy/admit"
)

// backlog returns a gate that went to pass-through with one task running and
// four waiting, of which, at 30 s and 10 s a task, the second and the last are
// lost: one is late already, one would end too late.
func backlog(t *testing.T) (*admit.Gate, []*guest) {
	t.Helper()
	g := newGate(t, admit.Config{Mode: admit.PassThrough})
	var all []*guest
	for _, deadline := range []time.Duration{0, 50 * time.Second, 20 * time.Second, 60 * time.Second, 69 * time.Second} {
		task := admit.Task{Deadline: at(deadline)}
		if deadline == 0 {
			task.Deadline = time.Time{}
		}
		all = append(all, offer(g, 0, task))
	}
	return g, all
}

func TestWaitingTasksOutliveAReturnToEnforce(t *testing.T) {
	g, all := backlog(t)
	g.SetMode(at(30*time.Second), admit.Enforce)
	for i, v := range all[1:] {
		if r := g.Expire(at(100*time.Second), v.Ticket); r.Reason != admit.ReasonNone {
			t.Fatalf("waiting task %d expired as %q, want it kept", i, r.Reason)
		}
	}
	for i := range all {
		g.Release(at(100*time.Second), all[i].Ticket, admit.Served)
		if i+1 < len(all) {
			all[i+1].wantFate(t, admit.ReasonNone)
			if d := g.Start(at(100*time.Second), all[i+1].Ticket); d.Reason != admit.ReasonNone {
				t.Fatalf("granted task %d was refused at its start: %q", i+1, d.Reason)
			}
		}
	}
	late := offer(g, 100*time.Second, admit.Task{Deadline: at(99 * time.Second)})
	late.wantFate(t, admit.ReasonDeadlinePassed)
}

func TestSettingTheSameModePromisesNothing(t *testing.T) {
	g := newGate(t, admit.Config{})
	offer(g, 0, admit.Task{})
	v := offer(g, 0, admit.Task{Deadline: at(time.Second)})
	g.SetMode(at(0), admit.Enforce)
	if r := g.Expire(at(time.Second), v.Ticket); r.Reason != admit.ReasonDeadlinePassed {
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
	g.SetMode(at(now), admit.Enforce)
	if n := g.DropOverdue(at(now)); n != 2 {
		t.Fatalf("dropped %d, want 2", n)
	}
	all[1].wantWaits(t)
	all[2].wantFate(t, admit.ReasonDeadlinePassed)
	all[3].wantWaits(t)
	all[4].wantFate(t, admit.ReasonDeadlineUnmeetable)
	for _, i := range []int{2, 4} {
		if retry := all[i].told[0].RetryAfter; retry < time.Second || retry > time.Minute {
			t.Fatalf("task %d may come back in %s", i, retry)
		}
	}
	wantGauges(t, g, now, 1, 2, now)
	if n := g.DropOverdue(at(now)); n != 0 {
		t.Fatalf("dropped %d more", n)
	}
}
