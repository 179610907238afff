package invariant_test

import (
	"strings"
	"testing"
	"time"

	"headgate/proxy/admission"
	"headgate/proxy/admission/invariant"
)

// testChecker is a Checker that is driven by hand, through a gate of another
// pool that never refuses: only that can make tickets.
type testChecker struct {
	*invariant.Checker
	ticketGate *admission.Gate
}

func newTestChecker(t *testing.T, p admission.Policy) testChecker {
	t.Helper()
	mint, err := admission.New(admission.Config{Workers: 1 << 20, Policy: admission.None{}, QueueLimit: 1, AssumedService: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s := invariant.New()
	s.OnLimits(admission.Limits{Workers: 2, Policy: p})
	return testChecker{s, mint}
}

// steps makes a task and reports its steps, at a time after the epoch.
func (p testChecker) steps(at time.Duration, c admission.Class, steps ...admission.Step) *admission.Ticket {
	ticket := p.ticketGate.Offer(epoch, admission.Task{Class: c}).Ticket
	for _, s := range steps {
		p.OnStep(epoch.Add(at), ticket, s)
	}
	return ticket
}

// fill has two tasks run and n wait.
func (p testChecker) fill(n int) {
	for range 2 {
		p.steps(0, admission.Interactive, admission.StepGranted)
	}
	for range n {
		p.steps(0, admission.Interactive, admission.StepQueued)
	}
}

func TestCheckRefusal(t *testing.T) {
	const age, depth = admission.ReasonQueueAge, admission.ReasonQueueDepth
	free, admitted := "a permit was free: ", "policy threshold would have admitted it: "
	for name, tt := range map[string]struct {
		prepare func(testChecker)
		at      time.Duration
		reason  admission.Reason
		want    string
	}{
		"empty pool":                    {func(testChecker) {}, 0, depth, free + "0 of 2 running, 0 waiting, the oldest of its class for 0s"},
		"one of two runs":               {func(p testChecker) { p.steps(0, 0, admission.StepGranted) }, 0, age, free + "1 of 2 running"},
		"full, none waiting":            {func(p testChecker) { p.fill(0) }, 0, age, admitted + "2 of 2 running, 0 waiting"},
		"full, and as many as may":      {func(p testChecker) { p.fill(4) }, 0, depth, admitted + "2 of 2 running, 4 waiting"},
		"full, and one too many":        {func(p testChecker) { p.fill(5) }, 0, depth, ""},
		"full, and as old as may be":    {func(p testChecker) { p.fill(1) }, 25 * time.Second, age, admitted},
		"full, and a nanosecond older":  {func(p testChecker) { p.fill(1) }, 25*time.Second + 1, age, ""},
		"the other reason would do":     {func(p testChecker) { p.fill(5) }, 0, age, ""},
		"old work of another class":     {func(p testChecker) { p.fill(0); p.steps(0, admission.Batch, admission.StepQueued) }, time.Hour, age, admitted},
		"the only one that waited left": {func(p testChecker) { p.fill(0); p.steps(0, 0, admission.StepQueued, admission.StepDequeued) }, time.Hour, age, admitted},
		"a permit came back":            {func(p testChecker) { p.fill(5); p.steps(0, 0, admission.StepGranted, admission.StepReleased) }, 0, depth, ""},
		"it came back twice": {func(p testChecker) {
			p.steps(0, 0, admission.StepGranted)
			p.steps(0, 0, admission.StepGranted, admission.StepReleased, admission.StepReleased, admission.StepFinished)
			p.steps(0, 0, admission.StepGranted)
			p.fill(5)
		}, 0, depth, ""},
		"a finished task was granted a permit": {func(p testChecker) {
			p.fill(5)
			p.steps(0, 0, admission.StepQueued, admission.StepFinished, admission.StepGranted)
		}, 0, depth, ""},
		"a waiting task releases nothing": {func(p testChecker) { p.fill(4); p.steps(0, 0, admission.StepQueued, admission.StepReleased) }, 0, depth, ""},
		"a running task does not leave the queue": {func(p testChecker) {
			p.steps(0, 0, admission.StepGranted, admission.StepDequeued)
			p.steps(0, 0, admission.StepGranted)
		}, 0, age, admitted},
		"paused, none waiting": {func(p testChecker) {
			p.OnLimits(admission.Limits{Workers: 2, Policy: defaultThreshold, PausedUntil: epoch.Add(time.Minute)})
		}, 0, depth, admitted + "0 of 2 running"},
		"paused, and too many wait": {func(p testChecker) {
			p.OnLimits(admission.Limits{Workers: 1, Policy: defaultThreshold, PausedUntil: epoch.Add(time.Minute)})
			p.fill(3)
		}, 0, depth, ""},
		"the pause is over": {func(p testChecker) {
			p.OnLimits(admission.Limits{Workers: 3, Policy: defaultThreshold, PausedUntil: epoch.Add(time.Minute)})
			p.fill(9)
		}, time.Minute, depth, free},
		"fewer workers":               {func(p testChecker) { p.fill(3); p.OnLimits(admission.Limits{Workers: 1, Policy: defaultThreshold}) }, 0, depth, ""},
		"more workers":                {func(p testChecker) { p.fill(9); p.OnLimits(admission.Limits{Workers: 3, Policy: defaultThreshold}) }, 0, depth, free + "2 of 3 running"},
		"policy none refuses":         {func(p testChecker) { p.fill(9); p.OnLimits(admission.Limits{Workers: 2, Policy: admission.None{}}) }, 0, depth, "policy none would have admitted it"},
		"another policy, idle":        {func(p testChecker) { p.OnLimits(admission.Limits{Workers: 2, Policy: randomRefusal{}}) }, 0, depth, free},
		"another policy, busy":        {func(p testChecker) { p.fill(0); p.OnLimits(admission.Limits{Workers: 2, Policy: randomRefusal{}}) }, 0, depth, ""},
		"a deadline that has passed":  {func(testChecker) {}, 0, admission.ReasonDeadlinePassed, ""},
		"a deadline that is too near": {func(testChecker) {}, 0, admission.ReasonDeadlineUnmeetable, ""},
		"a client that had its share": {func(testChecker) {}, 0, admission.ReasonClientQuota, ""},
		"no memory":                   {func(testChecker) {}, 0, admission.ReasonMemory, ""},
		"the process shutting down":   {func(testChecker) {}, 0, admission.ReasonDraining, ""},
		"the first of several has left": {func(p testChecker) {
			p.fill(0)
			first := p.steps(0, 0, admission.StepQueued)
			p.steps(10*time.Second, 0, admission.StepQueued)
			middle := p.steps(11*time.Second, 0, admission.StepQueued)
			p.steps(12*time.Second, 0, admission.StepQueued)
			p.OnStep(epoch, middle, admission.StepDequeued)
			p.OnStep(epoch, first, admission.StepDequeued)
		}, 30 * time.Second, age, admitted + "2 of 2 running, 2 waiting, the oldest of its class for 20s"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestChecker(t, defaultThreshold)
			tt.prepare(p)
			got := p.CheckRefusal(epoch.Add(tt.at), admission.Interactive, tt.reason)
			if (got == "") != (tt.want == "") || !strings.HasPrefix(got, tt.want) {
				t.Errorf("violation %q, want %q", got, tt.want)
			}
		})
	}
}

// BenchmarkGateWithMonitor is a task that finds a free permit, and one that is refused,
// with a Checker and without one.
func BenchmarkGateWithMonitor(b *testing.B) {
	for name, w := range map[string]func() admission.Monitor{
		"alone":   func() admission.Monitor { return nil },
		"watched": func() admission.Monitor { return invariant.New() },
	} {
		b.Run("served "+name, func(b *testing.B) {
			g := newGateWith(b, w())
			b.ReportAllocs()
			for b.Loop() {
				d := g.Offer(epoch, admission.Task{})
				g.CheckDispatch(epoch, d.Ticket)
				g.Release(epoch, d.Ticket, admission.Served)
				g.Finish(epoch, d.Ticket)
			}
		})
		b.Run("refused "+name, func(b *testing.B) {
			g := newGateWith(b, w())
			for g.Offer(epoch, admission.Task{}).Reason == admission.ReasonNone {
			}
			b.ReportAllocs()
			for b.Loop() {
				g.Offer(epoch, admission.Task{})
			}
		})
	}
}

func newGateWith(b *testing.B, w admission.Monitor) *admission.Gate {
	b.Helper()
	g, err := admission.New(admission.Config{Workers: 16, Policy: defaultThreshold, QueueLimit: 1000, AssumedService: time.Second, Monitor: w})
	if err != nil {
		b.Fatal(err)
	}
	return g
}
