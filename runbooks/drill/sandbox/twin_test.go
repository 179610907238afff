package sandbox

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/runbooks/drill"
)

// fakeSystem shows another mode than the one that was asked for.
type fakeSystem struct{ stopped, locked bool }

func (s *fakeSystem) DataAddr() string { return "127.0.0.1:1" }

func (s *fakeSystem) SetMode(_ context.Context, pool, mode, _ string) (map[string]string, error) {
	if mode == modePassThrough {
		return map[string]string{pool: "observe"}, nil
	}
	return map[string]string{pool: "enforce"}, nil
}

func (s *fakeSystem) Incidents(context.Context) ([]string, error) { return nil, nil }

func (s *fakeSystem) ProbeRecord(context.Context) error {
	if s.locked {
		return errors.New("locked")
	}
	return nil
}

func (s *fakeSystem) LockRecord(context.Context) (func(context.Context) error, error) {
	s.locked = true
	return func(context.Context) error { s.locked = false; return nil }, nil
}

func (s *fakeSystem) Failed() <-chan error { return nil }

func (s *fakeSystem) Stop(context.Context) error { s.stopped = true; return nil }

// TestTwinSteps: the evidence says which orders the system does not apply, and whether the record could be written.
func TestTwinSteps(t *testing.T) {
	system := &fakeSystem{}
	environments := &Environments{
		Dir: filepath.Join(t.TempDir(), "drills"), Traffic: &Traffic{},
		Pool:      func(drill.Spec) (Pool, error) { return Pool{Name: "default", Workers: 4, SLO: time.Minute}, nil },
		NewSystem: func(SystemSpec) (System, error) { return system, nil },
		Messages:  func() SlackChannel { return SlackChannel{} },
	}
	opened, err := environments.Open(t.Context(), drill.Run{Speed: 50, Spec: drill.Spec{Scenario: drill.Scenario{
		Duration: time.Minute, Service: "fixed:1s", Arrivals: drill.Arrivals{Rate: 0.1},
		Steps: []drill.Step{{Kind: drill.StepLockRecord}},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	w := opened.(*twin)
	for _, k := range []drill.StepKind{drill.StepRollback, drill.StepLockRecord, drill.StepLoseSlots} {
		revert, err := w.RunStep(t.Context(), drill.Step{Kind: k, Count: 1})
		if err != nil {
			t.Fatal(err)
		}
		if err := revert(t.Context()); err != nil {
			t.Error(err)
		}
	}
	zero := time.Now()
	w.clock.zero.Store(&zero)
	e, err := w.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(e.UnappliedRequests) != 1 || !strings.Contains(e.UnappliedRequests[0], "in mode observe") {
		t.Errorf("not applied: %q", e.UnappliedRequests)
	}
	if p := e.WriteProbes; len(p) != 2 || p[0].Writable || !p[1].Writable {
		t.Errorf("probes %+v, want a locked and a writable record", p)
	}
	for range 2 {
		if err := w.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if left, _ := os.ReadDir(environments.Dir); len(left) > 0 || !system.stopped {
		t.Errorf("left %v, stopped %t", left, system.stopped)
	}
}

// TestFailedOpenLeavesNothing: what was built before a failure is stopped.
func TestFailedOpenLeavesNothing(t *testing.T) {
	failure := errors.New("no system")
	environments := &Environments{
		Dir: filepath.Join(t.TempDir(), "drills"), Traffic: &Traffic{},
		Pool:      func(drill.Spec) (Pool, error) { return Pool{Name: "default", Workers: 4}, nil },
		NewSystem: func(SystemSpec) (System, error) { return nil, failure },
		Messages:  func() SlackChannel { return SlackChannel{} },
	}
	spec := drill.Spec{Scenario: drill.Scenario{Duration: time.Minute, Service: "fixed:1s", Arrivals: drill.Arrivals{Rate: 0.1}}}
	if _, err := environments.Open(t.Context(), drill.Run{Speed: 50, Spec: spec}); !errors.Is(err, failure) {
		t.Errorf("error %v, want %v", err, failure)
	}
	if left, _ := os.ReadDir(environments.Dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// TestStaleTwinsRemoved: the directories of twins of a killed process are removed, and nothing beside them.
func TestStaleTwinsRemoved(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"drills/twin-1/headgate.db", "drills/twin-2/samples/wal", "headgate.token"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := (&Environments{Dir: filepath.Join(dir, "drills")}).RemoveStale(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "headgate.token" {
		t.Errorf("left are %v, %v", left, err)
	}
}

// A call of a task that was sent while an observation was made belongs to the next one; a call without a task stays.
func TestCallsUntil(t *testing.T) {
	at := 10 * time.Second
	call := func(task int, started time.Duration) drill.Call { return drill.Call{Task: task, Started: started} }
	got := callsUntil(at, []drill.Call{
		call(0, 9*time.Second), call(noTask, 9*time.Second), call(1, at+1), call(2, at+1),
	}, []drill.Task{{ID: 0}, {ID: 1}})
	want := []drill.Call{call(0, 9*time.Second), call(noTask, 9*time.Second), call(1, at+1)}
	if !slices.Equal(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
