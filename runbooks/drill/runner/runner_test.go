package runner_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headgate/proxy/fault"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/runner"
)

func TestBuiltInsRunToTheEnd(t *testing.T) {
	for _, s := range builtIn(t) {
		t.Run(s.ID, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t, s.ID)
				run := r.runDrill()
				if run.Status != drill.Ended || run.Verdict != drill.Passed {
					t.Fatalf("%s %s: %s", run.Status, run.Verdict, run.Reason)
				}
				if !reflect.DeepEqual(r.row(run.ID), run) {
					t.Error("what was recorded is not what was returned")
				}
				if len(r.ended) != 1 || r.ended[0].Verdict != drill.Passed {
					t.Errorf("%d ends were reported", len(r.ended))
				}
				checkPhases(t, run)
				if r.inForce() > 0 || !r.env.closed {
					t.Error("something is left")
				}
				if len(run.Series) < 200 || len(run.Hypotheses) != len(s.Expect) {
					t.Errorf("%d points, %d hypotheses", len(run.Series), len(run.Hypotheses))
				}
				for _, u := range run.Reverts {
					if !u.OK {
						t.Errorf("%s: %s", u.What, u.Note)
					}
				}
				checkJSONRoundTrip(t, run)
			})
		})
	}
}

func checkPhases(t *testing.T, run drill.Run) {
	t.Helper()
	var names []string
	for i, p := range run.Phases {
		names = append(names, string(p.Name))
		if p.Ended.IsZero() || p.Ended.Before(p.Started) || i > 0 && p.Started.Before(run.Phases[i-1].Started) {
			t.Errorf("phase %s from %v to %v", p.Name, p.Started, p.Ended)
		}
	}
	want := "claim preflight brakes baseline inject hold clear recover verdict"
	if run.Spec.Scenario.Baseline == 0 {
		want = strings.Replace(want, "baseline ", "", 1)
	}
	if got := strings.Join(names, " "); got != want {
		t.Errorf("phases %s\nwant   %s", got, want)
	}
}

func checkJSONRoundTrip(t *testing.T, run drill.Run) {
	t.Helper()
	data, err := json.Marshal(run)
	if err != nil {
		t.Fatal(err)
	}
	var back drill.Run
	if err := json.Unmarshal(data, &back); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(back)
	if err != nil || !bytes.Equal(again, data) {
		t.Errorf("JSON changes a run: %v", err)
	}
	if strings.Contains(string(data), ":-0,") {
		t.Error("JSON holds -0")
	}
}

