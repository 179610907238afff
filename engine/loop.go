package engine

import (
	"context"
	"fmt"
	"time"
)

// wallJumpThreshold is how far the wall clock may move by itself before it is worth a line
// in the log.
const wallJumpThreshold = 5 * time.Second

// loop is the goroutine that owns the machine, and what it alone knows.
type loop struct {
	e     *Engine
	c     Config
	rules []Rule
	slow  *slowValues
	hung  <-chan map[Key]Value // of an evaluation that has not returned in time
	last  time.Time            // when the step before began; zero: there was none
	drift time.Duration        // of the wall clock from ours
}

func newLoop(e *Engine) *loop {
	return &loop{e: e, c: e.o.Config, rules: e.o.Rules, slow: newSlowValues(e.o.Config.SlowEvery), drift: e.wallClock().Sub(e.o.Clock())}
}

// run ticks until ctx is done. A tick that is missed is missed: there is no
// catching up.
func (l *loop) run(ctx context.Context) {
	defer l.awaitHung()
	start, tick := time.Now(), int64(0)
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case cmd := <-l.e.commands:
			cmd(l, l.e.o.Clock())
			continue
		case <-timer.C:
		}
		l.tick(ctx, start.Add(time.Duration(tick)*l.c.Interval))
		next := int64(time.Since(start)/l.c.Interval) + 1
		l.e.o.Metrics.skipped.Add(float64(next - tick - 1))
		tick = next
		timer.Reset(time.Until(start.Add(time.Duration(tick) * l.c.Interval)))
	}
}

// tick evaluates once, and steps.
func (l *loop) tick(ctx context.Context, due time.Time) {
	begin := time.Now()
	l.checkWallClock()
	values := l.evaluate(ctx, begin)
	if ctx.Err() != nil {
		return // what has not been evaluated is not missing
	}
	took := time.Since(begin)
	l.e.o.Metrics.observeEvaluation(took, begin.Sub(due) > l.c.Interval/2 || took > l.c.Interval)
	var elapsed time.Duration
	if !l.last.IsZero() {
		elapsed = begin.Sub(l.last)
	}
	l.last = begin
	l.commit(l.e.machine.Step(l.e.o.Clock(), elapsed, l.rules, values))
}

// commit passes on what has changed: apply first, record after.
func (l *loop) commit(b Batch) {
	l.e.publish(l.rules)
	if b.Empty() {
		return
	}
	l.log(b)
	l.e.recorder.add(b)
	if l.e.o.OnStep != nil {
		l.e.o.OnStep(b)
	}
}

func (l *loop) log(b Batch) {
	incidents := make(map[string]Incident, len(b.Incidents))
	for _, i := range b.Incidents {
		incidents[i.ID] = i
	}
	for _, ev := range b.Events {
		inc := incidents[ev.Incident]
		l.e.o.Log.Info("incident "+string(ev.Kind), "rule", inc.Key.Rule, "pool", inc.Key.Pool, "level", ev.Level.String(),
			"value", ev.Value, "incident", ev.Incident, "seq", ev.Seq, "muted", ev.Muted)
	}
}

// checkWallClock says when the wall clock has jumped. Nothing else comes of it: times
// of records go on from the start's wall clock by monotonic time.
func (l *loop) checkWallClock() {
	drift := l.e.wallClock().Sub(l.e.o.Clock())
	if jump := drift - l.drift; jump.Abs() > wallJumpThreshold {
		l.e.o.Log.Warn("the wall clock has jumped; times go on as before until the next start", "by", jump, "off_by", drift)
		l.drift = drift
	}
}

// awaitHung waits for an evaluation that is still out, so that nothing runs when
// the loop has ended.
func (l *loop) awaitHung() {
	if l.hung != nil {
		<-l.hung
	}
}

