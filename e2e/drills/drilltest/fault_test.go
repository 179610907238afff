package drilltest

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"headgate/e2e/mutation"
)

// After a rename or a move: the errors name the fault and what its code or its place
// no longer finds. Names of functions and packages are in places.go.
func TestFaultsApply(t *testing.T) { mutation.Check(t, mutations()...) }

// Every fault has a unique name, changes the program and has a pattern that compiles.
func TestFaults(t *testing.T) {
	all := Faults()
	var names []string
	for _, f := range all {
		if slices.Contains(names, f.Name) {
			t.Errorf("two faults are named %q", f.Name)
		}
		names = append(names, f.Name)
		if _, err := regexp.Compile(f.Want); err != nil || f.Want == "" {
			t.Errorf("%s: want %q: %v", f.Name, f.Want, err)
		}
		if !slices.ContainsFunc(all, func(other Fault) bool { return other.activates(f.Name) }) {
			t.Errorf("%s: no inserted code depends on it", f.Name)
		}
	}
}

// activates reports whether code of the fault depends on the fault of that name.
func (f Fault) activates(name string) bool {
	return slices.ContainsFunc(f.Edits, func(e mutation.Edit) bool {
		return f.Name == name && strings.Contains(e.Text(), "mutated()") || strings.Contains(e.Text(), `mutated("`+name+`")`)
	})
}
