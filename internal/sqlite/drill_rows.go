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

// putRun writes how far a run has come. What was so from the beginning stays.
func putRun() string {
	return runTable.put("at_ms", "drill", "name", "version", "cause", "actor", "speed", "scheduled_ms", "fence", "opening")
}

// runRow is a run as its row has it, without its parts.
type runRow struct {
	drill.Run
	at      time.Time // its place in the history
	opening string    // of the record, by which it was claimed
}

func (r runRow) values() []any {
	return []any{
		r.ID, ms(r.at), r.Drill, short(r.Name), short(r.Version), string(r.Trigger), short(r.Actor), finite(r.Speed),
		ms(r.Scheduled), ms(r.Started), ms(r.Ended), string(r.Status), string(r.Verdict), clean(r.Reason, maxReason),
		tally(r.Count), tally(r.Injected), int64(max(r.ClearTook, 0)), int64(max(r.Recovered, 0)), max(r.Fence, 0), r.opening,
	}
}

func readRun(v []any) (runRow, error) {
	f := fields{table: runTable.name}
	r := runRow{at: f.time("at_ms", v[1]), opening: f.text("opening", v[19], maxName), Run: drill.Run{
		ID: f.id("id", v[0]), Drill: f.named("drill", v[2]), Name: f.text("name", v[3], maxName), Version: f.text("version", v[4], maxName),
		Trigger: drill.Trigger(f.word("cause", v[5])), Actor: f.text("actor", v[6], maxName), Speed: f.finite("speed", v[7]),
		Scheduled: f.when("scheduled_ms", v[8]), Started: f.when("started_ms", v[9]), Ended: f.when("ended_ms", v[10]),
		Status: drill.Status(f.one("status", v[11], statuses())), Verdict: drill.Verdict(f.word("verdict", v[12])),
		Reason: f.text("reason", v[13], maxReason), Count: f.count("missed", v[14]), Injected: f.count("injected", v[15]),
		ClearTook: f.length("clear_ns", v[16]), Recovered: f.length("recovered_ns", v[17]), Fence: f.number("fence", v[18], maxNumber),
	}}
	if (r.Status == drill.Ended) != (r.Verdict != "") {
		f.fail("verdict")
	}
	return r, f.bad
}

func statuses() []string {
	return []string{string(drill.Claimed), string(drill.Running), string(drill.Ended)}
}

func triggers() []drill.Trigger {
	return []drill.Trigger{drill.BySchedule, drill.ByCatchUp, drill.ByHand}
}

// writableRun refuses what could not be read back. Only a mistake in the program
// makes such a run.
func writableRun(r drill.Run) error {
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

// theOne is the key of the tables that have one row.
const theOne = "drills"

// drillLock is the lock under which a run is. Run is empty while it is free.
type drillLock struct {
	run, drill   string
	since, until time.Time
	lease        time.Duration
	fence        int64
}

func (l drillLock) values() []any {
	return []any{theOne, l.run, short(l.drill), ms(l.since), ms(l.until), int64(l.lease), l.fence}
}

func readLock(v []any) (drillLock, error) {
	f := fields{table: lockTable.name}
	l := drillLock{
		run: f.idOrNone("run", v[1]), drill: f.text("drill", v[2], maxName), since: f.when("since_ms", v[3]), until: f.when("until_ms", v[4]),
		lease: f.length("lease_ns", v[5]), fence: f.number("fence", v[6], maxNumber-1),
	}
	return l, f.bad
}

var freezeTable = table{name: "drill_freeze", key: []string{"name"}, columns: []string{"name", "frozen", "actor", "reason", "since_ms"}}

func readFreeze(v []any) (drill.Freeze, error) {
	f := fields{table: freezeTable.name}
	z := drill.Freeze{
		On: f.flag("frozen", v[1]), By: f.text("actor", v[2], maxName), Reason: f.text("reason", v[3], maxReason), Since: f.when("since_ms", v[4]),
	}
	return z, f.bad
}

var dueTable = table{name: "drill_dues", key: []string{"drill"}, columns: []string{"drill", "schedule", "zone", "next_ms"}}

func readDue(v []any) (drill.Due, error) {
	f := fields{table: dueTable.name}
	d := drill.Due{
		Drill: f.named("drill", v[0]), Schedule: f.text("schedule", v[1], maxName), Zone: f.text("zone", v[2], maxName), Next: f.when("next_ms", v[3]),
	}
	return d, f.bad
}

var nameTable = table{name: "drill_names", key: []string{"name", "drill"}, columns: []string{"name", "drill"}}

var latestTable = table{name: "drill_latest", key: []string{"drill"}, columns: []string{
	"drill", "name", "run", "verdict", "at_ms", "passed", "passed_ms",
}}

func readLatest(v []any) (drill.Latest, error) {
	f := fields{table: latestTable.name}
	l := drill.Latest{
		Drill: f.named("drill", v[0]), Name: f.text("name", v[1], maxName), Run: f.id("run", v[2]), Verdict: drill.Verdict(f.word("verdict", v[3])),
		At: f.time("at_ms", v[4]), Passed: f.idOrNone("passed", v[5]), PassAt: f.when("passed_ms", v[6]),
	}
	return l, f.bad
}
