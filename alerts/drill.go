package alerts

import (
	"math"

	"headgate/engine"
)

// DrillPlan marks the deliveries of a plan as those of a drill. Values in seconds were measured on the wall clock; they
// are multiplied by the speed of the scenario and rounded to milliseconds.
func DrillPlan(next PlanFunc, speed float64) PlanFunc {
	scale := func(v *float64) { *v = math.Round(*v*speed*1000) / 1000 }
	return func(b engine.Batch, view TxView) []Delivery {
		all := next(b, view)
		for i := range all {
			n := &all[i].Notification
			n.Drill = true
			if n.Incident.Unit == "s" {
				scale(&n.Incident.Value)
				scale(&n.Incident.Threshold)
				scale(&n.Event.Value)
			}
		}
		return all
	}
}
