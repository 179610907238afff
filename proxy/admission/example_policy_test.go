package admission_test

import (
	"fmt"
	"time"

	"headgate/proxy/admission"
)

// Courtesy is the threshold policy with one addition: batch work is admitted only
// while fewer tasks wait than there are workers.
type Courtesy struct{ admission.Threshold }

// Name returns "courtesy".
func (Courtesy) Name() string { return "courtesy" }

// Admit applies the threshold policy first, so that its reasons keep their meaning.
func (p Courtesy) Admit(v admission.View, t admission.Task) admission.Verdict {
	if verdict := p.Threshold.Admit(v, t); verdict.Reason != admission.ReasonNone {
		return verdict
	}
	if excess := v.Depth - v.Workers + 1; t.Class == admission.Batch && excess > 0 {
		return admission.Verdict{Reason: admission.ReasonQueueDepth, Wait: v.DrainTime(excess)}
	}
	return admission.Verdict{}
}

// A policy is a value that a gate is made with. This one keeps room for
// interactive tasks.
func ExamplePolicy() {
	article, err := admission.NewThreshold(25*time.Second, 2)
	if err != nil {
		fmt.Println(err)
		return
	}
	gate, err := admission.New(admission.Config{
		Workers: 1, Policy: Courtesy{article}, QueueLimit: 100, AssumedService: 15 * time.Second,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 1, 5, 9, 14, 0, 0, time.UTC)
	for _, class := range []admission.Class{admission.Batch, admission.Batch, admission.Batch, admission.Interactive} {
		d := gate.Offer(now, admission.Task{Class: class})
		fmt.Printf("%-12s refused=%q waiting=%v\n", class, d.Reason, d.Waiting)
	}
	// Output:
	// batch        refused="" waiting=false
	// batch        refused="" waiting=true
	// batch        refused="queue_depth" waiting=false
	// interactive  refused="" waiting=true
}
