package drilltest

import (
	"slices"
	"testing"

	"headgate/e2e/mutation"
)

// Fault is a defect of the program that a drill has to detect.
type Fault struct {
	Name  string
	Drill string          // that has to detect it
	Want  string          // regular expression for the verdict's reason
	Edits []mutation.Edit // none: the edits of another fault ask for this one
}

// Faults returns all faults.
func Faults() []Fault {
	return slices.Concat(gateFaults(), refusalFaults(), proxyFaults(), messageFaults(), modeFaults(),
		injectionFaults(), experimentFaults())
}

// mutations returns the edits of all faults, and those that hold a run in a phase.
func mutations() []mutation.Fault {
	all := []mutation.Fault{{Edits: holdInPhase()}}
	for _, f := range Faults() {
		all = append(all, mutation.Fault{Name: f.Name, Edits: f.Edits})
	}
	return all
}

// BuildProgram builds the program with all faults in it, and with what a [Crash]
// needs.
func BuildProgram(t testing.TB) string {
	t.Helper()
	return mutation.Build(t, mutations()...)
}

// active is the setting of the environment that activates a fault.
func active(fault string) string { return mutation.Variable + "=" + fault }

// edits is the list of a fault's edits.
func edits(all ...mutation.Edit) []mutation.Edit { return all }
