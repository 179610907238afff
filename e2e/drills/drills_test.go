package drills

import (
	"slices"
	"testing"

	"headgate/e2e/drills/drilltest"
)

// speed is how much faster than the wall clock drills run here.
const speed = 20

// selected returns faults of every kind; `make proof` runs all.
func selected() []string {
	return []string{
		"refusals off", "everything refused", "permits leak", "Retry-After 0", "no post", "another pool is named",
		"a rollback that is only reported", "a restore that is only reported", "faults only say that they clear", "no delay",
	}
}

// Each fault makes its drill fail with a reason that names the broken part. Drills on a
// program without an active fault pass, and a crash in any phase leaves nothing behind.
func TestDrills(t *testing.T) {
	program := drilltest.BuildProgram(t)
	for _, f := range drilltest.Faults() {
		if slices.Contains(selected(), f.Name) {
			t.Run(f.Name, func(t *testing.T) {
				t.Parallel()
				f.AssertDetected(t, program, speed)
			})
		}
	}
	for _, drill := range []string{"burst", "rollback", "upstream-errors"} {
		t.Run(drill+" passes", func(t *testing.T) {
			t.Parallel()
			drilltest.AssertPasses(t, program, drill, speed)
		})
	}
	t.Run("aborts", func(t *testing.T) {
		t.Parallel()
		drilltest.AssertAborts(t, program)
	})
	for _, phase := range drilltest.Phases() {
		t.Run("killed in "+phase, func(t *testing.T) {
			t.Parallel()
			drilltest.Crash{Program: program, Drill: "killed", Phase: phase}.Run(t)
		})
	}
	t.Run("killed in hold, live", func(t *testing.T) {
		t.Parallel()
		drilltest.Crash{Program: program, Drill: "live", Phase: "hold"}.Run(t)
	})
}

// Every selected fault exists.
func TestSelected(t *testing.T) {
	for _, name := range selected() {
		if !slices.ContainsFunc(drilltest.Faults(), func(f drilltest.Fault) bool { return f.Name == name }) {
			t.Errorf("there is no fault %q", name)
		}
	}
}
