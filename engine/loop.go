package engine

import (
	"context"
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
			cmd(l)
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
