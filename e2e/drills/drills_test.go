package drills

import (
	"slices"
	"testing"

	"headgate/e2e/drills/rig"
)

// speed is that of the drills here.
const speed = 20

// chosen are faults of every kind; the others are tried by `make proof`.
func chosen() []string {
	return []string{
		"refusals off", "everything refused", "permits leak", "Retry-After 0", "nobody posts", "another pool is named",
		"a rollback that only says so", "a restore that only says so", "faults only say that they clear", "no delay",
	}
}

// A drill that cannot fail is worth nothing: each of these ends without passing, and
// says what is broken. What passes on a program without a fault is tried beside them,
// and so is a kill in every phase.
func TestDrills(t *testing.T) {
	program := rig.Program(t)
	for _, f := range rig.Faults() {
		if slices.Contains(chosen(), f.Name) {
			t.Run(f.Name, func(t *testing.T) {
				t.Parallel()
				f.Try(t, program, speed)
			})
		}
	}
	for _, drill := range []string{"burst", "rollback", "upstream-errors"} {
		t.Run(drill+" passes", func(t *testing.T) {
			t.Parallel()
			rig.Passes(t, program, drill, speed)
		})
	}
	t.Run("aborts", func(t *testing.T) {
		t.Parallel()
		rig.Aborts(t, program)
	})
	for _, phase := range rig.Phases() {
		t.Run("killed in "+phase, func(t *testing.T) {
			t.Parallel()
			rig.Kill{Program: program, Drill: "killed", Phase: phase}.Run(t)
		})
	}
	t.Run("killed in hold, live", func(t *testing.T) {
		t.Parallel()
		rig.Kill{Program: program, Drill: "live", Phase: "hold"}.Run(t)
	})
}

// Every fault that is chosen exists.
func TestChosen(t *testing.T) {
	for _, name := range chosen() {
		if !slices.ContainsFunc(rig.Faults(), func(f rig.Fault) bool { return f.Name == name }) {
			t.Errorf("there is no fault %q", name)
		}
	}
}
