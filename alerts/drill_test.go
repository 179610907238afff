package alerts_test

import (
	"testing"

	"headgate/alerts"
	"headgate/engine"
)

// TestDrillPlan: values in seconds are scenario time; others stay.
func TestDrillPlan(t *testing.T) {
	note := func(unit string) alerts.Delivery {
		return alerts.Delivery{Notification: alerts.Notification{
			Incident: engine.Incident{Unit: unit, Value: 1.5, Threshold: 1.25}, Event: engine.Event{Value: 1.3},
		}}
	}
	plan := alerts.DrillPlan(func(engine.Batch, alerts.TxView) []alerts.Delivery {
		return []alerts.Delivery{note("s"), note("tasks")}
	}, 20)
	got := plan(engine.Batch{}, alerts.TxView{})
	if n := got[0].Notification; !n.Drill || n.Incident.Value != 30 || n.Incident.Threshold != 25 || n.Event.Value != 26 {
		t.Errorf("%+v", n)
	}
	if n := got[1].Notification; !n.Drill || n.Incident.Value != 1.5 || n.Incident.Threshold != 1.25 {
		t.Errorf("%+v", n)
	}
}
