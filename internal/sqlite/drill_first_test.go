package sqlite

import (
	"strings"
	"testing"
	"time"

	"headgate/runbooks/drill"
)

// A drill is due since its schedule first came, whatever came of that; what was run
// by hand says nothing of it.
func TestFirstDue(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	recordEndedRun(t, s, runID(1), "weekly", noon, drill.Failed)
	recordEndedRun(t, s, runID(2), "by-hand", noon, drill.Failed)
	for i, v := range []drill.Verdict{drill.Missed, drill.Skipped} {
		r := newScheduledRun(runID(10+i), "weekly")
		r.Started, r.Phases, r.Scheduled = time.Time{}, nil, noon.Add(time.Duration(i+1)*time.Hour)
		if err := s.Drills().RecordNotRun(t.Context(), withVerdict(r, v)); err != nil {
			t.Fatal(err)
		}
	}
	dues, err := s.Drills().FirstDue(t.Context())
	if err != nil || len(dues) != 1 {
		t.Fatalf("%v, %v", dues, err)
	}
	if at := dues["weekly"]; at.Before(noon) || at.After(noon.Add(time.Hour+time.Minute)) || at.Equal(noon) {
		t.Errorf("due since %v", at)
	}
	plan := strings.Join(explainStorePlan(t, s, selectFirstDue, string(drill.ByHand), 10), "\n")
	if strings.Contains(plan, "SCAN drill_runs") {
		t.Errorf("it reads every run:\n%s", plan)
	}
}
