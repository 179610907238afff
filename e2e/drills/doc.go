// Package drills tests that drills detect faults of the program, and that a process
// which is killed during a drill leaves nothing behind. CI runs a selection of the
// faults; `make proof` runs all.
package drills
