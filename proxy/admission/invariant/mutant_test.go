package invariant_test

import (
	"strings"
	"testing"
	"time"

	"headgate/proxy/admission"
)

// TestSoundPoolIsNotDisputed: whatever happens to a sound pool, and whatever it
// refuses for, the shadow agrees.
func TestSoundPoolIsNotDisputed(t *testing.T) {
	refused := map[admission.Reason]int{}
	for seed := range uint64(60) {
		s := newStorm(seed, mutant{})
		s.run(5000)
		if len(s.disputed) > 0 {
			t.Fatalf("seed %d: %v", seed, s.disputed)
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

// TestMutantsAreDisputed: each fault that turns work away is found, and said in
// words that name it.
func TestMutantsAreDisputed(t *testing.T) {
	for name, tt := range map[string]struct {
		mutant
		says string
	}{
		"it refuses while idle":         {mutant{policy: moody{}}, "queue_depth: a permit was free"},
		"age at the limit is refused":   {mutant{policy: older{25*time.Second - time.Millisecond}}, "queue_age: policy threshold would have let it in"},
		"depth at the limit is refused": {mutant{policy: shorter{}}, "queue_depth: policy threshold would have let it in"},
		"ages of classes are mixed":     {mutant{policy: mixed{}}, "queue_age: policy threshold would have let it in"},
		"an age is never reset":         {mutant{policy: &stuck{}}, "queue_age: "},
		"a permit leaks":                {mutant{leak: true}, ": a permit was free"},
		"who left stays queued":         {mutant{ghost: true}, ": policy threshold would have let it in"},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(200) {
				s := newStorm(seed, tt.mutant)
				s.run(5000)
				if len(s.disputed) > 0 && strings.Contains(s.disputed[0], tt.says) {
					return
				}
			}
			t.Errorf("nobody said %q", tt.says)
		})
	}
}

// moody now and then refuses whatever the state is.
type moody struct{ admission.Threshold }

func (moody) Admit(v admission.View, t admission.Task) admission.Verdict {
	if v.Now.UnixMilli()%16 == 0 {
		return admission.Verdict{Reason: admission.ReasonQueueDepth}
	}
	return article.Admit(v, t)
}

// older is the article's rule with another limit on age.
type older struct{ limit time.Duration }

func (older) Name() string { return "threshold" }

func (p older) Admit(v admission.View, t admission.Task) admission.Verdict {
	return admission.Threshold{MaxQueueAge: p.limit, DepthMultiple: 2}.Admit(v, t)
}

func (older) Dispatch(v admission.View, t admission.Task) admission.Reason {
	return article.Dispatch(v, t)
}

// shorter takes "at least" for "more than".
type shorter struct{ admission.Threshold }

func (shorter) Admit(v admission.View, t admission.Task) admission.Verdict {
	if v.InFlight >= v.Workers && v.Depth >= 2*v.Workers {
		return admission.Verdict{Reason: admission.ReasonQueueDepth}
	}
	return article.Admit(v, t)
}

// mixed lets old work of one class shut the other one out.
type mixed struct{ admission.Threshold }

func (mixed) Admit(v admission.View, t admission.Task) admission.Verdict {
	if verdict := article.Admit(v, t); verdict.Reason != admission.ReasonNone {
		return verdict
	}
	t.Class = 1 - t.Class
	return article.Admit(v, t)
}

// stuck remembers the greatest age that it has seen, for ever.
type stuck struct {
	admission.Threshold
	age time.Duration
}

func (p *stuck) Admit(v admission.View, t admission.Task) admission.Verdict {
	if p.age = max(p.age, v.Oldest(t.Class)); p.age > article.MaxQueueAge {
		return admission.Verdict{Reason: admission.ReasonQueueAge}
	}
	return article.Admit(v, t)
}
