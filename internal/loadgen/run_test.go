package loadgen

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// timeRecorder notes when requests came in.
type timeRecorder struct {
	mu    sync.Mutex
	times []time.Duration
}

func (s *timeRecorder) add(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.times = append(s.times, d)
}

func (s *timeRecorder) sorted() []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(slices.Values(s.times))
}

// The heart of the matter: a server that never answers must not hold up a single
// arrival.
func TestArrivalsDoNotWaitForAServerThatHangs(t *testing.T) {
	var in timeRecorder
	var start time.Time
	hang := func(w http.ResponseWriter, r *http.Request) {
		in.add(time.Since(start))
		<-r.Context().Done()
	}
	withFixture(t, hang, func(t *fixture) {
		start = time.Now()
		t.cfg.Timeout = time.Hour
		arrivals := must(t.T)(Poisson(5, 60*time.Second, 1))
		rep := t.run(arrivals)
		var want []time.Duration
		for _, a := range arrivals {
			want = append(want, a.At)
		}
		if d := cmp.Diff(want, in.sorted()); d != "" {
			t.Errorf("times at the server: %s", d)
		}
		if rep.ByCause[Timeout] != len(arrivals) {
			t.Errorf("%d timeouts, want all %d", rep.ByCause[Timeout], len(arrivals))
		}
		if !rep.KeptRate || rep.SendLag.Max != 0 {
			t.Errorf("kept rate %v with lag %v: a hanging server is not the generator's fault", rep.KeptRate, rep.SendLag.Max)
		}
		if rep.Turnaround.P50 != 3600 || rep.Late != len(arrivals) {
			t.Errorf("turnaround p50 %v, late %d: what timed out must count with its age", rep.Turnaround.P50, rep.Late)
		}
	})
}

func TestSpeedCompressesTheWallClockOnly(t *testing.T) {
	var in timeRecorder
	var start time.Time
	h := func(w http.ResponseWriter, r *http.Request) {
		in.add(time.Since(start))
		answerAfter(500*time.Millisecond)(w, r)
	}
	withFixture(t, h, func(t *fixture) {
		start = time.Now()
		t.cfg.Speed = 20
		t.cfg.SLO = 5 * time.Second
		rep := t.run(arrivalsAt(0, 10, 20))
		want := []time.Duration{0, 500 * time.Millisecond, time.Second}
		if d := cmp.Diff(want, in.sorted()); d != "" {
			t.Errorf("wall times at the server: %s", d)
		}
		if rep.Turnaround.P50 != 10 || rep.Late != 3 {
			t.Errorf("turnaround %v, late %d, want 10 s of scenario and 3", rep.Turnaround.P50, rep.Late)
		}
	})
}

// delayAt delays one arrival, as a stalled generator would.
func delayAt(all Arrivals, index int, delay time.Duration) iter.Seq[Arrival] {
	return func(yield func(Arrival) bool) {
		for i, a := range all {
			if i == index {
				time.Sleep(delay)
			}
			if !yield(a) {
				return
			}
		}
	}
}

func TestLatenessCountsFromTheIntendedArrival(t *testing.T) {
	withFixture(t, answerAfter(8*time.Second), func(t *fixture) {
		t.cfg.SLO = 10 * time.Second
		rep, err := Run(t.Context(), t.cfg, delayAt(arrivalsAt(0, 1, 2, 3), 2, 5*time.Second))
		if err != nil {
			t.Fatal(err)
		}
		// The third and fourth were due at 2 and 3 s and sent at 6 s.
		slices.SortFunc(t.results, func(a, b Result) int { return a.Index - b.Index })
		var turnarounds []time.Duration
		for _, r := range t.results {
			turnarounds = append(turnarounds, r.Turnaround())
		}
		want := []time.Duration{8 * time.Second, 8 * time.Second, 12 * time.Second, 11 * time.Second}
		if d := cmp.Diff(want, turnarounds); d != "" {
			t.Error(d)
		}
		if rep.Late != 2 {
			t.Errorf("late %d, want 2 of 4", rep.Late)
		}
		if rep.KeptRate || rep.SendLag.Max != 4 {
			t.Errorf("kept rate %v with a lag of %v s, want false and 4", rep.KeptRate, rep.SendLag.Max)
		}
		wantError(t.T, errors.New(rep.RateNote), "send lag p99 4.000 s is over 0.050 s")
	})
}

func TestSendLagBoundFollowsTheSpeed(t *testing.T) {
	for _, c := range []struct {
		speed float64
		kept  bool
	}{{100, true}, {79, false}} {
		withFixture(t, answerAfter(0), func(t *fixture) {
			t.cfg.Speed = c.speed
			// Due at once and sent after 4 s of scenario time.
			late := time.Duration(4 / c.speed * float64(time.Second))
			rep, err := Run(t.Context(), t.cfg, delayAt(arrivalsAt(0), 0, late))
			if err != nil {
				t.Fatal(err)
			}
			if rep.KeptRate != c.kept {
				t.Errorf("a lag of %v at speed %v: kept rate %v, want %v", late, c.speed, rep.KeptRate, c.kept)
			}
		})
	}
}

