package admission_test

import (
	"testing"
	"time"

	"headgate/proxy/admission"
)

// TestDeadlinePassedIsOneReason: wherever a deadline passes before the task
// goes upstream, the reason is the same, the permit free, and nobody told twice.
func TestDeadlinePassedIsOneReason(t *testing.T) {
	const deadline = 10 * time.Second
	task := admission.Task{Deadline: at(deadline)}
	for name, late := range map[string]time.Duration{"at the deadline": deadline, "long after": time.Hour} {
		t.Run("before it came, "+name, func(t *testing.T) {
			g := newGate(t, admission.Config{})
			offer(g, late, task).wantReason(t, admission.ReasonDeadlinePassed)
			wantGauges(t, g, late, 0, 0, 0)
		})
		t.Run("before it came, all busy, "+name, func(t *testing.T) {
			g := newGate(t, admission.Config{})
			offerN(g, 0, 4)
			offer(g, late, task).wantReason(t, admission.ReasonDeadlinePassed)
			wantGauges(t, g, late, 1, 3, late)
		})
		t.Run("while it waited, "+name, func(t *testing.T) {
			g := newGate(t, admission.Config{})
			offer(g, 0, admission.Task{})
			v := offer(g, 0, task)
			r := g.Expire(at(late), v.Ticket)
			if bad := refusalDefect(r); r.Reason != admission.ReasonDeadlinePassed || bad != "" {
				t.Fatalf("expired with %+v: %s", r, bad)
			}
			if again := g.Expire(at(late), v.Ticket); again != (admission.Refusal{}) {
				t.Fatalf("expired twice: %+v", again)
			}
			wantGauges(t, g, late, 1, 0, 0)
			if len(v.received) != 0 {
				t.Fatalf("also told %v", v.received)
			}
		})
		t.Run("when a permit came, "+name, func(t *testing.T) {
			g := newGate(t, admission.Config{})
			running, v, next := offer(g, 0, admission.Task{}), offer(g, 0, task), offer(g, 0, admission.Task{})
			g.Release(at(late), running.Ticket, admission.Served)
			v.wantReason(t, admission.ReasonDeadlinePassed)
			next.wantReason(t, admission.ReasonNone)
			wantGauges(t, g, late, 1, 0, 0)
		})
		t.Run("between grant and start, "+name, func(t *testing.T) {
			g := newGate(t, admission.Config{})
			v, next := offer(g, 0, task), offer(g, 0, admission.Task{})
			d := g.Start(at(late), v.Ticket)
			if bad := refusalDefect(d.Refusal); d.Reason != admission.ReasonDeadlinePassed || d.Ticket != nil || bad != "" {
				t.Fatalf("started with %+v: %s", d, bad)
			}
			next.wantReason(t, admission.ReasonNone)
			if g.Release(at(late), v.Ticket, admission.Served) {
				t.Fatal("the permit came back a second time")
			}
			wantGauges(t, g, late, 1, 0, 0)
		})
	}
}

func TestDeadlineAhead(t *testing.T) {
	g := newGate(t, admission.Config{})
	task := admission.Task{Deadline: at(10 * time.Second)}
	running, v := offer(g, 0, task), offer(g, 0, task)
	soon := 10*time.Second - 1
	if r := g.Expire(at(soon), v.Ticket); r != (admission.Refusal{}) {
		t.Fatalf("expired before its deadline: %+v", r)
	}
	if d := g.Start(at(soon), running.Ticket); d.Reason != admission.ReasonNone || d.Ticket != running.Ticket {
		t.Fatalf("was not let start before its deadline: %+v", d)
	}
	g.Release(at(soon), running.Ticket, admission.Served)
	v.wantReason(t, admission.ReasonNone)
}

// TestStartRefusesOnlyWhoRuns: in any state but running, Start says nothing and
// changes nothing.
func TestStartRefusesOnlyWhoRuns(t *testing.T) {
	g := newGate(t, admission.Config{})
	task := admission.Task{Deadline: at(time.Second)}
	ended, waits := offer(g, 0, task), offer(g, 0, task)
	if d := g.Start(at(time.Hour), waits.Ticket); d.Reason != admission.ReasonNone {
		t.Fatalf("a waiting task was refused: %+v", d)
	}
	waits.wantWaiting(t)
	g.Release(at(0), ended.Ticket, admission.Dropped)
	if d := g.Start(at(time.Hour), ended.Ticket); d.Reason != admission.ReasonNone {
		t.Fatalf("a task that has ended was refused: %+v", d)
	}
}

// TestGrantSkipsExpiredTasks: one release clears all hopeless tasks away
// in front of the first one that can still make it.
func TestGrantSkipsExpiredTasks(t *testing.T) {
	g := newGate(t, admission.Config{Workers: 4})
	running := offerN(g, 0, 4)
	var late []*submission
	for range 5 {
		late = append(late, offer(g, 0, admission.Task{Deadline: at(time.Second)}))
	}
	fine := offer(g, 0, admission.Task{})
	g.Release(at(2*time.Second), running[2].Ticket, admission.Served)
	for _, v := range late {
		v.wantReason(t, admission.ReasonDeadlinePassed)
		if bad := refusalDefect(v.received[0]); bad != "" {
			t.Fatal(bad)
		}
	}
	fine.wantReason(t, admission.ReasonNone)
	wantGauges(t, g, 2*time.Second, 4, 0, 0)
}

func TestPolicyNoneIgnoresDeadlines(t *testing.T) {
	g := newGate(t, admission.Config{Policy: admission.None{}})
	task := admission.Task{Deadline: at(time.Second)}
	running, v := offer(g, time.Minute, task), offer(g, time.Minute, task)
	if d := g.Start(at(time.Minute), running.Ticket); d.Reason != admission.ReasonNone {
		t.Fatalf("refused at the start: %+v", d)
	}
	if r := g.Expire(at(time.Minute), v.Ticket); r.Reason != admission.ReasonNone {
		t.Fatalf("expired: %+v", r)
	}
	g.Release(at(time.Minute), running.Ticket, admission.Served)
	v.wantReason(t, admission.ReasonNone)
}
