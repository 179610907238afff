package engine

import (
	"slices"
	"strings"
	"testing"
	"time"
)

// A signal that is missing holds its incident, and after the grace opens one of
// its own: just before it, and just after.
func TestSignalMissing(t *testing.T) {
	s := newScript(t, nil).run(6, warn).run(120, noSignal)
	s.wantEvents("5 opened warn")
	s.run(1, noSignal)
	s.wantEvents("5 opened warn", "126 opened signal_missing warn")
	s.run(1, warn)
	s.run(60, warn)
	s.wantEvents("5 opened warn", "126 opened signal_missing warn", "127 recovering signal_missing warn",
		"187 resolved signal_missing warn recovered")
}

// A value now and then is enough not to be missing.
func TestSignalMissingIntermittently(t *testing.T) {
	s := newScript(t, nil)
	for range 50 {
		s.run(100, noSignal).run(1, low)
	}
	s.wantEvents()
}

// Without traffic a signal is not missing.
func TestIdleIsNotMissing(t *testing.T) {
	newScript(t, nil).run(119, noSignal).run(1000, idle).run(100, noSignal).wantEvents()
}

// All signals of a pool that go missing make one incident, which names them.
func TestSignalsMissingTogether(t *testing.T) {
	var rules []Rule
	for _, name := range []string{"age", "depth", "burn", "late", "stalled"} {
		for _, pool := range []string{"p", "q"} {
			r := ageRule()
			r.Name, r.Pool = name, pool
			rules = append(rules, r)
		}
	}
	s := newScript(t, nil, rules...)
	for range 400 {
		s.step(map[Key]Value{{Rule: "age", Pool: "q"}: low})
	}
	open := s.m.Incidents()
	if len(open) != 2 {
		t.Fatalf("%d incidents, want one for each pool: %+v", len(open), open)
	}
	for _, inc := range open {
		want, names := 5.0, ": age, depth, burn and 2 more"
		if inc.Key.Pool == "q" {
			want, names = 4, ": depth, burn, late and 1 more"
		}
		if inc.Key.Rule != SignalMissing || inc.Value != want || !strings.HasSuffix(inc.Summary, names) {
			t.Errorf("incident %+v, want value %v and a summary that ends in %q", inc, want, names)
		}
	}
}

// Settings may say how bad missing signals are, but not what they are.
func TestSignalMissingOfSettings(t *testing.T) {
	own := Rule{
		Name: SignalMissing, Pool: "p", Signal: "vector(0)", Summary: "blind", Runbook: "blind",
		Page: Threshold{At: 1, For: 10 * time.Second, Set: true}, Clear: Clear{Below: 1},
	}
	s := newScript(t, nil, ageRule(), own)
	for range 140 {
		s.step(map[Key]Value{own.Key(): {V: 0}})
	}
	s.wantEvents("130 opened signal_missing page")
	if inc := s.incident(); inc.Summary != "blind: age" {
		t.Errorf("summary %q", inc.Summary)
	}
}

// With the pool, the rule that watches its signals is gone.
func TestSignalMissingOfRemovedPool(t *testing.T) {
	s := newScript(t, nil).run(130, noSignal)
	s.rules = nil
	s.run(1, noSignal)
	s.wantEvents("120 opened signal_missing warn", "130 resolved signal_missing warn rule_deleted")
}

func TestMissingRuleIsValid(t *testing.T) {
	r := MissingRule("p")
	if err := CheckRules([]Rule{r}); err != nil {
		t.Error(err)
	}
	if slices.Contains([]string{r.Summary, r.Impact, r.Runbook}, "") || r.Page.Set {
		t.Errorf("rule %+v: it says all that people need, and is no page", r)
	}
}
