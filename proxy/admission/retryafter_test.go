package admission_test

import (
	"math"
	"testing"
	"time"

	"headgate/proxy/admission"
)

// newGateWithProjection returns a gate whose queue is projected to drain in exactly d.
func newGateWithProjection(t *testing.T, d time.Duration) *admission.Gate {
	t.Helper()
	g := newGate(t, admission.Config{Policy: admission.None{}, AssumedService: max(d, 1)})
	if d > 0 {
		offerN(g, 0, 2)
	}
	return g
}

// retryAfterCounts counts the seconds that callers get for a projected wait.
func retryAfterCounts(t *testing.T, d time.Duration, callers int) map[int]int {
	t.Helper()
	g := newGateWithProjection(t, d)
	counts := map[int]int{}
	for caller := range callers {
		r := admission.Refusal{Reason: admission.ReasonQueueDepth, RetryAfter: g.RetryAfter(at(0), uint64(caller))}
		if bad := refusalDefect(r); bad != "" {
			t.Fatalf("projected %s, caller %d: %s", d, caller, bad)
		}
		counts[int(r.RetryAfter/time.Second)]++
	}
	return counts
}

// retryAfterRange returns the least and the most seconds that any caller got.
func retryAfterRange(counts map[int]int) (least, most int) {
	least = math.MaxInt
	for s := range counts {
		least, most = min(least, s), max(most, s)
	}
	return least, most
}

func TestRetryAfterSpan(t *testing.T) {
	tests := []struct {
		projected   time.Duration
		least, most int
	}{
		{0, 1, 2},
		{1, 1, 3},
		{200 * time.Millisecond, 1, 3},
		{493 * time.Millisecond, 1, 3},
		{time.Second, 1, 3},
		{time.Second + 1, 2, 4},
		{6 * time.Second, 6, 8},
		{9 * time.Second, 9, 12},
		{30 * time.Second, 30, 40},
		{44 * time.Second, 44, 59},
		{45 * time.Second, 45, 59},
		{46 * time.Second, 45, 59},
		{61 * time.Second, 45, 59},
		{24 * time.Hour, 45, 59},
		{math.MaxInt64, 45, 59},
	}
	for _, tt := range tests {
		t.Run(tt.projected.String(), func(t *testing.T) {
			least, most := retryAfterRange(retryAfterCounts(t, tt.projected, 2000))
			if least != tt.least || most != tt.most {
				t.Fatalf("callers got %d to %d s, want %d to %d", least, most, tt.least, tt.most)
			}
		})
	}
}

// TestRetryAfterIsEven shows that refused callers come back evenly over the
// span, and not together, whether neighbours in number or not.
func TestRetryAfterIsEven(t *testing.T) {
	const callers = 32_000
	for _, projected := range []time.Duration{0, 9 * time.Second, 45 * time.Second, time.Hour} {
		counts := retryAfterCounts(t, projected, callers)
		fair := callers / len(counts)
		for s, n := range counts {
			if n < fair*9/10 || n > fair*11/10 {
				t.Errorf("projected %s: %d of %d callers got %d s, want about %d", projected, n, callers, s, fair)
			}
		}
		if len(counts) < 2 {
			t.Errorf("projected %s: all callers got the same value", projected)
		}
	}
}

// TestRetryAfterGrows shows that a longer wait never brings a caller's span
// forward, and that no caller is sent back before the projection.
func TestRetryAfterGrows(t *testing.T) {
	lastLeast, lastMost := 0, 0
	for ms := 0; ms <= 70_000; ms += 700 {
		projected := time.Duration(ms) * time.Millisecond
		least, most := retryAfterRange(retryAfterCounts(t, projected, 300))
		if least < lastLeast || most < lastMost {
			t.Fatalf("projected %s: got %d to %d s, after %d to %d for less", projected, least, most, lastLeast, lastMost)
		}
		if early := time.Duration(least) * time.Second; early < min(projected, 45*time.Second) {
			t.Fatalf("projected %s: a caller may return after %s", projected, early)
		}
		lastLeast, lastMost = least, most
	}
}

