package engine

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// wallJumpThreshold is how far the wall clock may deviate from monotonic time without a log line.
const wallJumpThreshold = 5 * time.Second

// loop is the goroutine that owns the machine, with its own state.
type loop struct {
	e     *Engine
	c     Config
	rules []Rule
	slow  *slowValues
	hung  <-chan map[Key]Value // of an evaluation that has not returned in time
	last  time.Time            // start of the previous step; zero: there was none
	drift time.Duration        // of the wall clock from the engine's clock
}

func newLoop(e *Engine) *loop {
	return &loop{
		e: e, c: e.o.Config, rules: e.o.Rules, drift: e.wallClock().Sub(e.o.Clock()),
		slow: &slowValues{every: e.o.Config.SlowEvery},
	}
}

// run ticks until ctx is done. Missed ticks are skipped.
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

// tick evaluates once and steps the machine.
func (l *loop) tick(ctx context.Context, due time.Time) {
	begin := time.Now()
	l.checkWallClock()
	values := l.evaluate(ctx, begin)
	if ctx.Err() != nil {
		return // not evaluated, so not missing
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

// commit publishes a change and queues it for the journal: apply first, record after.
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
		l.e.o.Log.Info("incident "+string(ev.Kind), "rule", inc.Key.Rule, "pool", inc.Key.Pool,
			"level", ev.Level.String(), "value", ev.Value, "incident", ev.Incident, "seq", ev.Seq, "muted", ev.Muted)
	}
}

// checkWallClock logs jumps of the wall clock. They have no other effect: times of records continue from the wall clock
// of the start by monotonic time.
func (l *loop) checkWallClock() {
	drift := l.e.wallClock().Sub(l.e.o.Clock())
	if jump := drift - l.drift; jump.Abs() > wallJumpThreshold {
		l.e.o.Log.Warn("wall clock jumped; recorded times follow it after a restart", "by", jump, "off_by", drift)
		l.drift = drift
	}
}

// awaitHung waits for an evaluation that has not returned, so that nothing runs after the loop.
func (l *loop) awaitHung() {
	if l.hung != nil {
		<-l.hung
	}
}

// evaluate queries the values of the rules that are due. It is bounded in time, whatever Signals does, and commands run
// meanwhile.
func (l *loop) evaluate(ctx context.Context, begin time.Time) map[Key]Value {
	asked, _ := splitRules(l.rules)
	due := l.slow.due(begin, asked)
	if !l.previousReturned() {
		l.e.o.Metrics.failed.Inc()
		return l.slow.merge(begin, asked, nil)
	}
	limited, cancel := context.WithTimeout(ctx, l.c.EvalTimeout)
	defer cancel()
	result := make(chan map[Key]Value, 1)
	go func() { result <- l.query(limited, l.e.o.Clock(), due) }()
	for {
		select {
		case values := <-result:
			return l.slow.merge(begin, asked, values)
		case cmd := <-l.e.commands:
			cmd(l, l.e.o.Clock())
		case <-limited.Done():
			l.hung = result
			if ctx.Err() == nil {
				l.e.o.Metrics.failed.Inc()
				l.e.o.Log.Warn("evaluation timed out, signals taken as missing", "limit", l.c.EvalTimeout)
			}
			return l.slow.merge(begin, asked, nil)
		}
	}
}

// previousReturned says whether the previous evaluation has returned: only one runs at a time.
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
			l.e.o.Log.Error("evaluation panicked, signals taken as missing", "panic", fmt.Sprint(v))
			values = nil
		}
	}()
	return l.e.o.Signals.Values(ctx, now, rules)
}

// slowValues keeps the values of slow rules between their evaluations.
type slowValues struct {
	every time.Duration
	kept  map[Key]slowValue
}

type slowValue struct {
	value  Value
	signal string // and events that it is of
	next   time.Time
}

func (v slowValue) due(now time.Time, r Rule) bool {
	return v.signal != signalID(r) || !now.Before(v.next)
}

// due returns the rules to query now: those that are not slow, and those whose value is old or of another signal.
func (s *slowValues) due(now time.Time, rules []Rule) []Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return r.Slow && !s.kept[r.Key()].due(now, r) })
}

// merge adds to queried values those of slow rules that were not due then. A slow rule without an answer is due again at
// once. At first the rules are spread over the time between two evaluations, to spread the load.
func (s *slowValues) merge(now time.Time, rules []Rule, values map[Key]Value) map[Key]Value {
	all := make(map[Key]Value, len(rules))
	maps.Copy(all, values)
	previous, slow := s.kept, slowRules(rules)
	s.kept = make(map[Key]slowValue, len(slow))
	for n, r := range slow {
		key := r.Key()
		kept := previous[key]
		if !kept.due(now, r) {
			s.kept[key], all[key] = kept, kept.value
			continue
		}
		next := kept.next.Add(s.every)
		if !now.Before(next) {
			next = now.Add(s.every * time.Duration(n+1) / time.Duration(len(slow)))
		}
		if v, answered := all[key]; answered {
			s.kept[key] = slowValue{value: v, signal: signalID(r), next: next}
		}
	}
	return all
}

func slowRules(rules []Rule) []Rule {
	return slices.DeleteFunc(slices.Clone(rules), func(r Rule) bool { return !r.Slow })
}

func signalID(r Rule) string { return r.Signal + "\n" + r.Events }
