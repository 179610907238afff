package invariant_test

import (
	"strings"
	"testing"
	"time"

	"headgate/proxy/admission"
)

// TestNoViolationOfCorrectGate: whatever happens to a sound pool, and whatever it
// refuses for, the shadow agrees.
func TestNoViolationOfCorrectGate(t *testing.T) {
	refused := map[admission.Reason]int{}
	for seed := range uint64(60) {
		s := newStorm(seed, mutant{})
		s.run(5000)
		if len(s.violations) > 0 {
			t.Fatalf("seed %d: %v", seed, s.violations)
		}
		for r, n := range s.refused {
			refused[r] += n
		}
	}
	for _, r := range []admission.Reason{admission.ReasonQueueAge, admission.ReasonQueueDepth, admission.ReasonDeadlinePassed, admission.ReasonMemory} {
		if refused[r] == 0 {
			t.Errorf("nobody was refused for %s: %v", r, refused)
		}
	}
}

// TestViolationOfMutants: each fault that turns work away is found, and said in
// words that name it.
func TestViolationOfMutants(t *testing.T) {
	for name, tt := range map[string]struct {
		mutant
		says string
	}{
		"it refuses while idle":         {mutant{policy: randomRefusal{}}, "queue_depth: a permit was free"},
		"age at the limit is refused":   {mutant{policy: wrongAgeLimit{25*time.Second - time.Millisecond}}, "queue_age: policy threshold would have let it in"},
		"depth at the limit is refused": {mutant{policy: wrongDepthLimit{}}, "queue_depth: policy threshold would have let it in"},
		"ages of classes are mixed":     {mutant{policy: mixedClasses{}}, "queue_age: policy threshold would have let it in"},
		"an age is never reset":         {mutant{policy: &stuckAge{}}, "queue_age: "},
		"a permit leaks":                {mutant{leak: true}, ": a permit was free"},
		"who left stays queued":         {mutant{staleQueue: true}, ": policy threshold would have let it in"},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(200) {
				s := newStorm(seed, tt.mutant)
				s.run(5000)
				if len(s.violations) > 0 && strings.Contains(s.violations[0], tt.says) {
					return
				}
			}
			t.Errorf("nobody said %q", tt.says)
		})
	}
}

// randomRefusal now and then refuses whatever the state is.
type randomRefusal struct{ admission.Threshold }

func (randomRefusal) Admit(v admission.View, t admission.Task) admission.Verdict {
	if v.Now.UnixMilli()%16 == 0 {
		return admission.Verdict{Reason: admission.ReasonQueueDepth}
	}
	return defaultThreshold.Admit(v, t)
}

// wrongAgeLimit is the article's rule with another limit on age.
type wrongAgeLimit struct{ limit time.Duration }

func (wrongAgeLimit) Name() string { return "threshold" }

func (p wrongAgeLimit) Admit(v admission.View, t admission.Task) admission.Verdict {
	return admission.Threshold{MaxQueueAge: p.limit, DepthMultiple: 2}.Admit(v, t)
}

func (wrongAgeLimit) Dispatch(v admission.View, t admission.Task) admission.Reason {
	return defaultThreshold.Dispatch(v, t)
}

// wrongDepthLimit takes "at least" for "more than".
type wrongDepthLimit struct{ admission.Threshold }

func (wrongDepthLimit) Admit(v admission.View, t admission.Task) admission.Verdict {
	if v.InFlight >= v.Workers && v.Depth >= 2*v.Workers {
		return admission.Verdict{Reason: admission.ReasonQueueDepth}
	}
	return defaultThreshold.Admit(v, t)
}

// mixedClasses lets old work of one class shut the other one out.
type mixedClasses struct{ admission.Threshold }

func (mixedClasses) Admit(v admission.View, t admission.Task) admission.Verdict {
	if verdict := defaultThreshold.Admit(v, t); verdict.Reason != admission.ReasonNone {
		return verdict
	}
	t.Class = 1 - t.Class
	return defaultThreshold.Admit(v, t)
}

// stuckAge remembers the greatest age that it has seen, for ever.
type stuckAge struct {
	admission.Threshold
	age time.Duration
}

func (p *stuckAge) Admit(v admission.View, t admission.Task) admission.Verdict {
	if p.age = max(p.age, v.OldestAge(t.Class)); p.age > defaultThreshold.MaxQueueAge {
		return admission.Verdict{Reason: admission.ReasonQueueAge}
	}
	return defaultThreshold.Admit(v, t)
}
