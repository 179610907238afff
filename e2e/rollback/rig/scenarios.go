package rig

import (
	"fmt"
	"testing"
	"time"
)

// Named is a scenario with its name.
type Named struct {
	Name string
	Scenario
}

// Scenarios returns the ways to roll back under load. In each, 1,000 tasks or more
// are in flight or queued in the end. Those with the record in trouble have a
// tenth of the rounds: each of their orders waits 2 s for the record.
func Scenarios(rounds int) []Named {
	quiet := Scenario{Crowd: 1000, Workers: 64, Press: 4, Pause: 5 * time.Millisecond, Rounds: rounds}
	full := quiet
	full.Press, full.Pause = 16, 0
	with := func(s Scenario, change func(*Scenario)) Scenario {
		change(&s)
		return s
	}
	slow := max(rounds/10, 2)
	return []Named{
		{"by the API", quiet},
		{"by the command", with(quiet, func(s *Scenario) { s.Roll = byCommand })},
		{"by the API, saturated", full},
		{"by the command, saturated", with(full, func(s *Scenario) { s.Roll = byCommand })},
		{"by the API, database held", with(quiet, func(s *Scenario) { s.Around, s.Roll, s.Rounds = Hold, unrecorded, slow })},
		{"by the API, disk full", with(quiet, func(s *Scenario) {
			s.Prep, s.Around, s.Roll, s.Rounds = SmallDisk, fillData, unrecorded, slow
		})},
	}
}

func fillData(t testing.TB, dir string) func() {
	t.Helper()
	return Fill(t, Data(dir))
}

func byCommand(t testing.TB, r *Rig) error {
	t.Helper()
	d := r.Command(t, "rollback", "--json")
	if reply := d.Reply(t); d.Code != 0 || reply.Way != "api" || !reply.Recorded {
		return fmt.Errorf("exit code %d, %s%s", d.Code, d.Out, d.Err)
	}
	return nil
}

// unrecorded is a rollback that cannot be recorded, and says so.
func unrecorded(t testing.TB, r *Rig) error {
	t.Helper()
	reply, err := r.Order("passthrough")
	if err == nil && reply.Recorded {
		err = fmt.Errorf("recorded, although that cannot be: %+v", reply)
	}
	return err
}
