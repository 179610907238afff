//go:build proof

package proof

import (
	"fmt"
	"testing"

	"headgate/e2e/drills/rig"
)

const (
	drillKills  = 10 // in each phase
	drillPasses = 3  // of every built-in drill at each speed
	drillSpeed  = 20
)

// Every broken part is found and named by its drill.
func TestDrillsFindBrokenParts(t *testing.T) {
	program := rig.Program(t)
	for _, f := range rig.Faults() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			f.Try(t, program, drillSpeed)
		})
	}
}

// Every built-in drill passes on a program without a fault, again and again.
func TestDrillsPass(t *testing.T) {
	program := rig.Program(t)
	for _, speed := range []float64{20, 5} {
		for _, drill := range rig.Drills(t, program) {
			t.Run(fmt.Sprintf("%s at %v", drill, speed), func(t *testing.T) {
				t.Parallel()
				for range drillPasses {
					rig.Passes(t, program, drill, speed)
				}
			})
		}
	}
}

// Nothing is left of a drill that was killed, whatever it was doing.
func TestKillDuringDrills(t *testing.T) {
	program := rig.Program(t)
	for _, drill := range []string{"killed", "live"} {
		for _, phase := range rig.Phases() {
			if drill == "live" && phase == "baseline" {
				continue // production has none
			}
			t.Run(drill+" in "+phase, func(t *testing.T) {
				t.Parallel()
				for range drillKills {
					rig.Kill{Program: program, Drill: drill, Phase: phase}.Run(t)
				}
			})
		}
	}
}