// TestStops stops a run in the middle of a fault, for every cause.
func TestStops(t *testing.T) {
	for _, c := range []struct {
		name string
		stop func(r *fixture, id string)
		// within is how long it may take until the cause is noticed.
		within time.Duration
		want   string
	}{
		{"person", func(r *fixture, id string) {
			if _, err := r.runner.Abort(context.Background(), id, "anna", "lunch"); err != nil {
				r.t.Error(err)
			}
		}, 0, "aborted by anna: lunch"},
		{"freeze", func(r *fixture, _ string) {
			_ = r.runner.SetFreeze(context.Background(), drill.Freeze{On: true, Actor: "anna", Reason: "incident"})
		}, 0, "drills were frozen by anna: incident"},
		{"freeze elsewhere", func(r *fixture, _ string) {
			_ = r.SetFreeze(context.Background(), drill.Freeze{On: true, Actor: "ben"})
		}, 4 * time.Second, "drills were frozen by ben"},
		{"shutdown", func(r *fixture, _ string) {
			if err := r.runner.Close(context.Background()); err != nil {
				r.t.Error(err)
			}
		}, 0, "headgate is shutting down"},
		{"page", func(r *fixture, _ string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.check = &drill.StopError{Reason: "a page is open in production: stalled of default"}
		}, 300 * time.Millisecond, "a page is open in production"},
		{"production out of sight", func(r *fixture, _ string) { r.setBehaviour("check", fail) }, 300 * time.Millisecond, "production cannot be checked"},
		{"production answers no more", func(r *fixture, _ string) { r.setBehaviour("check", hang) }, 6 * time.Second, "production cannot be checked: no answer within"},
		{"stale", func(r *fixture, _ string) { r.mu.Lock(); defer r.mu.Unlock(); r.stale = "the sampler stands still" }, 10 * time.Second, "telemetry is missing: the sampler stands still"},
		{"blind", func(r *fixture, _ string) { r.setBehaviour("look", fail) }, 10 * time.Second, "telemetry is missing"},
		{"looking hangs", func(r *fixture, _ string) { r.setBehaviour("look", hang) }, 20 * time.Second, "telemetry is missing"},
		{"fenced", func(r *fixture, _ string) {
			r.setBehaviour("save", func(context.Context, int) error { return drill.ErrLockLost })
		}, 4 * time.Second, "another run holds the lock"},
		{"no record", func(r *fixture, _ string) { r.setBehaviour("save", fail) }, 14 * time.Second, "the record could not be written for 10s"},
		{"record hangs", func(r *fixture, _ string) { r.setBehaviour("save", hang) }, 14 * time.Second, "the record could not be written for 10s"},
		{"leases lapse", func(r *fixture, _ string) {
			r.setBehaviour("renew", func(context.Context, int) error { return fault.ErrLeaseExpired })
		}, 3 * time.Second, "expired 4 times"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t, "hung-upstream")
				r.spec.Scenario.Faults[0].For = 230 * time.Second // until 14.5 s of the wall clock
				id := r.startDrill()
				time.Sleep(7 * time.Second) // 80 s into the scenario
				if r.inForce() != 1 {
					t.Fatal("the fault is not in force")
				}
				go c.stop(r, id)
				time.Sleep(c.within + drill.ClearLimit)
				if n := r.inForce(); n > 0 {
					t.Errorf("%d faults are in force %v later", n, c.within+drill.ClearLimit)
				}
				r.setBehaviour("save", nil)
				run := r.waitEnded(id)
				if run.Verdict != drill.Aborted || !strings.Contains(run.Reason, c.want) {
					t.Errorf("%s: %s\nwant aborted: %s", run.Verdict, run.Reason, c.want)
				}
				if !slices.ContainsFunc(run.Reverts, func(u drill.RevertResult) bool { return u.What == "all faults" && u.OK }) {
					t.Errorf("what was cleared is not recorded: %+v", run.Reverts)
				}
				if !r.env.closed {
					t.Error("the stage stands")
				}
				time.Sleep(maxHang)
			})
		})
	}
}

func TestAbortIf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, "upstream-errors")
		r.spec.AbortIf = []drill.Expectation{{Measure: drill.ErrorShare, Compare: drill.AtLeast, Limit: 0.02, Unit: "ratio"}}
		run := r.runDrill()
		if run.Verdict != drill.Aborted || !strings.HasPrefix(run.Reason, "abort_if error_share >= 2%: it is ") {
			t.Errorf("%s: %s", run.Verdict, run.Reason)
		}
	})
}

// TestEveryPortFailure lets every port fail, hang and panic, at each of its first
// calls. Always the row ends, nothing is in force, and the stage is gone.
func TestEveryPortFailure(t *testing.T) {
	ports := []string{
		"frozen", "ready", "open", "canary", "start", "look", "inject", "renew", "clear", "check", "drift", "save", "close",
		"do lock_record", "undo lock_record",
	}
	for _, port := range ports {
		for name, b := range map[string]behaviour{"fails": fail, "hangs": hang, "panics": panics} {
			for from := 1; from <= 3; from++ {
				t.Run(fmt.Sprintf("%s %s from call %d", port, name, from), func(t *testing.T) {
					synctest.Test(t, func(t *testing.T) { testBrokenPort(t, port, from, b) })
				})
			}
		}
	}
}

