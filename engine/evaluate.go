package engine

import (
	"context"
	"fmt"
	"time"
)

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
			cmd(l)
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
