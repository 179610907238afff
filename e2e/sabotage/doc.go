// Package sabotage builds the program with a fault in it, for tests of what must
// notice faults. The source stays as it is, and has no switch for tests: the
// compiler is given a patched copy of a file in its place (`go build -overlay`).
//
// An [Edit] replaces a piece of text that must be in the file exactly once, so
// that a fault which no longer fits the source fails the test and does not pass
// for a program without one. What was built takes the place of the program
// through harness.Command.Program.
//
//	path := sabotage.Build(t, sabotage.Edit{
//		File: "proxy/admission/threshold.go",
//		Old:  "return Verdict{}\n}",
//		New:  "return Verdict{Reason: ReasonQueueAge}\n}",
//	})
//
// A build takes as long as linking the program does. [BuildSwitched] puts many
// faults into one, and a variable of the environment says which is at work.
package sabotage
