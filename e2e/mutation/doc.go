// Package mutation builds the program with faults in it, for tests of what must
// detect faults. The source stays as it is and has no switch for tests: the
// compiler is given changed copies of some files (`go build -overlay`).
//
// A [Fault] has a name and some [Edit]s. An edit names a function and a place in
// it by the syntax tree, never by file, line or raw text, so that moving, merging
// and reformatting code does not affect it:
//
//	admit.Function("Threshold.Admit").Start()
//	gate.Before(mutation.Call("admitLocked"))
//	gate.After(mutation.Assign("verdict"))
//	gate.Before(mutation.Return(2))
//	gate.Replace(mutation.Expr("_ < _.Workers"))
//
// Each place must exist exactly once. An edit that finds none or several is an
// error that names the fault and lists the candidates, so a fault that no longer
// fits the source cannot pass for a program without one.
//
// One build has all faults. The inserted code calls mutated(), which is true while
// the environment variable [Variable] holds the fault's name. Without it the
// program behaves as its source says.
//
//	gate := mutation.Package("proxy/admission").Function("Gate.Offer")
//	path := mutation.Build(t, mutation.Fault{
//		Name:  "refusals off",
//		Edits: []mutation.Edit{gate.After(mutation.Call("admitLocked")).Code(`if mutated() { verdict = Verdict{} }`)},
//	})
//
// Imports that inserted code needs are added. [Check] applies faults and type-checks
// the changed packages within seconds, without a build of the program.
package mutation