func testBrokenPort(t *testing.T, port string, from int, b behaviour) {
	r := newFixture(t, "hung-upstream")
	r.spec.Scenario.Steps = []drill.Step{{Kind: drill.StepLockRecord, At: 20 * time.Second, For: 100 * time.Second}}
	r.setBehaviour(port, func(ctx context.Context, n int) error {
		if n < from {
			return nil
		}
		return b(ctx, n)
	})
	id := r.startDrill()
	run := r.waitEnded(id)
	if run.Status != drill.Ended || run.Verdict == "" || run.Reason == "" {
		t.Errorf("%s %q: %s", run.Status, run.Verdict, run.Reason)
	}
	if run.Verdict == drill.Passed && r.callCount(port) >= from && !slices.Contains([]string{"renew", "save", "look", "check", "close", "frozen"}, port) {
		t.Errorf("passed although %s broke", port)
	}
	time.Sleep(runner.LeaseTTL)
	if n := r.inForce(); n > 0 {
		t.Errorf("%d faults are in force", n)
	}
	if r.row(id).Status != drill.Ended && port != "save" {
		t.Error("the row is open")
	}
	if got, ok := r.runner.Current(); ok {
		t.Errorf("the runner still holds %s", got.ID)
	}
	time.Sleep(maxHang)
}

// TestLeasesExpireWithoutRunner: a runner that does nothing any more takes its
// faults with it.
func TestLeasesExpireWithoutRunner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, "hung-upstream")
		id := r.startDrill()
		time.Sleep(7 * time.Second)
		for _, port := range []string{"renew", "clear", "save", "check", "look"} {
			r.setBehaviour(port, hang)
		}
		time.Sleep(runner.LeaseTTL + time.Millisecond)
		if n := r.inForce(); n > 0 {
			t.Errorf("%d faults are in force", n)
		}
		// It is not confirmed that they ended, which matters more than the stop.
		if run := r.waitEnded(id); run.Verdict != drill.Failed || !strings.HasPrefix(run.Reason, "the faults did not clear: no answer within 1s; ") {
			t.Errorf("%s: %s", run.Verdict, run.Reason)
		}
		time.Sleep(maxHang)
	})
}

// TestProductionDriftFails: a run that is stopped early says what it did to production.
func TestProductionDriftFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, "burst")
		r.drift = 3
		id := r.startDrill()
		time.Sleep(7 * time.Second)
		if _, err := r.runner.Abort(context.Background(), id, "anna", ""); err != nil {
			t.Error(err)
		}
		if run := r.waitEnded(id); run.Verdict != drill.Failed || run.Reason != "3 came to production; aborted by anna" {
			t.Errorf("%s: %s", run.Verdict, run.Reason)
		}
	})
}

// TestFailingStep: steps before it are reverted, the last first.
func TestFailingStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, "rollback").setBehaviour("do lose_slots", fail)
		r.spec.Scenario.Steps = []drill.Step{
			{Kind: drill.StepLockRecord, At: 10 * time.Second}, {Kind: drill.StepRollback, At: 20 * time.Second},
			{Kind: drill.StepLoseSlots, At: 30 * time.Second, Count: 1},
		}
		run := r.runDrill()
		if run.Verdict != drill.Inconclusive || !strings.Contains(run.Reason, "step lose_slots at 30s did not work: broken on purpose") {
			t.Errorf("%s: %s", run.Verdict, run.Reason)
		}
		want := []string{"do lock_record", "do rollback", "clear all", "undo rollback", "undo lock_record", "close"}
		if got := r.loggedSteps(); !slices.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
		var undone []string
		for _, u := range run.Reverts {
			undone = append(undone, u.What)
		}
		if want := []string{"all faults", "step rollback at 20s", "step lock_record at 10s"}; !slices.Equal(undone, want) {
			t.Errorf("recorded %v\nwant     %v", undone, want)
		}
	})
}

// TestLateResultsAreUndone: a fault or a step that comes into force after its run was
// stopped is reverted when it returns.
func TestLateResultsAreUndone(t *testing.T) {
	slow := func(context.Context, int) error { time.Sleep(3 * time.Second); return nil }
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, "hung-upstream").setBehaviour("inject", slow).setBehaviour("do lock_record", slow)
		r.spec.Scenario.Steps = []drill.Step{{Kind: drill.StepLockRecord, At: 10 * time.Second}}
		id := r.startDrill()
		time.Sleep(4 * time.Second) // 20 s into the scenario: the step is on its way
		if _, err := r.runner.Abort(context.Background(), id, "anna", ""); err != nil {
			t.Fatal(err)
		}
		r.waitEnded(id)
		time.Sleep(5 * time.Second)
		if want, got := []string{"clear all", "close", "do lock_record", "undo lock_record"}, r.loggedSteps(); !slices.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	})
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, "hung-upstream").setBehaviour("inject", slow)
		id := r.startDrill()
		time.Sleep(6500 * time.Millisecond) // 70 s into the scenario: the fault is on its way
		if _, err := r.runner.Abort(context.Background(), id, "anna", ""); err != nil {
			t.Fatal(err)
		}
		r.waitEnded(id)
		time.Sleep(5 * time.Second)
		if want, got := []string{"clear all", "close", "inject hang upstream", "clear hang upstream"}, r.loggedSteps(); !slices.Equal(got, want) {
			t.Errorf("got  %v\nwant %v", got, want)
		}
	})
}

