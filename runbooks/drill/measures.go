package drill

// Units of measures.
const (
	UnitSeconds  = "s"
	UnitRatio    = "ratio"
	UnitTasks    = "tasks"
	UnitMessages = "messages"
	UnitFaults   = "faults"
	UnitCalls    = "calls"
)

// kind of a measure.
type kind struct {
	measure Measure
	unit    string
	live    bool // known of a live run as well
	early   bool // known while the run goes on, so that abort_if may use it
}

// kinds returns what is known of every measure, in the order in which people read
// them.
func kinds() []kind {
	return []kind{
		{LateShare, UnitRatio, true, true},
		{P95, UnitSeconds, true, true},
		{MissingRetryAfter, UnitTasks, true, true},
		{RefusedShare, UnitRatio, true, true},
		{RefusedInBaseline, UnitTasks, true, true},
		{OverLimit, UnitCalls, true, true},
		{TimeToWarn, UnitSeconds, false, false},
		{TimeToPage, UnitSeconds, false, false},
		{TimeToResolve, UnitSeconds, false, false},
		{Pages, UnitMessages, false, true},
		{MessageSays, UnitFaults, false, true},
		{DrainedWithin, UnitSeconds, false, false},
		{FlipTime, UnitSeconds, false, false},
		{RestoreTime, UnitSeconds, false, false},
		{TasksLost, UnitTasks, true, false},
		{FalseEnds, UnitTasks, true, true},
		{ErrorShare, UnitRatio, true, true},
		{ServedShare, UnitRatio, true, false},
		{Drift, UnitTasks, true, false},
		{MessagesLost, UnitMessages, false, false},
	}
}

// Measures returns every measure, in the order in which people read them.
func Measures() []Measure {
	all := make([]Measure, 0, len(kinds()))
	for _, k := range kinds() {
		all = append(all, k.measure)
	}
	return all
}

// Unit is the unit of a measure; empty for one that does not exist.
func (m Measure) Unit() string {
	k, _ := kindOf(m)
	return k.unit
}

func kindOf(m Measure) (kind, bool) {
	for _, k := range kinds() {
		if k.measure == m {
			return k, true
		}
	}
	return kind{}, false
}
