package drill

import (
	"errors"
	"time"
)

// Status is how far a run has come.
type Status string

// The statuses.
const (
	Claimed Status = "claimed" // the row is there, nothing has begun
	Running Status = "running"
	Ended   Status = "ended"
)

// Verdict is what came of a run.
type Verdict string

// The verdicts. A run that has not ended has none.
const (
	Passed       Verdict = "passed"
	Failed       Verdict = "failed"
	Aborted      Verdict = "aborted"      // somebody or something stopped it
	Inconclusive Verdict = "inconclusive" // it cannot be said: too few samples, a fault that did not work, a check that never ran
	Skipped      Verdict = "skipped"      // it was not begun, for a reason
	Interrupted  Verdict = "interrupted"  // the process ended under it
	Missed       Verdict = "missed"       // its time passed while nothing ran
)

// Verdicts returns every verdict, in a fixed order.
func Verdicts() []Verdict {
	return []Verdict{Passed, Failed, Aborted, Inconclusive, Skipped, Interrupted, Missed}
}

// PhaseName is a part of a run.
type PhaseName string

// The phases, in their order.
const (
	PhaseClaim     PhaseName = "claim"
	PhasePreflight PhaseName = "preflight"
	PhaseBrakes    PhaseName = "brakes"
	PhaseBaseline  PhaseName = "baseline"
	PhaseInject    PhaseName = "inject"
	PhaseHold      PhaseName = "hold"
	PhaseClear     PhaseName = "clear"
	PhaseRecover   PhaseName = "recover"
	PhaseVerdict   PhaseName = "verdict"
)

// Phase is a part of a run that has begun.
type Phase struct {
	Name    PhaseName
	Started time.Time
	Ended   time.Time // zero while it goes on
	Note    string    // what came of it
}

// Trigger is why a run began.
type Trigger string

// The triggers.
const (
	BySchedule Trigger = "schedule"
	ByCatchUp  Trigger = "catch_up"
	ByHand     Trigger = "manual"
)

// Hypothesis is what became of an Expectation.
type Hypothesis struct {
	Expectation
	Measured bool // false: there was nothing to judge by, Why says why
	Value    float64
	Margin   float64
	Passed   bool
	Evidence string // who saw it, and how much of it
	Reason   string
}

// UndoResult is a step or a fault that was taken back.
type UndoResult struct {
	What string
	At   time.Time
	Took time.Duration // of the wall clock
	OK   bool
	Note string
}

// Message is what the drill made headgate tell people.
type Message struct {
	Incident     string
	Kind         string // post, edit, reply
	Level        string // warn, page, resolved
	Channel      string
	Text         string    // all of it that people can read, the notification line first
	FirstAttempt time.Time // when headgate first tried to send it; zero: as Accepted
	Accepted     time.Time // by Slack
}

// Point is one scenario second.
type Point struct {
	At         float64 // scenario seconds from the beginning of inject; negative in the baseline
	Turnaround float64 // p95 of what ended within the last 10 s, s; -1: nothing did
	QueueAge   float64
	Depth      int
	InFlight   int
	Arrived    int // these four since the point before
	Served     int
	Refused    int
	Errors     int
}

// MaxPoints bounds the series of a run.
const MaxPoints = 7200

// Run is one carrying out of a spec.
type Run struct {
	ID        string // UUIDv7
	Drill     string // ID of the spec
	Name      string // of the drill when it ran
	Spec      Spec
	Version   string // of headgate
	Trigger   Trigger
	Actor     string
	Speed     float64
	Scheduled time.Time // the occurrence; zero by hand
	Started   time.Time
	Ended     time.Time
	Status    Status
	Verdict   Verdict
	Reason    string // of the verdict, in one line
	Count     int    // of Missed: how many occurrences

	Phases      []Phase
	Hypotheses  []Hypothesis
	UndoResults []UndoResult
	Messages    []Message
	Series      []Point
	Injected    int           // calls that a fault befell
	ClearTook   time.Duration // of the wall clock; 0: nothing was injected
	Recovered   time.Duration // scenario time
	Fence       int64         // token of the lock under which it ran
}

// Freeze is the standing order that no drill runs.
type Freeze struct {
	On     bool
	Actor  string
	Reason string
	Since  time.Time
}

// Errors of a store.
var (
	ErrClaimed  = errors.New("this occurrence has been claimed already")
	ErrBusy     = errors.New("another drill is running")
	ErrFrozen   = errors.New("drills are frozen")
	ErrLockLost = errors.New("the lock has gone to somebody else")
	ErrNoRun    = errors.New("no such run")
)

// FirstLine is the beginning of a text, on one line and bounded.
func FirstLine(text string) string {
	const most = 120
	for i, r := range text {
		if r == '\n' || i >= most {
			return text[:i]
		}
	}
	return text
}

// HistoryQuery asks for sums over a span of days.
type HistoryQuery struct {
	Drill string    // ID or name; empty: all drills
	Since time.Time // the day that it is in is the first; zero: that of the first run
	Until time.Time // the day that it is in is the last; zero: that of the latest run
}

// MaxDays bounds the days before Until.
const MaxDays = 800

// History sums up runs that have ended, and those that never began.
type History struct {
	Days   []Day    // with runs, in order
	Latest []Latest // how each drill stands that was ever seen, by ID
}

// Day is what the runs of a drill came to that began on one day of UTC.
type Day struct {
	Day        time.Time // its beginning
	Drill      string    // ID
	Verdicts   map[Verdict]int
	WithMargin int     // runs with a margin
	MarginSum  float64 // sum over them of the tightest margin of each
	Tightest   float64 // of all margins that day; meaningless unless Judged
}

// Latest is how a drill stands.
type Latest struct {
	Drill     string // ID
	Name      string // when it ran last
	Run       string // ID of the latest run that has ended
	Verdict   Verdict
	At        time.Time // when that began
	PassedRun string    // ID of the latest run that passed; empty: none
	PassedAt  time.Time // when that began; zero: none
}

// Tightest returns the hypothesis with the least margin of those that are known,
// and false if there is none. Those that ask for an exact value have no margin
// while they hold, and count only if there are no others. A run that was stopped has
// none: it has seen a part only.
func (r Run) Tightest() (Hypothesis, bool) {
	var least Hypothesis
	found := false
	if r.Verdict == Aborted || r.Verdict == Interrupted {
		return least, false
	}
	for _, h := range r.Hypotheses {
		if h.Measured && (!found || h.tighter(least)) {
			least, found = h, true
		}
	}
	return least, found
}

func (h Hypothesis) tighter(than Hypothesis) bool {
	if h.metExactly() != than.metExactly() {
		return than.metExactly()
	}
	return h.Margin < than.Margin
}

// metExactly says that a hypothesis holds and could not do so by more or less.
func (h Hypothesis) metExactly() bool { return h.Passed && (h.Compare == Equal || h.Limit == 0) }

// Overdue says whether a pass is too old to rely on: more than one and a half
// periods of its schedule have gone by since. A drill that never passed is expired
// when it has been known for as long. A period of 0, as without a schedule, never
// expires anything.
func Overdue(now, lastPass, known time.Time, period time.Duration) bool {
	if period <= 0 {
		return false
	}
	since := lastPass
	if since.IsZero() {
		since = known
	}
	return !since.IsZero() && now.Sub(since) > period+period/2
}
