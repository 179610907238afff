package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"headgate/runbooks/drill"
)

var runTable = table{name: "drill_runs", key: []string{"id"}, columns: []string{
	"id", "at_ms", "drill", "name", "version", "cause", "actor", "speed", "scheduled_ms", "started_ms", "ended_ms",
	"status", "verdict", "reason", "missed", "injected", "clear_ns", "recovered_ns", "fence", "opening",
}}

// upsertRunSQL writes how far a run has come. What was so from the beginning stays.
func upsertRunSQL() string {
	return runTable.upsertSQL("at_ms", "drill", "name", "version", "cause", "actor", "speed", "scheduled_ms", "fence", "opening")
}

// runRow is a run as its row has it, without its parts.
type runRow struct {
	drill.Run
	at      time.Time // its place in the history
	session string    // of the record, by which it was claimed
}

func (r runRow) values() []any {
	return []any{
		r.ID, ms(r.at), r.Drill, cleanName(r.Name), cleanName(r.Version), string(r.Trigger), cleanName(r.Actor), finiteOrZero(r.Speed),
		ms(r.Scheduled), ms(r.Started), ms(r.Ended), string(r.Status), string(r.Verdict), clean(r.Reason, maxReason),
		countValue(r.Count), countValue(r.Injected), int64(max(r.ClearTook, 0)), int64(max(r.Recovered, 0)), max(r.Fence, 0), r.session,
	}
}

func decodeRun(v []any) (runRow, error) {
	f := rowDecoder{table: runTable.name}
	r := runRow{at: f.time("at_ms", v[1]), session: f.text("opening", v[19], maxName), Run: drill.Run{
		ID: f.id("id", v[0]), Drill: f.keyName("drill", v[2]), Name: f.text("name", v[3], maxName), Version: f.text("version", v[4], maxName),
		Trigger: drill.Trigger(f.word("cause", v[5])), Actor: f.text("actor", v[6], maxName), Speed: f.finite("speed", v[7]),
		Scheduled: f.optionalTime("scheduled_ms", v[8]), Started: f.optionalTime("started_ms", v[9]), Ended: f.optionalTime("ended_ms", v[10]),
		Status: drill.Status(f.oneOf("status", v[11], statuses())), Verdict: drill.Verdict(f.word("verdict", v[12])),
		Reason: f.text("reason", v[13], maxReason), Count: f.count("missed", v[14]), Injected: f.count("injected", v[15]),
		ClearTook: f.duration("clear_ns", v[16]), Recovered: f.duration("recovered_ns", v[17]), Fence: f.number("fence", v[18], maxNumber),
	}}
	if (r.Status == drill.Ended) != (r.Verdict != "") {
		f.fail("verdict")
	}
	return r, f.err
}

func statuses() []string {
	return []string{string(drill.Claimed), string(drill.Running), string(drill.Ended)}
}

func triggers() []drill.Trigger {
	return []drill.Trigger{drill.BySchedule, drill.ByCatchUp, drill.ByHand}
}

// validateRun refuses what could not be read back. Only a mistake in the program
// makes such a run.
func validateRun(r drill.Run) error {
	switch {
	case !validID(r.ID):
		return fmt.Errorf("its ID must be 1 to %d letters, digits and dashes", maxID)
	case !isName(r.Drill):
		return fmt.Errorf("the ID of its drill must be a name of at most %d bytes", maxName)
	case !slices.Contains(triggers(), r.Trigger):
		return fmt.Errorf("no such trigger: %.40q", r.Trigger)
	case !slices.Contains(statuses(), string(r.Status)):
		return fmt.Errorf("no such status: %.40q", r.Status)
	case r.Status == drill.Ended && !slices.Contains(drill.Verdicts(), r.Verdict):
		return fmt.Errorf("a run that has ended must have a verdict, and %.40q is none", r.Verdict)
	case r.Status != drill.Ended && r.Verdict != "":
		return errors.New("a run that goes on has no verdict yet")
	}
	return nil
}

var lockTable = table{name: "drill_lock", key: []string{"name"}, columns: []string{
	"name", "run", "drill", "since_ms", "until_ms", "lease_ns", "fence",
}}

// singletonKey is the key of the tables that have one row.
const singletonKey = "drills"

// drillLock is the lock under which a run is. Run is empty while it is free.
type drillLock struct {
	run, drill   string
	since, until time.Time
	lease        time.Duration
	fence        int64
}

func (l drillLock) values() []any {
	return []any{singletonKey, l.run, cleanName(l.drill), ms(l.since), ms(l.until), int64(l.lease), l.fence}
}

func decodeLock(v []any) (drillLock, error) {
	f := rowDecoder{table: lockTable.name}
	l := drillLock{
		run: f.optionalID("run", v[1]), drill: f.text("drill", v[2], maxName), since: f.optionalTime("since_ms", v[3]), until: f.optionalTime("until_ms", v[4]),
		lease: f.duration("lease_ns", v[5]), fence: f.number("fence", v[6], maxNumber-1),
	}
	return l, f.err
}

var freezeTable = table{name: "drill_freeze", key: []string{"name"}, columns: []string{"name", "frozen", "actor", "reason", "since_ms"}}

func decodeFreeze(v []any) (drill.Freeze, error) {
	f := rowDecoder{table: freezeTable.name}
	z := drill.Freeze{
		On: f.flag("frozen", v[1]), Actor: f.text("actor", v[2], maxName), Reason: f.text("reason", v[3], maxReason), Since: f.optionalTime("since_ms", v[4]),
	}
	return z, f.err
}

var dueTable = table{name: "drill_dues", key: []string{"drill"}, columns: []string{"drill", "schedule", "zone", "next_ms"}}

func decodeDue(v []any) (drill.DueTime, error) {
	f := rowDecoder{table: dueTable.name}
	d := drill.DueTime{
		Drill: f.keyName("drill", v[0]), Schedule: f.text("schedule", v[1], maxName), Zone: f.text("zone", v[2], maxName), Next: f.optionalTime("next_ms", v[3]),
	}
	return d, f.err
}

var nameTable = table{name: "drill_names", key: []string{"name", "drill"}, columns: []string{"name", "drill"}}

var latestTable = table{name: "drill_latest", key: []string{"drill"}, columns: []string{
	"drill", "name", "run", "verdict", "at_ms", "passed", "passed_ms",
}}

func decodeLatest(v []any) (drill.Latest, error) {
	f := rowDecoder{table: latestTable.name}
	l := drill.Latest{
		Drill: f.keyName("drill", v[0]), Name: f.text("name", v[1], maxName), Run: f.id("run", v[2]), Verdict: drill.Verdict(f.word("verdict", v[3])),
		At: f.time("at_ms", v[4]), PassedRun: f.optionalID("passed", v[5]), PassedAt: f.optionalTime("passed_ms", v[6]),
	}
	return l, f.err
}