func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, "burst")
		id := r.startDrill()
		_, err := r.runner.Start(context.Background(), runner.Request{Spec: r.spec})
		var busy *drill.BusyError
		if !errors.As(err, &busy) || busy.Run != id || busy.Drill != "Burst" {
			t.Errorf("got %v", err)
		}
		if run, ok := r.runner.Current(); !ok || run.ID != id {
			t.Errorf("current is %v %v", run.ID, ok)
		}
		if _, err := r.runner.Abort(context.Background(), "another", "anna", ""); !errors.Is(err, runner.ErrNotRunning) {
			t.Errorf("abort of another: %v", err)
		}
		r.waitEnded(id)
		if _, err := r.runner.Abort(context.Background(), id, "anna", ""); !errors.Is(err, runner.ErrNotRunning) {
			t.Errorf("abort of what has ended: %v", err)
		}
		if run := r.runDrill(); run.Verdict != drill.Passed {
			t.Errorf("the next: %s", run.Reason)
		}
	})
}

func TestSkippedRuns(t *testing.T) {
	for _, c := range []struct {
		name    string
		set     func(r *fixture)
		verdict drill.Verdict
		want    string
	}{
		{"open page", func(r *fixture) { r.ready = &drill.StopError{Reason: "a page is open: stalled of default"} }, drill.Skipped, "a page is open"},
		{"frozen in between", func(r *fixture) {
			r.setBehaviour("ready", func(context.Context, int) error {
				return r.runner.SetFreeze(context.Background(), drill.Freeze{On: true, Actor: "anna"})
			})
		}, drill.Aborted, "drills were frozen by anna"},
		{"no steady state", func(r *fixture) { r.spec.Scenario.Arrivals.Rate = 3 }, drill.Skipped, "the steady state does not hold"},
		{"refusing everything", func(r *fixture) { r.defects.alwaysRefuse = true }, drill.Failed, "before the disturbance"},
		{"errors out of nothing", func(r *fixture) { r.defects.spuriousErrors = true }, drill.Failed, "no fault had hit it"},
		{"too little to compare", func(r *fixture) { r.spec.Scenario.Baseline = 3 * time.Second }, drill.Inconclusive, "no reference to compare with"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newFixture(t, "hung-upstream")
				c.set(r)
				run := r.runDrill()
				if run.Verdict != c.verdict || !strings.Contains(run.Reason, c.want) {
					t.Errorf("%s: %s\nwant %s: %s", run.Verdict, run.Reason, c.verdict, c.want)
				}
				if r.callCount("inject") > 0 {
					t.Error("something was injected")
				}
			})
		})
	}
}

func TestFrozenAndClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, "burst")
		ctx := context.Background()
		if err := r.runner.SetFreeze(ctx, drill.Freeze{On: true, Actor: "anna", Reason: "incident"}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.runner.Start(ctx, runner.Request{Spec: r.spec}); !errors.Is(err, drill.ErrFrozen) {
			t.Errorf("frozen: %v", err)
		}
		if err := r.runner.SetFreeze(ctx, drill.Freeze{Actor: "anna", Reason: "over"}); err != nil {
			t.Fatal(err)
		}
		for _, speed := range []float64{-1, 0.5, 101} {
			if _, err := r.runner.Start(ctx, runner.Request{Spec: r.spec, Speed: speed}); err == nil || !strings.Contains(err.Error(), "1 to 100") {
				t.Errorf("speed %v: %v", speed, err)
			}
		}
		if err := r.runner.Close(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := r.runner.Start(ctx, runner.Request{Spec: r.spec}); !errors.Is(err, runner.ErrClosed) {
			t.Errorf("closed: %v", err)
		}
	})
}
