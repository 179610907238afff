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

// measureInfo of a measure.
type measureInfo struct {
	measure   Measure
	unit      string
	live      bool // known of a live run as well
	duringRun bool // known while the run goes on, so that abort_if may use it
}

// measureTable returns what is known of every measure, in the order in which people read
// them.
func measureTable() []measureInfo {
	return []measureInfo{
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
		{MessageFaults, UnitFaults, false, true},
		{DrainedWithin, UnitSeconds, false, false},
		{RollbackTime, UnitSeconds, false, false},
		{RestoreTime, UnitSeconds, false, false},
		{TasksLost, UnitTasks, true, false},
		{FalseCompletions, UnitTasks, true, true},
		{ErrorShare, UnitRatio, true, true},
		{ServedShare, UnitRatio, true, false},
		{ProductionDrift, UnitTasks, true, false},
		{MessagesLost, UnitMessages, false, false},
	}
}

// Measures returns every measure, in the order in which people read them.
func Measures() []Measure {
	all := make([]Measure, 0, len(measureTable()))
	for _, k := range measureTable() {
		all = append(all, k.measure)
	}
	return all
}

// Unit is the unit of a measure; empty for one that does not exist.
func (m Measure) Unit() string {
	k, _ := lookupMeasure(m)
	return k.unit
}

func lookupMeasure(m Measure) (measureInfo, bool) {
	for _, k := range measureTable() {
		if k.measure == m {
			return k, true
		}
	}
	return measureInfo{}, false
}
