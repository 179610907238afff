package engine

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestEngineEvaluationHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, nil).start()
		r.signals.set(ruleKey, page)
		advance(12 * time.Second)
		back := make(chan struct{})
		r.signals.onQuery(func(context.Context) { <-back })
		before := len(r.signals.evaluations())
		advance(5 * time.Minute)
		if n := len(r.signals.evaluations()) - before; n != 1 {
			t.Errorf("%d evaluations were begun behind one that hangs", n)
		}
		all := []string{"1 opened warn", "2 escalated page", "1 opened warn"}
		same(t, "journal", r.journal.events(), all...)
		if got := r.Incidents(); len(got) != 2 || got[1].Key.Rule != SignalMissing {
			t.Errorf("incidents %+v", got)
		}
		if a, err := r.Ack(t.Context(), r.Incidents()[0].ID, "ann", 0); err != nil || !a.Applied {
			t.Errorf("ack: %+v, %v", a, err)
		}
		if got := r.metric("headgate_evaluations_failed_total"); got < 290 {
			t.Errorf("%v failed evaluations counted", got)
		}
		r.signals.onQuery(nil)
		close(back)
		advance(62 * time.Second)
		same(t, "journal", r.journal.events(), append(all, "3 acknowledged page", "2 recovering warn", "3 resolved warn")...)
		r.stop()
	})
}

func TestEngineCommandsDuringEvaluation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, nil).start()
		defer r.stop()
		r.signals.onQuery(func(ctx context.Context) { <-ctx.Done() })
		advance(1500 * time.Millisecond)
		asked := time.Now()
		s, err := r.Silence(t.Context(), Silence{Rule: "age", By: "ann", Until: asked.Add(time.Hour)})
		if err != nil || !s.Applied || !time.Now().Equal(asked) {
			t.Errorf("silence %+v, %v after %s", s, err, time.Since(asked))
		}
	})
}

func TestEngineEvaluationPanics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, nil)
		r.signals.onQuery(func(context.Context) { panic("no such series") })
		r.start()
		defer r.stop()
		advance(121 * time.Second)
		same(t, "journal", r.journal.events(), "1 opened warn")
		if !strings.Contains(r.log.String(), "no such series") {
			t.Error("nothing was logged")
		}
	})
}

func TestEngineSkipsTicks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, func(o *Options) { o.Config.EvalTimeout = time.Minute }).start()
		defer r.stop()
		r.signals.set(ruleKey, warn)
		advance(1500 * time.Millisecond) // evaluated at 0 and 1
		r.signals.onQuery(func(context.Context) { time.Sleep(7200 * time.Millisecond) })
		advance(600 * time.Millisecond) // at 2, until 9.2
		r.signals.onQuery(nil)
		advance(8 * time.Second)
		if n := len(r.signals.evaluations()); n != 4 { // and at 10
			t.Errorf("%d evaluations in ten seconds, want 4", n)
		}
		if got := r.metric("headgate_evaluations_skipped_total"); got != 7 {
			t.Errorf("%v skipped, want 7", got)
		}
		if got := r.metric("headgate_evaluations_late_total"); got != 1 {
			t.Errorf("%v late, want 1", got)
		}
		advance(time.Second)
		same(t, "journal", r.journal.events()) // 1, 2 and 1 intervals are not the 5 s of the rule
		advance(time.Second)
		same(t, "journal", r.journal.events(), "1 opened warn")
	})
}

func TestEngineSlowRules(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		burn, budget := ageRule(), ageRule()
		burn.Name, burn.Slow, budget.Name, budget.Slow = "burn", true, "budget", true
		r := newFixture(t, func(o *Options) { o.Rules = []Rule{ageRule(), burn, budget} })
		r.signals.set(burn.Key(), warn)
		r.signals.set(budget.Key(), low)
		r.start()
		defer r.stop()
		advance(5500 * time.Millisecond)
		same(t, "journal: held for as long as it takes", r.journal.events(), "1 opened warn")
		advance(60 * time.Second)
		at := map[string][]int{}
		for n, line := range r.signals.evaluations() {
			for _, name := range strings.Fields(line) {
				at[name] = append(at[name], n)
			}
		}
		if len(at["age"]) != 66 || !slices.Equal(at["burn"], []int{0, 15, 45}) || !slices.Equal(at["budget"], []int{0, 30, 60}) {
			t.Errorf("asked at %v", at)
		}
	})
}

func TestEngineSlowRuleWithoutAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t, func(o *Options) { o.Rules[0].Slow = true })
		delete(r.signals.values, ruleKey)
		r.start()
		defer r.stop()
		advance(5500 * time.Millisecond)
		if n := len(r.signals.evaluations()); n != 6 || r.signals.evaluations()[5] != "age " {
			t.Errorf("asked %q", r.signals.evaluations())
		}
		r.signals.set(ruleKey, low)
		advance(20 * time.Second)
		if got := r.States()[0].Value; got != low {
			t.Errorf("value %+v", got)
		}
		edited := ageRule()
		edited.Slow, edited.Signal = true, "other"
		if err := r.Reload(t.Context(), []Rule{edited}); err != nil {
			t.Fatal(err)
		}
		r.signals.set(ruleKey, page)
		advance(time.Second)
		if got := r.States()[0].Value; got != page {
			t.Errorf("the value of another signal is held: %+v", got)
		}
	})
}
