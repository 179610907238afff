package mutation

// Variable is the environment variable that names the active fault.
const Variable = "HEADGATE_MUTATION"

// Fault is a defect that a built program can be switched to have.
type Fault struct {
	Name  string // value of [Variable] that activates it
	Edits []Edit
}

// Edit is one change of the source. Its code may call mutated(), which is true
// while the fault is active, and mutated("NAME"), which asks for another fault.
type Edit struct {
	place Place
	code  string
}

// Package is the folder of a package below the root of the main module, with
// slashes: "proxy/admission".
type Package string

// Function names a function of the package, or a method with its receiver's type:
// "newLoad", "Gate.Offer". Test files are not searched.
func (p Package) Function(name string) Function { return Function{p, name} }

// Declare adds declarations to the package. They may be used in other edits of the
// same package. The edits of all faults share them.
func (p Package) Declare(code string) Edit {
	return Edit{Place{function: Function{pkg: p}, kind: declaration}, code}
}

// Function is a function or a method. Function literals inside belong to it.
type Function struct {
	pkg  Package
	name string
}

// Place is where code is inserted.
type Place struct {
	function Function
	kind     placeKind
	target   Target
}

type placeKind uint8

const (
	declaration placeKind = iota
	start
	before
	after
	inside
	replaceExpression
	replaceStatement
)

// Start is before the first statement of the function.
func (f Function) Start() Place { return Place{f, start, Target{}} }

// Before is before the statement that contains the target.
func (f Function) Before(t Target) Place { return Place{f, before, t} }

// After is after the statement that contains the target.
func (f Function) After(t Target) Place { return Place{f, after, t} }

// Inside is before the first statement of the branch or loop whose head contains
// the target: the condition of an if, the expressions of a case.
func (f Function) Inside(t Target) Place { return Place{f, inside, t} }

// Replace replaces an expression. $ in the code stands for the original, and must
// be there once: several faults may wrap the same expression.
func (f Function) Replace(t Target) Place { return Place{f, replaceExpression, t} }

// ReplaceStatement replaces the statement that contains the target, as Replace does.
func (f Function) ReplaceStatement(t Target) Place { return Place{f, replaceStatement, t} }

// Code returns the edit that puts the code at the place.
func (p Place) Code(code string) Edit { return Edit{p, code} }

// Target is a piece of a function's body. It must be there exactly once.
type Target struct {
	kind    targetKind
	pattern string
	nth     int // 1: the first; 0: the only one
}

type targetKind uint8

const (
	anyCall targetKind = iota
	anyAssignment
	anyReturn
	anyExpression
)

// Call is a call of a function or method by its name. A selector may be given to
// distinguish several: "Close" finds res.Body.Close(), and so does "Body.Close".
func Call(name string) Target { return Target{kind: anyCall, pattern: name} }

// Assign is a statement that declares, assigns, increments or decrements a variable
// or a field. As in [Call], the end of a selector is enough.
func Assign(name string) Target { return Target{kind: anyAssignment, pattern: name} }

// Return is the return statement number n in the order of the source, from 1.
func Return(n int) Target { return Target{kind: anyReturn, nth: n} }

// Expr is an expression with the syntax of the pattern. The blank identifier _
// matches any operand: "_ < _.Workers". Spaces, parentheses and comments do not count.
func Expr(pattern string) Target { return Target{kind: anyExpression, pattern: pattern} }

// Nth narrows a target that is there several times to number n, from 1.
func (t Target) Nth(n int) Target {
	t.nth = n
	return t
}

// Text returns the code of the edit as it was given.
func (e Edit) Text() string { return e.code }