// TestRetryAfterDependsOnlyOnSeed shows that the same caller at the same
// projection gets the same value, wherever it was refused.
func TestRetryAfterDependsOnlyOnSeed(t *testing.T) {
	g := newGate(t, admission.Config{})
	offerN(g, 0, 4)
	for caller := range uint64(50) {
		first := g.Offer(at(0), admission.Task{JitterSeed: caller}).RetryAfter
		if again := g.Offer(at(0), admission.Task{JitterSeed: caller}).RetryAfter; again != first {
			t.Fatalf("caller %d got %s, then %s", caller, first, again)
		}
	}
}

// TestRetryAfterSurvivesAbsurdNumbers shows that no overflow turns a wait of
// ages into a quick return.
func TestRetryAfterSurvivesAbsurdNumbers(t *testing.T) {
	for _, assumed := range []time.Duration{time.Hour, 1000 * time.Hour, 1e6 * time.Hour, math.MaxInt64} {
		g := newGate(t, admission.Config{AssumedService: assumed, Policy: admission.None{}, QueueLimit: 1 << 20})
		offerN(g, 0, 10_000)
		for caller := range uint64(100) {
			if r := g.RetryAfter(at(0), caller); r < 45*time.Second || r > 59*time.Second {
				t.Fatalf("assumed %s: got %s, want 45 to 59 s", assumed, r)
			}
		}
	}
}

// projectionPolicy is a policy that shows what the threshold policy projected.
type projectionPolicy struct {
	admission.Threshold
	last *admission.Verdict
}

func (p projectionPolicy) Admit(v admission.View, t admission.Task) admission.Verdict {
	*p.last = p.Threshold.Admit(v, t)
	return *p.last
}

// projection returns the verdict on one more task.
func projection(g *admission.Gate, d time.Duration, task admission.Task) admission.Verdict {
	var last admission.Verdict
	g.SetPolicy(at(d), projectionPolicy{defaultThreshold, &last})
	offer(g, d, task)
	return last
}

// setServiceTime has a gate serve its first task, in d.
func setServiceTime(t *testing.T, g *admission.Gate, d time.Duration) {
	t.Helper()
	if v := offer(g, 0, admission.Task{}); !g.Release(at(d), v.Ticket, admission.Served) {
		t.Fatal("the task for training held no permit")
	}
}

func TestDrainProjection(t *testing.T) {
	tests := []struct {
		name    string
		workers int
		queued  int
		shrink  int // workers afterwards, 0: as before
		want    time.Duration
	}{
		// k departures × 8 s ÷ N, where k brings depth down to 2 N.
		{"one must go, one worker", 1, 3, 0, 8 * time.Second},
		{"one must go, four workers", 4, 9, 0, 2 * time.Second},
		{"three must go, after shrinking by one", 4, 9, 3, 8 * (3 + 1) * time.Second / 3},
		{"seven must go, three of the running too", 4, 9, 1, 8 * (7 + 3) * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate(t, admission.Config{Workers: tt.workers})
			setServiceTime(t, g, 8*time.Second)
			offerN(g, 8*time.Second, tt.workers+tt.queued)
			if tt.shrink > 0 {
				if err := g.Resize(at(8*time.Second), tt.shrink); err != nil {
					t.Fatal(err)
				}
			}
			got := projection(g, 8*time.Second, admission.Task{})
			if got.Reason != admission.ReasonQueueDepth || (got.Wait-tt.want).Abs() > time.Microsecond {
				t.Fatalf("verdict is %q after %s, want queue_depth after %s", got.Reason, got.Wait, tt.want)
			}
		})
	}
}

