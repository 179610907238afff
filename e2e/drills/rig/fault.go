package rig

import (
	"slices"
	"testing"

	"headgate/e2e/sabotage"
)

// Fault is a broken part.
type Fault struct {
	Name  string
	Drill string          // that has to find it
	Want  string          // a regular expression that the verdict's reason has to match
	Edits []sabotage.Edit // none: those of another fault do it
}

// Faults are all of them.
func Faults() []Fault {
	return slices.Concat(gateFaults(), refusalFaults(), proxyFaults(), messageFaults(), modeFaults(), injectionFaults(), experimentFaults())
}

// Program builds the program with all faults in it, and with what a [Kill] needs.
func Program(t testing.TB) string {
	t.Helper()
	all := stays()
	for _, f := range Faults() {
		all = append(all, f.Edits...)
	}
	return sabotage.BuildSwitched(t, all...)
}

// at is an edit that adds to a text, after it.
func at(file, text, added string) sabotage.Edit {
	return sabotage.Edit{File: file, Old: text, New: text + added}
}

// before is an edit that adds to a text, before it.
func before(file, text, added string) sabotage.Edit {
	return sabotage.Edit{File: file, Old: text, New: added + text}
}

// instead is an edit that replaces a text.
func instead(file, text, other string) sabotage.Edit {
	return sabotage.Edit{File: file, Old: text, New: other}
}

// one is the list that most faults need.
func one(e sabotage.Edit) []sabotage.Edit { return []sabotage.Edit{e} }
