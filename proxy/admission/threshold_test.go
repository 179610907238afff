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
		{"the article's", 25 * time.Second, 2, ""},
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

// wantField checks that err names a setting and says what would be right.
func wantField(t *testing.T, err error, field string) {
	t.Helper()
	var f *admission.FieldError
	if !errors.As(err, &f) || f.Field != field || len(f.Message) < len("must ") || f.Message[:5] != "must " {
		t.Fatalf("error is %v, want one about %s that says what it must be", err, field)
	}
	if got, want := err.Error(), f.Field+": "+f.Message; got != want {
		t.Fatalf("error reads %q, want %q", got, want)
	}
}