// evaluate asks for the values of the rules that are due. It is bounded in time,
// whatever Signals does, and commands are carried out meanwhile.
func (l *loop) evaluate(ctx context.Context, begin time.Time) map[Key]Value {
	asked, _ := splitRules(l.rules)
	due := l.slow.due(begin, asked)
	if !l.previousReturned() {
		l.e.o.Metrics.failed.Inc()
		return l.slow.merge(begin, asked, due, nil)
	}
	limited, cancel := context.WithTimeout(ctx, l.c.EvalTimeout)
	defer cancel()
	result := make(chan map[Key]Value, 1)
	go func() { result <- l.query(limited, l.e.o.Clock(), due) }()
	for {
		select {
		case values := <-result:
			return l.slow.merge(begin, asked, due, values)
		case cmd := <-l.e.commands:
			cmd(l, l.e.o.Clock())
		case <-limited.Done():
			l.hung = result
			if ctx.Err() == nil {
				l.e.o.Metrics.failed.Inc()
				l.e.o.Log.Warn("an evaluation has not returned in time; its signals are taken as missing", "limit", l.c.EvalTimeout)
			}
			return l.slow.merge(begin, asked, due, nil)
		}
	}
}

// previousReturned says whether the evaluation before has returned: there is one at a time,
// however long it hangs.
func (l *loop) previousReturned() bool {
	if l.hung == nil {
		return true
	}
	select {
	case <-l.hung:
		l.hung = nil
		return true
	default:
		return false
	}
}

func (l *loop) query(ctx context.Context, now time.Time, rules []Rule) (values map[Key]Value) {
	defer func() {
		if v := recover(); v != nil {
			l.e.o.Metrics.failed.Inc()
			l.e.o.Log.Error("an evaluation panicked; its signals are taken as missing", "panic", fmt.Sprint(v))
			values = nil
		}
	}()
	return l.e.o.Signals.Values(ctx, now, rules)
}

// slowValues holds the values of slow rules between their evaluations.
type slowValues struct {
	every  time.Duration
	cached map[Key]slowValue
}

type slowValue struct {
	value  Value
	signal string // that it is of
	next   time.Time
}

func newSlowValues(every time.Duration) *slowValues {
	return &slowValues{every: every, cached: make(map[Key]slowValue)}
}

// due returns the rules to ask for now: those that are not slow, and those whose
// value is old, or of another signal.
func (s *slowValues) due(now time.Time, rules []Rule) []Rule {
	due := make([]Rule, 0, len(rules))
	for _, r := range rules {
		h, ok := s.cached[r.Key()]
		if !r.Slow || !ok || h.signal != r.Signal+"\n"+r.Events || !now.Before(h.next) {
			due = append(due, r)
		}
	}
	return due
}

// merge returns the values of all rules: what was asked for just now, and what is
// held. A slow rule that got no answer is asked again at once.
func (s *slowValues) merge(now time.Time, rules, due []Rule, got map[Key]Value) map[Key]Value {
	asked := make(map[Key]bool, len(due))
	for _, r := range due {
		asked[r.Key()] = true
	}
	all := make(map[Key]Value, len(rules))
	held := make(map[Key]slowValue)
	n := 0
	for _, r := range rules {
		key := r.Key()
		v, ok := got[key]
		if asked[key] && ok {
			all[key] = v
		}
		if !r.Slow {
			continue
		}
		n++
		h, known := s.cached[key]
		switch {
		case asked[key] && ok:
			held[key] = slowValue{value: v, signal: r.Signal + "\n" + r.Events, next: s.next(now, h, known, n, rules)}
		case !asked[key] && known:
			held[key], all[key] = h, h.value
		}
	}
	s.cached = held
	return all
}

// next returns when a slow rule is due again. At first the rules are spread over
// the time between two evaluations, so that they do not all come at once.
func (s *slowValues) next(now time.Time, h slowValue, known bool, n int, rules []Rule) time.Time {
	if known && now.Before(h.next.Add(s.every)) {
		return h.next.Add(s.every)
	}
	return now.Add(s.every * time.Duration(n) / time.Duration(max(1, countSlow(rules))))
}

func countSlow(rules []Rule) int {
	n := 0
	for _, r := range rules {
		if r.Slow {
			n++
		}
	}
	return n
}