// TestAgeProjection follows the rule: tasks leave one by one, a mean service
// time apart with one worker, while the others go on ageing.
func TestAgeProjection(t *testing.T) {
	const i, b = admission.Interactive, admission.Batch
	type queued struct {
		class admission.Class
		age   int // seconds
	}
	tests := []struct {
		name  string
		mean  int // seconds
		queue []queued
		want  int // seconds
	}{
		{"the only old one must go", 5, []queued{{i, 30}}, 5},
		{"the next is young enough by then", 5, []queued{{i, 30}, {i, 20}}, 5},
		{"the next has aged too much by then", 6, []queued{{i, 30}, {i, 20}}, 12},
		{"only the third is young enough", 2, []queued{{i, 40}, {i, 30}, {i, 20}}, 4},
		{"all stay too old", 10, []queued{{i, 40}, {i, 30}, {i, 20}}, 30},
		{"others are served in between", 5, []queued{{b, 50}, {i, 30}, {b, 20}, {i, 1}}, 10},
		{"others behind are not waited for", 3, []queued{{i, 30}, {b, 29}, {b, 28}}, 3},
		{"far is far enough", 30, []queued{{i, 59}, {i, 58}, {i, 57}, {i, 56}}, 60},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate(t, admission.Config{Policy: admission.None{}, AssumedService: time.Duration(tt.mean) * time.Second})
			offer(g, 0, admission.Task{})
			for _, q := range tt.queue {
				offer(g, time.Duration(60-q.age)*time.Second, admission.Task{Class: q.class}).wantWaiting(t)
			}
			got := projection(g, time.Minute, admission.Task{})
			want := time.Duration(tt.want) * time.Second
			if got.Reason != admission.ReasonQueueAge || (got.Wait-want).Abs() > time.Microsecond {
				t.Fatalf("verdict is %q after %s, want queue_age after %s", got.Reason, got.Wait, want)
			}
		})
	}
}

// TestRetryAfterOfEachRefusal: wherever a task is refused, its Retry-After
// is projected from the tasks ahead of it then, at 3 s each.
func TestRetryAfterOfEachRefusal(t *testing.T) {
	soon, late := admission.Task{Deadline: at(time.Second)}, time.Second
	tests := []struct {
		name        string
		least, most int // seconds
		refuse      func(*admission.Gate) admission.Refusal
	}{
		{"memory: one must go", 3, 5, func(g *admission.Gate) admission.Refusal {
			g.SetMode(at(0), admission.PassThrough)
			offerN(g, 0, 1+5)
			return offer(g, 0, admission.Task{}).Refusal
		}},
		{"expired: two others wait", 6, 8, func(g *admission.Gate) admission.Refusal {
			offerN(g, 0, 1+1)
			v := offer(g, 0, soon)
			offerN(g, 0, 1)
			return g.Expire(at(late), v.Ticket)
		}},
		{"late at the grant: two others wait", 6, 8, func(g *admission.Gate) admission.Refusal {
			running, v := offer(g, 0, admission.Task{}), offer(g, 0, soon)
			offerN(g, 0, 2)
			g.Release(at(late), running.Ticket, admission.Dropped)
			return v.received[0]
		}},
		{"late at the start: three wait", 9, 12, func(g *admission.Gate) admission.Refusal {
			v := offer(g, 0, soon)
			offerN(g, 0, 3)
			return g.CheckDispatch(at(late), v.Ticket).Refusal
		}},
		{"late on arrival: three wait", 9, 12, func(g *admission.Gate) admission.Refusal {
			offerN(g, 0, 1+3)
			return offer(g, late, soon).Refusal
		}},
		{"drained: the first of three", 9, 12, func(g *admission.Gate) admission.Refusal {
			all := offerN(g, 0, 1+3)
			g.Drain(at(0))
			return all[1].received[0]
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGate(t, admission.Config{QueueLimit: 5, AssumedService: 3 * time.Second})
			got := int(tt.refuse(g).RetryAfter / time.Second)
			if got < tt.least || got > tt.most {
				t.Fatalf("got %d s, want %d to %d", got, tt.least, tt.most)
			}
		})
	}
}
