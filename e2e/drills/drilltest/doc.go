// Package drilltest runs drills on real programs, with and without faults in them,
// for the tests of this module.
//
// A [Fault] breaks one part of the program. It names the drill that has to detect
// it and the words by which the verdict has to name the part. All faults are in one
// program, which [BuildProgram] builds. An environment variable activates one, both
// in the sandbox that the drill builds and in production beside it.
//
// Where faults are inserted is in places.go: one line a package and a function. After
// a rename change the name there; TestFaultsApply lists what does not fit.
package drilltest
