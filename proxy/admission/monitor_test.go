package admission_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"headgate/proxy/admission"
)

// recordingMonitor is a watcher that writes everything down and disputes every refusal.
type recordingMonitor struct{ events []string }

func (d *recordingMonitor) OnLimits(t admission.Limits) {
	d.add("%d workers, %s, paused %t", t.Workers, t.Policy.Name(), !t.PausedUntil.IsZero())
}

func (d *recordingMonitor) OnStep(now time.Time, t *admission.Ticket, s admission.Step) {
	d.add("%s %s at %s", t.Class(), [...]string{"queued", "granted", "left", "returned", "over"}[s], now.Sub(epoch))
}

func (d *recordingMonitor) CheckRefusal(now time.Time, c admission.Class, r admission.Reason) string {
	d.add("%s refused for %s at %s", c, r, now.Sub(epoch))
	return "never mind"
}

func (d *recordingMonitor) add(format string, a ...any) {
	d.events = append(d.events, fmt.Sprintf(format, a...))
}

// wantNext checks what was written down since the last time.
func (d *recordingMonitor) wantNext(t *testing.T, want ...string) {
	t.Helper()
	if !slices.Equal(d.events, want) {
		t.Fatalf("saw %q, want %q", d.events, want)
	}
	d.events = nil
}

// TestMonitorSeesSteps: it hears of every grant and every departure, of
// those too that the gate makes nothing of.
func TestMonitorSeesSteps(t *testing.T) {
	d := new(recordingMonitor)
	g := newGate(t, admission.Config{Monitor: d})
	d.wantNext(t, "1 workers, threshold, paused false")
	running, waits := offer(g, 0, admission.Task{}), offer(g, 0, admission.Task{Class: admission.Batch})
	d.wantNext(t, "interactive granted at 0s", "batch queued at 0s")
	g.Cancel(at(time.Second), running.Ticket)
	g.Release(at(time.Second), waits.Ticket, admission.Served)
	d.wantNext(t, "interactive left at 1s", "batch returned at 1s")
	g.Release(at(2*time.Second), running.Ticket, admission.Served)
	d.wantNext(t, "interactive returned at 2s", "batch granted at 2s")
	g.Finish(at(2*time.Second), running.Ticket)
	d.wantNext(t, "interactive over at 2s")
	g.Pause(at(2*time.Second), at(3*time.Second))
	d.wantNext(t, "1 workers, threshold, paused true")
	g.Snapshot(at(3 * time.Second))
	d.wantNext(t, "1 workers, threshold, paused false")
}

// TestMonitorSeesDequeuedTasks on the way to a permit, by whichever call.
func TestMonitorSeesDequeuedTasks(t *testing.T) {
	task := admission.Task{Deadline: at(10 * time.Second)}
	for name, tt := range map[string]struct {
		call func(*admission.Gate, *submission, *submission)
		want []string
	}{
		"Expire":      {func(g *admission.Gate, _, w *submission) { g.Expire(at(10*time.Second), w.Ticket) }, []string{"interactive left at 10s"}},
		"DropOverdue": {func(g *admission.Gate, _, _ *submission) { g.DropOverdue(at(10 * time.Second)) }, []string{"interactive left at 10s"}},
		"Drain":       {func(g *admission.Gate, _, _ *submission) { g.Drain(at(time.Second)) }, []string{"interactive left at 1s"}},
		"Release": {func(g *admission.Gate, r, _ *submission) { g.Release(at(10*time.Second), r.Ticket, admission.Served) },
			[]string{"interactive returned at 10s", "interactive left at 10s"}},
		"CheckDispatch": {func(g *admission.Gate, r, _ *submission) { g.CheckDispatch(at(10*time.Second), r.Ticket) },
			[]string{"interactive returned at 10s", "interactive left at 10s"}},
	} {
		t.Run(name, func(t *testing.T) {
			d := new(recordingMonitor)
			g := newGate(t, admission.Config{Monitor: d})
			running, waits := offer(g, 0, task), offer(g, 0, task)
			d.events = nil
			tt.call(g, running, waits)
			d.wantNext(t, tt.want...)
		})
	}
}

// TestMonitorChecksRefusals that are made, and about no others.
func TestMonitorChecksRefusals(t *testing.T) {
	d := new(recordingMonitor)
	g := newGate(t, admission.Config{Monitor: d})
	offerN(g, 0, 4)
	d.events = nil
	v := offer(g, time.Second, admission.Task{Class: admission.Batch})
	if v.Reason != admission.ReasonQueueDepth || v.Violation != "never mind" {
		t.Fatalf("decided %+v", v.Decision)
	}
	d.wantNext(t, "batch refused for queue_depth at 1s")
	g.SetMode(at(time.Second), admission.Observe)
	d.events = nil
	if v := offer(g, time.Second, admission.Task{}); !v.Waiting || v.Violation != "" {
		t.Fatalf("decided %+v", v.Decision)
	}
	d.wantNext(t, "interactive queued at 1s")
}

// TestReconfigureKeepsMonitor, which hears of the new terms.
func TestReconfigureKeepsMonitor(t *testing.T) {
	d := new(recordingMonitor)
	g := newGate(t, admission.Config{Monitor: d})
	d.events = nil
	if err := g.Reconfigure(at(0), admission.Config{Workers: 7, Policy: admission.None{}, QueueLimit: 1, AssumedService: 1}); err != nil {
		t.Fatal(err)
	}
	d.wantNext(t, "7 workers, none, paused false")
}
