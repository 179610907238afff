package admission_test

import (
	"errors"
	"testing"
	"time"

	"headgate/proxy/admission"
)

func TestThresholdAge(t *testing.T) {
	tests := []struct {
		name          string
		oldest, comer admission.Class
		age           time.Duration
		want          admission.Reason
	}{
		{"just under", admission.Interactive, admission.Interactive, 25*time.Second - 1, admission.ReasonNone},
		{"exactly the limit", admission.Interactive, admission.Interactive, 25 * time.Second, admission.ReasonNone},
		{"one nanosecond over", admission.Interactive, admission.Interactive, 25*time.Second + 1, admission.ReasonQueueAge},
		{"far over", admission.Interactive, admission.Interactive, time.Hour, admission.ReasonQueueAge},
		{"batch over", admission.Batch, admission.Batch, 25*time.Second + 1, admission.ReasonQueueAge},
		{"old batch does not shut out interactive", admission.Batch, admission.Interactive, time.Hour, admission.ReasonNone},
		{"old interactive does not shut out batch", admission.Interactive, admission.Batch, time.Hour, admission.ReasonNone},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate(t, admission.Config{})
			offer(g, 0, admission.Task{})
			offer(g, 0, admission.Task{Class: tt.oldest}).wantWaiting(t)
			if got := offer(g, tt.age, admission.Task{Class: tt.comer}).Reason; got != tt.want {
				t.Fatalf("refused for %q, want %q", got, tt.want)
			}
		})
	}
}

// TestThresholdAgeIsOfTheQueued shows that a task that runs for long is not an
// old queue.
func TestThresholdAgeIsOfTheQueued(t *testing.T) {
	g := newGate(t, admission.Config{})
	offer(g, 0, admission.Task{})
	offer(g, time.Hour, admission.Task{}).wantWaiting(t)
	offer(g, time.Hour+25*time.Second, admission.Task{}).wantWaiting(t)
}

func TestThresholdDepth(t *testing.T) {
	for _, workers := range []int{1, 4, 8} {
		g := newGate(t, admission.Config{Workers: workers})
		for i, v := range offerN(g, 0, workers) {
			if v.Waiting || v.Reason != admission.ReasonNone {
				t.Fatalf("%d workers: task %d waits %v, refused %q; want it to run", workers, i, v.Waiting, v.Reason)
			}
		}
		// More than 2 N: with 2 N queued, one more still comes in.
		for _, v := range offerN(g, 0, 2*workers+1) {
			v.wantWaiting(t)
		}
		v := offer(g, 0, admission.Task{})
		v.wantReason(t, admission.ReasonQueueDepth)
		if v.Ticket != nil {
			t.Fatal("a refused task has a ticket")
		}
		wantGauges(t, g, 0, workers, 2*workers+1, 0)
	}
}

// TestThresholdDepthCountsAllClasses shows that permits and room are shared,
// though ages are not.
func TestThresholdDepthCountsAllClasses(t *testing.T) {
	g := newGate(t, admission.Config{})
	offer(g, 0, admission.Task{})
	for range 3 {
		offer(g, 0, admission.Task{Class: admission.Batch}).wantWaiting(t)
	}
	offer(g, 0, admission.Task{}).wantReason(t, admission.ReasonQueueDepth)
}

// TestThresholdAgeIsNamedFirst settles which reason a task gets that both
// halves of the rule refuse.
func TestThresholdAgeIsNamedFirst(t *testing.T) {
	g := newGate(t, admission.Config{})
	offerN(g, 0, 4)
	offer(g, 25*time.Second, admission.Task{}).wantReason(t, admission.ReasonQueueDepth)
	offer(g, 25*time.Second+1, admission.Task{}).wantReason(t, admission.ReasonQueueAge)
}

// TestThresholdDepthFollowsWorkers shows that the multiple is of the present
// number of workers, also while more than that are running.
func TestThresholdDepthFollowsWorkers(t *testing.T) {
	g := newGate(t, admission.Config{Workers: 4})
	offerN(g, 0, 4+5)
	offer(g, 0, admission.Task{}).wantWaiting(t)
	if err := g.Resize(at(0), 2); err != nil {
		t.Fatal(err)
	}
	offer(g, 0, admission.Task{}).wantReason(t, admission.ReasonQueueDepth)
}

func TestNewThreshold(t *testing.T) {
	tests := []struct {
		name     string
		age      time.Duration
		multiple int
		field    string // "" if the numbers make sense
	}{
		{"the default", 25 * time.Second, 2, ""},
		{"the least", 1, 1, ""},
		{"no age", 0, 2, "max_queue_age"},
		{"negative age", -time.Second, 2, "max_queue_age"},
		{"no multiple", 25 * time.Second, 0, "depth_multiple"},
		{"negative multiple", 25 * time.Second, -1, "depth_multiple"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p, err := admission.NewThreshold(tt.age, tt.multiple)
			if tt.field == "" {
				if want := (admission.Threshold{MaxQueueAge: tt.age, DepthMultiple: tt.multiple}); err != nil || p != want {
					t.Fatalf("got %+v, %v; want %+v", p, err, want)
				}
				return
			}
			wantField(t, err, tt.field)
			if p != (admission.Threshold{}) {
				t.Fatalf("returned %+v beside the error", p)
			}
		})
	}
}

// wantField checks that err names a setting and names the valid values.
func wantField(t *testing.T, err error, field string) {
	t.Helper()
	var f *admission.FieldError
	if !errors.As(err, &f) || f.Field != field || len(f.Message) < len("must ") || f.Message[:5] != "must " {
		t.Fatalf("error is %v, want one about %s with the valid values", err, field)
	}
	if got, want := err.Error(), f.Field+": "+f.Message; got != want {
		t.Fatalf("error reads %q, want %q", got, want)
	}
}

// TestDeadlinePassedIsOneReason: wherever a deadline passes before the task
// goes upstream, the reason is the same, the permit free, and no waiter is called twice.
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
				t.Fatalf("also received %v", v.received)
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
			d := g.CheckDispatch(at(late), v.Ticket)
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
	if d := g.CheckDispatch(at(soon), running.Ticket); d.Reason != admission.ReasonNone || d.Ticket != running.Ticket {
		t.Fatalf("was not let start before its deadline: %+v", d)
	}
	g.Release(at(soon), running.Ticket, admission.Served)
	v.wantReason(t, admission.ReasonNone)
}

// TestStartRefusesOnlyWhoRuns: in any state but running, CheckDispatch refuses nothing and
// changes nothing.
func TestStartRefusesOnlyWhoRuns(t *testing.T) {
	g := newGate(t, admission.Config{})
	task := admission.Task{Deadline: at(time.Second)}
	ended, waits := offer(g, 0, task), offer(g, 0, task)
	if d := g.CheckDispatch(at(time.Hour), waits.Ticket); d.Reason != admission.ReasonNone {
		t.Fatalf("a waiting task was refused: %+v", d)
	}
	waits.wantWaiting(t)
	g.Release(at(0), ended.Ticket, admission.Dropped)
	if d := g.CheckDispatch(at(time.Hour), ended.Ticket); d.Reason != admission.ReasonNone {
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
	if d := g.CheckDispatch(at(time.Minute), running.Ticket); d.Reason != admission.ReasonNone {
		t.Fatalf("refused at the start: %+v", d)
	}
	if r := g.Expire(at(time.Minute), v.Ticket); r.Reason != admission.ReasonNone {
		t.Fatalf("expired: %+v", r)
	}
	g.Release(at(time.Minute), running.Ticket, admission.Served)
	v.wantReason(t, admission.ReasonNone)
}
