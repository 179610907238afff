package rollbacktest

import (
	"fmt"
	"testing"
	"time"
)

// NamedScenario is a scenario with its name.
type NamedScenario struct {
	Name string
	Scenario
}

// Scenarios returns the ways to roll back under load. In each, 1,000 tasks or more
// are in flight or queued in the end. Those with the record in trouble have a
// tenth of the rounds: each of their orders waits 2 s for the record.
func Scenarios(rounds int) []NamedScenario {
	quiet := Scenario{Clients: 1000, Workers: 64, Retrying: 4, RetryPause: 5 * time.Millisecond, Rounds: rounds}
	full := quiet
	full.Retrying, full.RetryPause = 16, 0
	with := func(s Scenario, change func(*Scenario)) Scenario {
		change(&s)
		return s
	}
	slow := max(rounds/10, 2)
	return []NamedScenario{
		{"by the API", quiet},
		{"by the command", with(quiet, func(s *Scenario) { s.Rollback = rollbackByCommand })},
		{"by the API, saturated", full},
		{"by the command, saturated", with(full, func(s *Scenario) { s.Rollback = rollbackByCommand })},
		{"by the API, database held", with(quiet, func(s *Scenario) { s.Fault, s.Rollback, s.Rounds = LockDatabase, rollbackUnrecorded, slow })},
		{"by the API, disk full", with(quiet, func(s *Scenario) {
			s.Setup, s.Fault, s.Rollback, s.Rounds = SmallDisk, fillDataDir, rollbackUnrecorded, slow
		})},
	}
}

func fillDataDir(t testing.TB, dir string) func() {
	t.Helper()
	return FillDisk(t, DataDir(dir))
}

func rollbackByCommand(t testing.TB, r *Instance) error {
	t.Helper()
	d := r.Command(t, "rollback", "--json")
	if reply := d.Result(t); d.ExitCode != 0 || reply.Path != "api" || !reply.Recorded {
		return fmt.Errorf("exit code %d, %s%s", d.ExitCode, d.Stdout, d.Stderr)
	}
	return nil
}

// rollbackUnrecorded is a rollback that cannot be recorded, and says so.
func rollbackUnrecorded(t testing.TB, r *Instance) error {
	t.Helper()
	reply, err := r.SetMode("passthrough")
	if err == nil && reply.Recorded {
		err = fmt.Errorf("recorded, although that cannot be: %+v", reply)
	}
	return err
}