func TestBeyondMaxOutstandingArrivalsAreDroppedNotDelayed(t *testing.T) {
	withFixture(t, answerAfter(10*time.Second), func(t *fixture) {
		t.cfg.MaxOutstanding = 2
		rep := t.run(arrivalsAt(0, 1, 2, 3, 10.5))
		if d := cmp.Diff(map[Outcome]int{OK: 3, Dropped: 2, Refused: 0, Failed: 0, Truncated: 0, Cancelled: 0}, rep.ByOutcome); d != "" {
			t.Error(d)
		}
		if rep.Arrivals != 5 || rep.Admitted != 3 || rep.Requests != 3 || len(t.results) != 5 {
			t.Errorf("got %+v and %d observed, want 5 arrivals, 3 admitted, all observed", rep, len(t.results))
		}
		if rep.KeptRate {
			t.Error("the rate counts as kept with two drops")
		}
		wantError(t.T, errors.New(rep.RateNote), "2 of 5 arrivals were dropped", "MaxOutstanding")
		for _, r := range t.results {
			if r.Outcome == Dropped && (r.Attempts != 0 || r.End != r.Intended) {
				t.Errorf("dropped arrival %+v: want no attempt, ended at its time", r)
			}
		}
	})
}

func TestASlowObserverDelaysNoArrival(t *testing.T) {
	var in timeRecorder
	var start time.Time
	h := func(w http.ResponseWriter, r *http.Request) {
		in.add(time.Since(start))
		writeJSON(w, answer)
	}
	withFixture(t, h, func(t *fixture) {
		start = time.Now()
		inner := t.cfg.Observe
		t.cfg.Observe = func(r Result) { time.Sleep(time.Minute); inner(r) }
		arrivals := arrivalsAt(0, 1, 2, 3)
		rep := t.run(arrivals)
		if d := cmp.Diff([]time.Duration{0, time.Second, 2 * time.Second, 3 * time.Second}, in.sorted()); d != "" {
			t.Error(d)
		}
		if rep.Turnaround.Max != 0 || len(t.results) != 4 {
			t.Errorf("turnaround %v, observed %d, want 0 and 4", rep.Turnaround.Max, len(t.results))
		}
	})
}

func TestASlowObserverGetsEveryDropInTheEnd(t *testing.T) {
	withFixture(t, answerAfter(time.Second), func(t *fixture) {
		inner := t.cfg.Observe
		t.cfg.MaxOutstanding = 1
		t.cfg.Observe = func(r Result) {
			if len(t.results) == 0 {
				time.Sleep(time.Minute)
			}
			inner(r)
		}
		burst := make(Arrivals, 5000) // more than the collector's queue holds
		rep := t.run(burst)
		if rep.ByOutcome[Dropped] != 4999 || rep.ByOutcome[OK] != 1 || len(t.results) != 5000 {
			t.Errorf("outcomes %v, observed %d, want 4999 drops and 1 ok", rep.ByOutcome, len(t.results))
		}
	})
}

func TestCancelReturnsThePartThatWasPlayed(t *testing.T) {
	stop := errors.New("enough")
	withFixture(t, answerAfter(3*time.Second), func(t *fixture) {
		ctx, cancel := context.WithCancelCause(t.Context())
		go func() {
			time.Sleep(4500 * time.Millisecond)
			cancel(stop)
		}()
		rep, err := Run(ctx, t.cfg, arrivalsAt(0, 1, 2, 3, 4, 5, 6).Source())
		if !errors.Is(err, stop) {
			t.Errorf("got error %v, want it to wrap the cause", err)
		}
		if rep == nil {
			t.Fatal("got no report")
		}
		if !rep.Cancelled || rep.Arrivals != 5 || rep.ByOutcome[OK] != 2 || rep.ByOutcome[Cancelled] != 3 {
			t.Errorf("got %+v, want 5 arrivals, 2 ok, 3 cancelled", rep)
		}
		if rep.Admitted != 2 || rep.Late != 0 || rep.Turnaround.Count != 2 {
			t.Errorf("admitted %d, late %d: what was cut by the run says nothing about the system", rep.Admitted, rep.Late)
		}
		if got := time.Since(t.start); got != 4500*time.Millisecond {
			t.Errorf("Run returned after %v, want at once", got)
		}
	})
}

func TestCancelAfterLastArrivalIsReported(t *testing.T) {
	withFixture(t, answerAfter(time.Hour), func(t *fixture) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		rep, err := Run(ctx, t.cfg, arrivalsAt(0).Source())
		if !errors.Is(err, context.DeadlineExceeded) || !rep.Cancelled || rep.ByOutcome[Cancelled] != 1 {
			t.Errorf("got %v and %+v, want the deadline and one cancelled", err, rep)
		}
	})
}

func TestAnEmptySourceGivesAnEmptyReport(t *testing.T) {
	withFixture(t, answerAfter(0), func(t *fixture) {
		rep := t.run(nil)
		if rep.Arrivals != 0 || !rep.KeptRate || rep.Turnaround != (Quantiles{}) {
			t.Errorf("got %+v, want nothing", rep)
		}
	})
}

func TestABadConfigSendsNothing(t *testing.T) {
	rep, err := Run(t.Context(), Config{}, arrivalsAt(0).Source())
	wantError(t, err, "load generator", "URL")
	if rep != nil {
		t.Error("got a report beside the error")
	}
}

func TestResultsAreObservedAsTheyEnd(t *testing.T) {
	withFixture(t, answerAfter(time.Second), func(t *fixture) {
		go func() { _, _ = Run(t.Context(), t.cfg, arrivalsAt(0, 10).Source()) }()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		t.mu.Lock()
		n := len(t.results)
		t.mu.Unlock()
		if n != 1 {
			t.Errorf("observed %d results after 5 s, want the first", n)
		}
		time.Sleep(10 * time.Second)
	})
}
