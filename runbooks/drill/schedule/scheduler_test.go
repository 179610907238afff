package schedule

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"headgate/runbooks/drill"
)

// schedulerFixture is a record and a runner in memory. The bubble's clock begins at
// midnight of 1 January 2000, a Saturday.
type schedulerFixture struct {
	*testing.T
	mu      sync.Mutex
	specs   []drill.Spec
	dues    map[string]drill.DueTime
	notRun  []string
	runs    []string
	claimed map[string]bool
	refuse  func(s drill.Spec) error
	broken  error // of the record
	hangs   bool  // it does not even say so
	logs    bytes.Buffer
}

func newSchedulerFixture(t *testing.T, specs ...drill.Spec) *schedulerFixture {
	return &schedulerFixture{T: t, specs: specs, dues: map[string]drill.DueTime{}, claimed: map[string]bool{}}
}

func (c *schedulerFixture) DueTimes(ctx context.Context) (map[string]drill.DueTime, error) {
	c.mu.Lock()
	hangs := c.hangs
	c.mu.Unlock()
	if hangs {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.dues), c.broken
}

func (c *schedulerFixture) SetDueTime(_ context.Context, d drill.DueTime) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.dues[d.Drill] = d
	return c.broken
}

func (c *schedulerFixture) DeleteDueTime(_ context.Context, id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.dues, id)
	return c.broken
}

func (c *schedulerFixture) claim(id string, at time.Time) error {
	key := id + at.String()
	if c.claimed[key] {
		return drill.ErrClaimed
	}
	c.claimed[key] = true
	return nil
}

func (c *schedulerFixture) RecordNotRun(_ context.Context, r drill.Run) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.claim(r.Drill, r.Scheduled); err != nil {
		return err
	}
	if r.Status != drill.Ended || r.Ended.IsZero() {
		c.Errorf("noted %+v", r)
	}
	c.notRun = append(c.notRun, fmt.Sprintf("%s %s %d: %s", r.Drill, r.Verdict, r.Count, r.Reason))
	return nil
}

func (c *schedulerFixture) Launch(_ context.Context, s drill.Spec, t drill.Trigger, at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.refuse != nil {
		if err := c.refuse(s); err != nil {
			return err
		}
	}
	if err := c.claim(s.ID, at); err != nil {
		return err
	}
	c.runs = append(c.runs, fmt.Sprintf("%s %s %s at %s", s.ID, t, at.Format("02T15:04"), time.Now().UTC().Format("02T15:04:05")))
	return nil
}

func (c *schedulerFixture) locked(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f()
}

// start runs a scheduler until stop is called, as one process would.
func (c *schedulerFixture) start() (s *Scheduler, stop func()) {
	s = NewScheduler(SchedulerOptions{
		Specs: func() []drill.Spec {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.specs
		},
		DueTimes: c, RecordNotRun: c.RecordNotRun, Launch: c.Launch, Log: slog.New(slog.NewTextHandler(&c.logs, nil)),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	return s, func() {
		cancel()
		<-done
	}
}

// advance lets time pass under a scheduler.
func (c *schedulerFixture) advance(d time.Duration) {
	_, stop := c.start()
	time.Sleep(d)
	synctest.Wait()
	stop()
}

func (c *schedulerFixture) wantRuns(runs, notes string) {
	c.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	if got := strings.Join(c.runs, "; "); got != runs {
		c.Errorf("ran %q, want %q", got, runs)
	}
	if got := strings.Join(c.notRun, "; "); got != notes {
		c.Errorf("noted %q, want %q", got, notes)
	}
}

// A weekly drill is on time though the process is replaced every day, and an
// interval of a week is too.
func TestWeeklyUnderDailyRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSchedulerFixture(t, drill.Spec{ID: "cron", Schedule: "0 12 * * 1"}, drill.Spec{ID: "every", Schedule: "@every 168h"})
		for range 16 {
			c.advance(24*time.Hour - time.Minute)
			time.Sleep(time.Minute) // between two processes
		}
		c.wantRuns("cron schedule 03T12:00 at 03T12:00:00; every schedule 08T00:00 at 08T00:00:00; "+
			"cron schedule 10T12:00 at 10T12:00:00; every schedule 15T00:00 at 15T00:00:00", "")
	})
}

func TestTwoWeeksDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSchedulerFixture(t, drill.Spec{ID: "a", Schedule: "*/5 * * * *", CatchUp: time.Hour}, drill.Spec{ID: "b", Schedule: "0 3 * * *"})
		c.advance(time.Minute)
		time.Sleep(14*24*time.Hour + time.Minute)
		c.advance(time.Minute)
		c.wantRuns("a catch_up 15T00:00 at 15T00:02:00",
			"b missed 14: 14 times passed while nothing ran, from 2000-01-01 03:00 UTC to 2000-01-14 03:00 UTC; "+
				"a missed 4031: 4031 times passed while nothing ran, from 2000-01-01 00:05 UTC to 2000-01-14 23:55 UTC")
	})
}

