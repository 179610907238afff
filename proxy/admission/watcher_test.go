package admission_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"headgate/proxy/admission"
)

// diary is a watcher that writes everything down and disputes every refusal.
type diary struct{ lines []string }

func (d *diary) Changed(t admission.Terms) {
	d.add("%d workers, %s, paused %t", t.Workers, t.Policy.Name(), !t.Paused.IsZero())
}

func (d *diary) Saw(now time.Time, t *admission.Ticket, s admission.Step) {
	d.add("%s %s at %s", t.Class(), [...]string{"queued", "granted", "left", "returned", "over"}[s], now.Sub(epoch))
}

func (d *diary) Disputes(now time.Time, c admission.Class, r admission.Reason) string {
	d.add("%s refused for %s at %s", c, r, now.Sub(epoch))
	return "never mind"
}

func (d *diary) add(format string, a ...any) { d.lines = append(d.lines, fmt.Sprintf(format, a...)) }

// wantNext checks what was written down since the last time.
func (d *diary) wantNext(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(d.lines, want) {
		t.Fatalf("saw %q, want %q", d.lines, want)
	}
	d.lines = nil
}

// TestWatcherSeesWhatOwnersDo: it hears of every grant and every departure, of
// those too that the gate makes nothing of.
func TestWatcherSeesWhatOwnersDo(t *testing.T) {
	d := new(diary)
	g := newGate(t, admission.Config{Watcher: d})
	d.wantNext(t, "1 workers, threshold, paused false")
	running, waits := offer(g, 0, admission.Task{}), offer(g, 0, admission.Task{Class: admission.Batch})
	d.wantNext(t, "interactive granted at 0s", "batch queued at 0s")
	g.Leave(at(time.Second), running.Ticket)
	g.Release(at(time.Second), waits.Ticket, admission.Served)
	d.wantNext(t, "interactive left at 1s", "batch returned at 1s")
	g.Release(at(2*time.Second), running.Ticket, admission.Served)
	d.wantNext(t, "interactive returned at 2s", "batch granted at 2s")
	g.Over(at(2*time.Second), running.Ticket)
	d.wantNext(t, "interactive over at 2s")
	g.Pause(at(2*time.Second), at(3*time.Second))
	d.wantNext(t, "1 workers, threshold, paused true")
	g.Snapshot(at(3 * time.Second))
	d.wantNext(t, "1 workers, threshold, paused false")
}

// TestWatcherSeesWhoIsTurnedAway on the way to a permit, by whichever call.
func TestWatcherSeesWhoIsTurnedAway(t *testing.T) {
	task := admission.Task{Deadline: at(10 * time.Second)}
	for name, tt := range map[string]struct {
		call func(*admission.Gate, *guest, *guest)
		want []string
	}{
		"Expire":      {func(g *admission.Gate, _, w *guest) { g.Expire(at(10*time.Second), w.Ticket) }, []string{"interactive left at 10s"}},
		"DropOverdue": {func(g *admission.Gate, _, _ *guest) { g.DropOverdue(at(10 * time.Second)) }, []string{"interactive left at 10s"}},
		"Drain":       {func(g *admission.Gate, _, _ *guest) { g.Drain(at(time.Second)) }, []string{"interactive left at 1s"}},
		"Release": {func(g *admission.Gate, r, _ *guest) { g.Release(at(10*time.Second), r.Ticket, admission.Served) },
			[]string{"interactive returned at 10s", "interactive left at 10s"}},
		"Start": {func(g *admission.Gate, r, _ *guest) { g.Start(at(10*time.Second), r.Ticket) },
			[]string{"interactive returned at 10s", "interactive left at 10s"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := new(diary)
			g := newGate(t, admission.Config{Watcher: d})
			running, waits := offer(g, 0, task), offer(g, 0, task)
			d.lines = nil
			tt.call(g, running, waits)
			d.wantNext(t, tt.want...)
		})
	}
}

// TestWatcherIsAskedAboutRefusals that are made, and about no others.
func TestWatcherIsAskedAboutRefusals(t *testing.T) {
	d := new(diary)
	g := newGate(t, admission.Config{Watcher: d})
	crowd(g, 0, 4)
	d.lines = nil
	v := offer(g, time.Second, admission.Task{Class: admission.Batch})
	if v.Reason != admission.ReasonQueueDepth || v.Disputed != "never mind" {
		t.Fatalf("decided %+v", v.Decision)
	}
	d.wantNext(t, "batch refused for queue_depth at 1s")
	g.SetMode(at(time.Second), admission.Observe)
	d.lines = nil
	if v := offer(g, time.Second, admission.Task{}); !v.Waiting || v.Disputed != "" {
		t.Fatalf("decided %+v", v.Decision)
	}
	d.wantNext(t, "interactive queued at 1s")
}

// TestReconfigureKeepsTheWatcher, which hears of the new terms.
func TestReconfigureKeepsTheWatcher(t *testing.T) {
	d := new(diary)
	g := newGate(t, admission.Config{Watcher: d})
	d.lines = nil
	if err := g.Reconfigure(at(0), admission.Config{Workers: 7, Policy: admission.None{}, QueueLimit: 1, AssumedService: 1}); err != nil {
		t.Fatal(err)
	}
	d.wantNext(t, "7 workers, none, paused false")
}
