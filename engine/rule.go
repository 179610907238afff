package engine

import "time"

// Level is how bad a trouble is.
type Level uint8

// The levels, in rising order.
const (
	LevelNone Level = iota
	LevelWarn       // somebody should look during the day
	LevelPage       // somebody must look now
)

// String returns the level as settings and metrics call it.
func (l Level) String() string {
	switch l {
	case LevelWarn:
		return "warn"
	case LevelPage:
		return "page"
	default:
		return "none"
	}
}

// Rule says when a signal means trouble. A Rule belongs to one pool, or to the
// whole process if Pool is empty: what a file says once for all pools is one
// Rule for each.
type Rule struct {
	Name   string
	Pool   string // empty: of the process
	Signal string // PromQL over the process's own samples; $pool has been filled in
	Unit   string // of the value: s, ratio, tasks, "" for a plain number

	Warn  Threshold
	Page  Threshold
	Clear Clear

	MinEvents float64 // below this many events in the window the value means nothing; 0: any number does
	Events    string  // PromQL that counts them; empty with MinEvents 0

	Summary string // what is wrong, in plain words
	Impact  string // what users of the pool feel
	Runbook string // name of the page that says what to do
	Action  string // what the engine itself may do on a page: "" or "rollback"
	Slow    bool   // evaluated every 30 s, on one-minute series
}

// Key returns the key of the rule's state.
func (r Rule) Key() Key { return Key{Rule: r.Name, Pool: r.Pool} }

// Threshold is a level's limit. A value at the limit breaches it.
type Threshold struct {
	At  float64
	For time.Duration // of breach before it counts
	Set bool          // false: there is no such level
}

// Clear ends a trouble: the value has to stay below Below for For. Between it
// and the warn threshold everything stays as it is.
type Clear struct {
	Below float64
	For   time.Duration
}

// Quality is whether a value is one.
type Quality uint8

// The ways of knowing a value.
const (
	Valid   Quality = iota
	Idle            // too few events, or 0/0: opens nothing
	Missing         // absent, stale, not a number, or an error: neither fires nor clears
)

// Value is what a signal came to.
type Value struct {
	Quality Quality
	V       float64 // only if Valid
}