// The second of two waits for its turn while its time allows, and is skipped with
// the holder named after that.
func TestTwoDueTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSchedulerFixture(t, drill.Spec{ID: "a", Schedule: "0 3 * * *"}, drill.Spec{ID: "b", Schedule: "0 3 * * *", CatchUp: time.Hour},
			drill.Spec{ID: "c", Schedule: "0 3 * * *"})
		var holder string
		began := time.Now().Add(3 * time.Hour)
		c.refuse = func(s drill.Spec) error {
			if holder != "" {
				return &drill.BusyError{Run: "r1", Drill: holder, Since: began}
			}
			holder = s.ID
			return nil
		}
		s, stop := c.start()
		defer stop()
		time.Sleep(3*time.Hour + 10*time.Minute)
		c.locked(func() { holder = "" })
		s.Wake()
		synctest.Wait()
		c.wantRuns("a schedule 01T03:00 at 01T03:00:00; b catch_up 01T03:00 at 01T03:10:00",
			"c skipped 1: drill a is running since 2000-01-01T03:00:00Z (run r1)")
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		c.locked(func() {
			if len(c.runs) != 2 || len(c.dues) != 3 {
				t.Errorf("%v, %v", c.runs, c.dues)
			}
		})
	})
}

func TestTwoProcesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSchedulerFixture(t, drill.Spec{ID: "a", Schedule: "0 3 * * *"}, drill.Spec{ID: "b", Schedule: "@every 10h"})
		_, stop := c.start()
		defer stop()
		c.advance(24 * time.Hour)
		c.wantRuns("a schedule 01T03:00 at 01T03:00:00; b schedule 01T10:00 at 01T10:00:00; b schedule 01T20:00 at 01T20:00:00", "")
	})
}

func TestFrozen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSchedulerFixture(t, drill.Spec{ID: "a", Schedule: "0 3 * * *", CatchUp: time.Hour})
		c.refuse = func(drill.Spec) error { return drill.ErrFrozen }
		c.advance(4 * time.Hour)
		c.wantRuns("", "a skipped 0: drills are frozen")
	})
}

// A record that cannot be written lets nothing begin, and nothing is lost by it.
func TestSchedulerStoreFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSchedulerFixture(t, drill.Spec{ID: "a", Schedule: "0 3 * * *", CatchUp: time.Hour})
		_, stop := c.start()
		time.Sleep(time.Hour)
		c.locked(func() { c.broken = errors.New("disk full") })
		time.Sleep(2*time.Hour + 10*time.Minute + maxSleep/2)
		c.wantRuns("", "")
		c.locked(func() { c.broken = nil })
		time.Sleep(maxSleep)
		synctest.Wait()
		c.wantRuns("a catch_up 01T03:00 at 01T03:10:30", "")
		stop()
		if !strings.Contains(c.logs.String(), "disk full") {
			t.Error("not reported")
		}
	})
}

// A record that hangs is waited for within bounds, and is asked again.
func TestSchedulerStoreHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSchedulerFixture(t, drill.Spec{ID: "a", Schedule: "0 3 * * *", CatchUp: time.Hour})
		_, stop := c.start()
		defer stop()
		time.Sleep(2 * time.Hour)
		c.locked(func() { c.hangs = true })
		time.Sleep(time.Hour + 10*time.Minute)
		c.locked(func() { c.hangs = false })
		time.Sleep(3 * maxSleep)
		synctest.Wait()
		c.locked(func() {
			if len(c.runs) != 1 || !strings.HasPrefix(c.runs[0], "a catch_up 01T03:00 at 01T03:1") {
				t.Errorf("ran %v, want one run soon after", c.runs)
			}
		})
	})
}

// Drills that are edited while the loop sleeps count from then on; one that panics
// takes nothing with it.
func TestSchedulerSurvivesPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newSchedulerFixture(t, drill.Spec{ID: "a", Schedule: "0 3 * * *"})
		var once sync.Once
		c.refuse = func(drill.Spec) error {
			once.Do(func() { panic("a bug") })
			return nil
		}
		s, stop := c.start()
		time.Sleep(time.Hour)
		c.locked(func() {
			c.specs = append(c.specs, drill.Spec{ID: "b", Schedule: "30 0 * * *"}, drill.Spec{ID: "c", Schedule: "30 1 * * *"})
		})
		s.Wake()
		s.Wake()
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		c.wantRuns("c schedule 01T01:30 at 01T01:30:30; a schedule 01T03:00 at 01T03:00:00", "")
		c.locked(func() { c.specs = nil })
		s.Wake()
		synctest.Wait()
		c.locked(func() {
			if len(c.dues) != 0 {
				t.Errorf("%v is still due", c.dues)
			}
		})
		stop()
		if !strings.Contains(c.logs.String(), "a bug") {
			t.Error("the panic was not reported")
		}
	})
}
