package drill

import "time"

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
