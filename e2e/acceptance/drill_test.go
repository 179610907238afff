//go:build proof

package acceptance

import (
	"fmt"
	"testing"

	"headgate/e2e/drills/drilltest"
)

const (
	drillCrashes = 10 // in each phase
	drillPasses  = 3  // of every built-in drill at each speed
	drillSpeed   = 20
)

// Every fault is detected by its drill, whose verdict names the broken part.
func TestDrillsDetectFaults(t *testing.T) {
	program := drilltest.BuildProgram(t)
	for _, f := range drilltest.Faults() {
		t.Run(f.Name, func(t *testing.T) {
			t.Parallel()
			f.AssertDetected(t, program, drillSpeed)
		})
	}
}

// Every built-in drill passes repeatedly on a program without an active fault.
func TestDrillsPass(t *testing.T) {
	program := drilltest.BuildProgram(t)
	for _, speed := range []float64{20, 5} {
		for _, drill := range drilltest.BuiltinDrills(t, program) {
			t.Run(fmt.Sprintf("%s at %v", drill, speed), func(t *testing.T) {
				t.Parallel()
				for range drillPasses {
					drilltest.AssertPasses(t, program, drill, speed)
				}
			})
		}
	}
}

// Nothing is left of a drill whose process was killed, in any phase.
func TestCrashDuringDrills(t *testing.T) {
	program := drilltest.BuildProgram(t)
	for _, drill := range []string{"killed", "live"} {
		for _, phase := range drilltest.Phases() {
			if drill == "live" && phase == "baseline" {
				continue // production has none
			}
			t.Run(drill+" in "+phase, func(t *testing.T) {
				t.Parallel()
				for range drillCrashes {
					drilltest.Crash{Program: program, Drill: drill, Phase: phase}.Run(t)
				}
			})
		}
	}
}
