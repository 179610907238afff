package app

import (
	"strings"
	"testing"
	"time"

	"headgate/internal/config"
	"headgate/runbooks/drill"
)

// TestDrillPassBecomesOverdue: how often a drill is due and when it passed last are there to be
// watched, across restarts.
func TestDrillPassBecomesOverdue(t *testing.T) {
	parsed, err := config.Parse("f.yaml", []byte(indentLines(weeklyDrillYAML)), nil)
	if err != nil {
		t.Fatal(err)
	}
	r := newFixture(t, func(c *config.Config) { c.Drills = parsed.Drills })
	metrics := r.getAdmin("/metrics").body
	if !strings.Contains(metrics, `headgate_drill_period_seconds{drill="weekly"} 604800`) {
		t.Error("the period is not there")
	}
	if strings.Contains(metrics, `period_seconds{drill="burst"}`) || strings.Contains(metrics, "headgate_drill_last_pass_timestamp_seconds{") {
		t.Error("a drill without schedule has a period, or one that never ran has passed")
	}
	store := r.app.record.store.Drills()
	due := time.Now().Add(-30 * 24 * time.Hour).UTC().Truncate(time.Second)
	missed := drill.Run{
		ID: newID(), Drill: "weekly", Name: "Weekly", Trigger: drill.BySchedule, Speed: 1, Status: drill.Ended, Verdict: drill.Missed,
		Scheduled: due, Ended: due, Count: 1,
	}
	if err := r.app.drills.RecordNotRun(t.Context(), missed); err != nil {
		t.Fatal(err)
	}
	metrics = r.getAdmin("/metrics").body
	for _, want := range []string{`headgate_drill_first_due_timestamp_seconds{drill="weekly"} 1.`, `headgate_drill_runs_total{drill="weekly",verdict="missed"} 1`} {
		if !strings.Contains(metrics, want) {
			t.Errorf("without %s", want)
		}
	}
	if !isOverdue(t, r, "weekly") {
		t.Error("a drill that has come for a month and never passed is not overdue")
	}
	began := time.Now().Add(-time.Hour).UTC().Truncate(time.Second)
	run := drill.Run{ID: newID(), Drill: "weekly", Name: "Weekly", Trigger: drill.ByHand, Speed: 1, Started: began, Status: drill.Claimed}
	if run.Fence, err = store.Claim(t.Context(), began, run, time.Minute); err != nil {
		t.Fatal(err)
	}
	run.Status, run.Verdict, run.Ended = drill.Ended, drill.Passed, began.Add(time.Minute)
	if err := store.Save(t.Context(), began.Add(time.Minute), run); err != nil {
		t.Fatal(err)
	}
	restartDrills(t, r)
	if isOverdue(t, r, "weekly") {
		t.Error("a drill that has passed is overdue")
	}
	if metrics = r.getAdmin("/metrics").body; !strings.Contains(metrics, `headgate_drill_last_pass_timestamp_seconds{drill="weekly"} 1.`) {
		t.Error("the last pass is not there")
	}
	r.app.metrics.drills.SetSpecs(nil, time.Now())
	if metrics = r.getAdmin("/metrics").body; strings.Contains(metrics, "headgate_drill_period_seconds{") {
		t.Error("a drill that has gone still has a period")
	}
}

func isOverdue(t *testing.T, r *fixture, id string) bool {
	t.Helper()
	states, err := r.app.drills.Drills(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range states.Items {
		if s.Spec.ID == id {
			return s.Overdue
		}
	}
	t.Fatalf("no drill %s", id)
	return false
}

// restartDrills stops the service of drills and starts it again.
func restartDrills(t *testing.T, r *fixture) {
	t.Helper()
	if err := r.app.stopDrills(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := r.app.startDrills(); err != nil {
		t.Fatal(err)
	}
}
