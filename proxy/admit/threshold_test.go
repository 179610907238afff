package admit_test

import (
	"errors"
	"testing"
	"time"

	"headgate/proxy/admit"
)

func TestThresholdAge(t *testing.T) {
	tests := []struct {
		name          string
		oldest, comer admit.Class
		age           time.Duration
		want          admit.Reason
	}{
		{"just under", admit.Interactive, admit.Interactive, 25*time.Second - 1, admit.ReasonNone},
		{"exactly the limit", admit.Interactive, admit.Interactive, 25 * time.Second, admit.ReasonNone},
		{"one nanosecond over", admit.Interactive, admit.Interactive, 25*time.Second + 1, admit.ReasonQueueAge},
		{"far over", admit.Interactive, admit.Interactive, time.Hour, admit.ReasonQueueAge},
		{"batch over", admit.Batch, admit.Batch, 25*time.Second + 1, admit.ReasonQueueAge},
		{"old batch does not shut out interactive", admit.Batch, admit.Interactive, time.Hour, admit.ReasonNone},
		{"old interactive does not shut out batch", admit.Interactive, admit.Batch, time.Hour, admit.ReasonNone},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate(t, admit.Config{})
			offer(g, 0, admit.Task{})
			offer(g, 0, admit.Task{Class: tt.oldest}).wantWaits(t)
			if got := offer(g, tt.age, admit.Task{Class: tt.comer}).Reason; got != tt.want {
				t.Fatalf("refused for %q, want %q", got, tt.want)
			}
		})
	}
}

// TestThresholdAgeIsOfTheQueued shows that a task that runs for long is not an
// old queue.
func TestThresholdAgeIsOfTheQueued(t *testing.T) {
	g := newGate(t, admit.Config{})
	offer(g, 0, admit.Task{})
	offer(g, time.Hour, admit.Task{}).wantWaits(t)
	offer(g, time.Hour+25*time.Second, admit.Task{}).wantWaits(t)
}

func TestThresholdDepth(t *testing.T) {
	for _, workers := range []int{1, 4, 8} {
		g := newGate(t, admit.Config{Workers: workers})
		for i, v := range crowd(g, 0, workers) {
			if v.Waiting || v.Reason != admit.ReasonNone {
				t.Fatalf("%d workers: task %d waits %v, refused %q; want it to run", workers, i, v.Waiting, v.Reason)
			}
		}
		// More than 2 N: with 2 N queued, one more still comes in.
		for _, v := range crowd(g, 0, 2*workers+1) {
			v.wantWaits(t)
		}
		v := offer(g, 0, admit.Task{})
		v.wantFate(t, admit.ReasonQueueDepth)
		if v.Ticket != nil {
			t.Fatal("a refused task has a ticket")
		}
		wantGauges(t, g, 0, workers, 2*workers+1, 0)
	}
}

// TestThresholdDepthCountsAllClasses shows that permits and room are shared,
// though ages are not.
func TestThresholdDepthCountsAllClasses(t *testing.T) {
	g := newGate(t, admit.Config{})
	offer(g, 0, admit.Task{})
	for range 3 {
		offer(g, 0, admit.Task{Class: admit.Batch}).wantWaits(t)
	}
	offer(g, 0, admit.Task{}).wantFate(t, admit.ReasonQueueDepth)
}

// TestThresholdAgeIsNamedFirst settles which reason a task gets that both
// halves of the rule refuse.
func TestThresholdAgeIsNamedFirst(t *testing.T) {
	g := newGate(t, admit.Config{})
	crowd(g, 0, 4)
	offer(g, 25*time.Second, admit.Task{}).wantFate(t, admit.ReasonQueueDepth)
	offer(g, 25*time.Second+1, admit.Task{}).wantFate(t, admit.ReasonQueueAge)
}

// TestThresholdDepthFollowsWorkers shows that the multiple is of the present
// number of workers, also while more than that are running.
func TestThresholdDepthFollowsWorkers(t *testing.T) {
	g := newGate(t, admit.Config{Workers: 4})
	crowd(g, 0, 4+5)
	offer(g, 0, admit.Task{}).wantWaits(t)
	if err := g.Resize(at(0), 2); err != nil {
		t.Fatal(err)
	}
	offer(g, 0, admit.Task{}).wantFate(t, admit.ReasonQueueDepth)
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
			p, err := admit.NewThreshold(tt.age, tt.multiple)
			if tt.field == "" {
				if want := (admit.Threshold{MaxQueueAge: tt.age, DepthMultiple: tt.multiple}); err != nil || p != want {
					t.Fatalf("got %+v, %v; want %+v", p, err, want)
				}
				return
			}
			wantField(t, err, tt.field)
			if p != (admit.Threshold{}) {
				t.Fatalf("returned %+v beside the error", p)
			}
		})
	}
}

// wantField checks that err names a setting and says what would be right.
func wantField(t *testing.T, err error, field string) {
	t.Helper()
	var f *admit.FieldError
	if !errors.As(err, &f) || f.Field != field || len(f.Problem) < len("must ") || f.Problem[:5] != "must " {
		t.Fatalf("error is %v, want one about %s that says what it must be", err, field)
	}
	if got, want := err.Error(), f.Field+": "+f.Problem; got != want {
		t.Fatalf("error reads %q, want %q", got, want)
	}
}
