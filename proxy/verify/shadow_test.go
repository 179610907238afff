package verify_test

import (
	"strings"
	"testing"
	"time"

	"headgate/proxy/admit"
	"headgate/proxy/verify"
)

// pool is a shadow that is told by hand what happens, through a gate of another
// pool that never refuses: only that can make tickets.
type pool struct {
	*verify.Shadow
	mint *admit.Gate
}

func newPool(t *testing.T, p admit.Policy) pool {
	t.Helper()
	mint, err := admit.New(admit.Config{Workers: 1 << 20, Policy: admit.None{}, QueueLimit: 1, AssumedService: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	s := verify.New()
	s.Changed(admit.Terms{Workers: 2, Policy: p})
	return pool{s, mint}
}

// saw makes a task and tells the shadow its steps, at a time after the epoch.
func (p pool) saw(at time.Duration, c admit.Class, steps ...admit.Step) *admit.Ticket {
	ticket := p.mint.Offer(epoch, admit.Task{Class: c}).Ticket
	for _, s := range steps {
		p.Saw(epoch.Add(at), ticket, s)
	}
	return ticket
}

// fill has two tasks run and n wait.
func (p pool) fill(n int) {
	for range 2 {
		p.saw(0, admit.Interactive, admit.StepGranted)
	}
	for range n {
		p.saw(0, admit.Interactive, admit.StepQueued)
	}
}

func TestDisputes(t *testing.T) {
	const age, depth = admit.ReasonQueueAge, admit.ReasonQueueDepth
	free, letIn := "a permit was free: ", "policy threshold would have let it in: "
	for name, tt := range map[string]struct {
		prepare func(pool)
		at      time.Duration
		reason  admit.Reason
		says    string
	}{
		"nobody is there":               {func(pool) {}, 0, depth, free + "0 of 2 running, 0 waiting, the oldest of its class for 0s"},
		"one of two runs":               {func(p pool) { p.saw(0, 0, admit.StepGranted) }, 0, age, free + "1 of 2 running"},
		"full, and nobody waits":        {func(p pool) { p.fill(0) }, 0, age, letIn + "2 of 2 running, 0 waiting"},
		"full, and as many as may":      {func(p pool) { p.fill(4) }, 0, depth, letIn + "2 of 2 running, 4 waiting"},
		"full, and one too many":        {func(p pool) { p.fill(5) }, 0, depth, ""},
		"full, and as old as may be":    {func(p pool) { p.fill(1) }, 25 * time.Second, age, letIn},
		"full, and a nanosecond older":  {func(p pool) { p.fill(1) }, 25*time.Second + 1, age, ""},
		"the other reason would do":     {func(p pool) { p.fill(5) }, 0, age, ""},
		"old work of another class":     {func(p pool) { p.fill(0); p.saw(0, admit.Batch, admit.StepQueued) }, time.Hour, age, letIn},
		"the only one that waited left": {func(p pool) { p.fill(0); p.saw(0, 0, admit.StepQueued, admit.StepLeft) }, time.Hour, age, letIn},
		"a permit came back":            {func(p pool) { p.fill(5); p.saw(0, 0, admit.StepGranted, admit.StepReturned) }, 0, depth, ""},
		"it came back twice": {func(p pool) {
			p.saw(0, 0, admit.StepGranted)
			p.saw(0, 0, admit.StepGranted, admit.StepReturned, admit.StepReturned, admit.StepOver)
			p.saw(0, 0, admit.StepGranted)
			p.fill(5)
		}, 0, depth, ""},
		"a permit was granted to nobody": {func(p pool) { p.fill(5); p.saw(0, 0, admit.StepQueued, admit.StepOver, admit.StepGranted) }, 0, depth, ""},
		"who waits gives nothing back":   {func(p pool) { p.fill(4); p.saw(0, 0, admit.StepQueued, admit.StepReturned) }, 0, depth, ""},
		"who runs does not leave":        {func(p pool) { p.saw(0, 0, admit.StepGranted, admit.StepLeft); p.saw(0, 0, admit.StepGranted) }, 0, age, letIn},
		"paused, and nobody waits": {func(p pool) {
			p.Changed(admit.Terms{Workers: 2, Policy: article, Paused: epoch.Add(time.Minute)})
		}, 0, depth, letIn + "0 of 2 running"},
		"paused, and too many wait": {func(p pool) {
			p.Changed(admit.Terms{Workers: 1, Policy: article, Paused: epoch.Add(time.Minute)})
			p.fill(3)
		}, 0, depth, ""},
		"the pause is over": {func(p pool) {
			p.Changed(admit.Terms{Workers: 3, Policy: article, Paused: epoch.Add(time.Minute)})
			p.fill(9)
		}, time.Minute, depth, free},
		"fewer workers":               {func(p pool) { p.fill(3); p.Changed(admit.Terms{Workers: 1, Policy: article}) }, 0, depth, ""},
		"more workers":                {func(p pool) { p.fill(9); p.Changed(admit.Terms{Workers: 3, Policy: article}) }, 0, depth, free + "2 of 3 running"},
		"policy none refuses":         {func(p pool) { p.fill(9); p.Changed(admit.Terms{Workers: 2, Policy: admit.None{}}) }, 0, depth, "policy none would have let it in"},
		"another policy, idle":        {func(p pool) { p.Changed(admit.Terms{Workers: 2, Policy: moody{}}) }, 0, depth, free},
		"another policy, busy":        {func(p pool) { p.fill(0); p.Changed(admit.Terms{Workers: 2, Policy: moody{}}) }, 0, depth, ""},
		"a deadline that has passed":  {func(pool) {}, 0, admit.ReasonDeadlinePassed, ""},
		"a deadline that is too near": {func(pool) {}, 0, admit.ReasonDeadlineUnmeetable, ""},
		"a client that had its share": {func(pool) {}, 0, admit.ReasonClientQuota, ""},
		"no memory":                   {func(pool) {}, 0, admit.ReasonMemory, ""},
		"the process going down":      {func(pool) {}, 0, admit.ReasonDraining, ""},
		"the first of several has left": {func(p pool) {
			p.fill(0)
			first := p.saw(0, 0, admit.StepQueued)
			p.saw(10*time.Second, 0, admit.StepQueued)
			middle := p.saw(11*time.Second, 0, admit.StepQueued)
			p.saw(12*time.Second, 0, admit.StepQueued)
			p.Saw(epoch, middle, admit.StepLeft)
			p.Saw(epoch, first, admit.StepLeft)
		}, 30 * time.Second, age, letIn + "2 of 2 running, 2 waiting, the oldest of its class for 20s"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPool(t, article)
			tt.prepare(p)
			got := p.Disputes(epoch.Add(tt.at), admit.Interactive, tt.reason)
			if (got == "") != (tt.says == "") || !strings.HasPrefix(got, tt.says) {
				t.Errorf("said %q, want %q", got, tt.says)
			}
		})
	}
}
