package invariant_test

import (
	"strings"
	"testing"
	"time"

	"headgate/proxy/admission"
	"headgate/proxy/admission/invariant"
)

// pool is a shadow that is told by hand what happens, through a gate of another
// pool that never refuses: only that can make tickets.
type pool struct {
	*invariant.Shadow
	mint *admission.Gate
}

func newPool(t *testing.T, p admission.Policy) pool {
	t.Helper()
	mint, err := admission.New(admission.Config{Workers: 1 << 20, Policy: admission.None{}, QueueLimit: 1, AssumedService: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s := invariant.New()
	s.Changed(admission.Terms{Workers: 2, Policy: p})
	return pool{s, mint}
}

// saw makes a task and tells the shadow its steps, at a time after the epoch.
func (p pool) saw(at time.Duration, c admission.Class, steps ...admission.Step) *admission.Ticket {
	ticket := p.mint.Offer(epoch, admission.Task{Class: c}).Ticket
	for _, s := range steps {
		p.Saw(epoch.Add(at), ticket, s)
	}
	return ticket
}

// fill has two tasks run and n wait.
func (p pool) fill(n int) {
	for range 2 {
		p.saw(0, admission.Interactive, admission.StepGranted)
	}
	for range n {
		p.saw(0, admission.Interactive, admission.StepQueued)
	}
}

func TestDisputes(t *testing.T) {
	const age, depth = admission.ReasonQueueAge, admission.ReasonQueueDepth
	free, letIn := "a permit was free: ", "policy threshold would have let it in: "
	for name, tt := range map[string]struct {
		prepare func(pool)
		at      time.Duration
		reason  admission.Reason
		says    string
	}{
		"nobody is there":               {func(pool) {}, 0, depth, free + "0 of 2 running, 0 waiting, the oldest of its class for 0s"},
		"one of two runs":               {func(p pool) { p.saw(0, 0, admission.StepGranted) }, 0, age, free + "1 of 2 running"},
		"full, and nobody waits":        {func(p pool) { p.fill(0) }, 0, age, letIn + "2 of 2 running, 0 waiting"},
		"full, and as many as may":      {func(p pool) { p.fill(4) }, 0, depth, letIn + "2 of 2 running, 4 waiting"},
		"full, and one too many":        {func(p pool) { p.fill(5) }, 0, depth, ""},
		"full, and as old as may be":    {func(p pool) { p.fill(1) }, 25 * time.Second, age, letIn},
		"full, and a nanosecond older":  {func(p pool) { p.fill(1) }, 25*time.Second + 1, age, ""},
		"the other reason would do":     {func(p pool) { p.fill(5) }, 0, age, ""},
		"old work of another class":     {func(p pool) { p.fill(0); p.saw(0, admission.Batch, admission.StepQueued) }, time.Hour, age, letIn},
		"the only one that waited left": {func(p pool) { p.fill(0); p.saw(0, 0, admission.StepQueued, admission.StepLeft) }, time.Hour, age, letIn},
		"a permit came back":            {func(p pool) { p.fill(5); p.saw(0, 0, admission.StepGranted, admission.StepReturned) }, 0, depth, ""},
		"it came back twice": {func(p pool) {
			p.saw(0, 0, admission.StepGranted)
			p.saw(0, 0, admission.StepGranted, admission.StepReturned, admission.StepReturned, admission.StepOver)
			p.saw(0, 0, admission.StepGranted)
			p.fill(5)
		}, 0, depth, ""},
		"a permit was granted to nobody": {func(p pool) { p.fill(5); p.saw(0, 0, admission.StepQueued, admission.StepOver, admission.StepGranted) }, 0, depth, ""},
		"who waits gives nothing back":   {func(p pool) { p.fill(4); p.saw(0, 0, admission.StepQueued, admission.StepReturned) }, 0, depth, ""},
		"who runs does not leave": {func(p pool) {
			p.saw(0, 0, admission.StepGranted, admission.StepLeft)
			p.saw(0, 0, admission.StepGranted)
		}, 0, age, letIn},
		"paused, and nobody waits": {func(p pool) {
			p.Changed(admission.Terms{Workers: 2, Policy: article, Paused: epoch.Add(time.Minute)})
		}, 0, depth, letIn + "0 of 2 running"},
		"paused, and too many wait": {func(p pool) {
			p.Changed(admission.Terms{Workers: 1, Policy: article, Paused: epoch.Add(time.Minute)})
			p.fill(3)
		}, 0, depth, ""},
		"the pause is over": {func(p pool) {
			p.Changed(admission.Terms{Workers: 3, Policy: article, Paused: epoch.Add(time.Minute)})
			p.fill(9)
		}, time.Minute, depth, free},
		"fewer workers":               {func(p pool) { p.fill(3); p.Changed(admission.Terms{Workers: 1, Policy: article}) }, 0, depth, ""},
		"more workers":                {func(p pool) { p.fill(9); p.Changed(admission.Terms{Workers: 3, Policy: article}) }, 0, depth, free + "2 of 3 running"},
		"policy none refuses":         {func(p pool) { p.fill(9); p.Changed(admission.Terms{Workers: 2, Policy: admission.None{}}) }, 0, depth, "policy none would have let it in"},
		"another policy, idle":        {func(p pool) { p.Changed(admission.Terms{Workers: 2, Policy: moody{}}) }, 0, depth, free},
		"another policy, busy":        {func(p pool) { p.fill(0); p.Changed(admission.Terms{Workers: 2, Policy: moody{}}) }, 0, depth, ""},
		"a deadline that has passed":  {func(pool) {}, 0, admission.ReasonDeadlinePassed, ""},
		"a deadline that is too near": {func(pool) {}, 0, admission.ReasonDeadlineUnmeetable, ""},
		"a client that had its share": {func(pool) {}, 0, admission.ReasonClientQuota, ""},
		"no memory":                   {func(pool) {}, 0, admission.ReasonMemory, ""},
		"the process going down":      {func(pool) {}, 0, admission.ReasonDraining, ""},
		"the first of several has left": {func(p pool) {
			p.fill(0)
			first := p.saw(0, 0, admission.StepQueued)
			p.saw(10*time.Second, 0, admission.StepQueued)
			middle := p.saw(11*time.Second, 0, admission.StepQueued)
			p.saw(12*time.Second, 0, admission.StepQueued)
			p.Saw(epoch, middle, admission.StepLeft)
			p.Saw(epoch, first, admission.StepLeft)
		}, 30 * time.Second, age, letIn + "2 of 2 running, 2 waiting, the oldest of its class for 20s"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, article)
			tt.prepare(p)
			got := p.Disputes(epoch.Add(tt.at), admission.Interactive, tt.reason)
			if (got == "") != (tt.says == "") || !strings.HasPrefix(got, tt.says) {
				t.Errorf("said %q, want %q", got, tt.says)
			}
		})
	}
}
