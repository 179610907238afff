package admission_test

import (
	"strings"
	"testing"
	"time"

	"headgate/proxy/admission"
)

// The driver is worth what it finds. Each mutant below is the gate with one
// fault; a driver that let it pass would let the same fault pass in the gate.

// mutant is a gate with a wrong policy, or one behind a shim.
type mutant struct {
	policy    admission.Policy
	shim      func(subject) subject
	complaint string // part of what the driver must say
}

func mutants() map[string]mutant {
	return map[string]mutant{
		"age at the limit is refused":   {policy: agePolicy{limit: 25*time.Second - 1}, complaint: "offer: answered"},
		"age over the limit comes in":   {policy: agePolicy{limit: 25*time.Second + 1}, complaint: "offer: answered"},
		"depth at the limit is refused": {policy: depthPolicy{}, complaint: "offer: answered"},
		"ages of classes are mixed":     {policy: mixedPolicy{}, complaint: "offer: answered"},
		"late work is dispatched":       {policy: carelessPolicy{}, complaint: "told waiters"},

		"observe acts":                 {shim: func(g subject) subject { return enforcer{g, admission.Observe} }, complaint: "offer: answered"},
		"pass-through acts":            {shim: func(g subject) subject { return enforcer{g, admission.PassThrough} }, complaint: "offer: answered"},
		"a permit leaks":               {shim: func(g subject) subject { return &leaky{subject: g} }, complaint: "release: "},
		"a second release counts":      {shim: func(g subject) subject { return agreeable{g} }, complaint: "release: answered"},
		"there is a permit too many":   {shim: func(g subject) subject { return generous{g} }, complaint: "resize: "},
		"the last in is the first out": {shim: func(g subject) subject { return lifo{g, new([]*swapped)} }, complaint: "told waiters"},
		"a waiter is forgotten":        {shim: func(g subject) subject { return relay{g, 0} }, complaint: "told waiters"},
		"a waiter is told twice":       {shim: func(g subject) subject { return relay{g, 2} }, complaint: "told waiters"},
		"who left stays queued":        {shim: func(g subject) subject { return deaf{g} }, complaint: "leave: "},
		"who is late stays queued":     {shim: func(g subject) subject { return patient{g} }, complaint: "expire: answered"},
		"a drain lets people in":       {shim: func(g subject) subject { return ajar{g} }, complaint: "drain: "},
	}
}

func TestOracleCatchesMutants(t *testing.T) {
	for name, m := range mutants() {
		t.Run(name, func(t *testing.T) {
			err := m.drive()
			if err == nil || !strings.Contains(err.Error(), m.complaint) {
				t.Fatalf("the driver said %v, want something with %q", err, m.complaint)
			}
		})
	}
}

// drive returns the first complaint about the mutant.
func (m mutant) drive() error {
	r := articleRule(25*time.Second, 2)
	if m.policy != nil {
		r.policy = m.policy
	}
	build := genuine
	if m.shim != nil {
		build = func(c admission.Config) subject { return m.shim(genuine(c)) }
	}
	for seed := range uint64(500) {
		if err := newDriver(newDice(seed), []rule{r}, build).run(stepsPerLife); err != nil {
			return err
		}
	}
	return nil
}

// TestOrderIsCheckedByItself shows that the order of grants is checked without
// the oracle's help.
func TestOrderIsCheckedByItself(t *testing.T) {
	d := newDriver(newDice(1), modelRules(), genuine)
	for _, seq := range []int{0, 1, 3} {
		d.grant(&job{seq: seq})
	}
	if d.overtook != "" {
		t.Fatalf("complained about an order that is right: %s", d.overtook)
	}
	d.grant(&job{seq: 2})
	if want := "task 2 got its permit after task 3"; d.overtook != want {
		t.Fatalf("said %q, want %q", d.overtook, want)
	}
}

// agePolicy is the article's rule with another limit on age.
type agePolicy struct{ limit time.Duration }

func (agePolicy) Name() string { return "threshold" }

func (p agePolicy) Admit(v admission.View, t admission.Task) admission.Verdict {
	return admission.Threshold{MaxQueueAge: p.limit, DepthMultiple: 2}.Admit(v, t)
}

func (agePolicy) Dispatch(v admission.View, t admission.Task) admission.Reason {
	return article.Dispatch(v, t)
}

// depthPolicy takes "at least" for "more than".
type depthPolicy struct{ admission.Threshold }

func (depthPolicy) Admit(v admission.View, t admission.Task) admission.Verdict {
	verdict := article.Admit(v, t)
	if verdict.Reason == admission.ReasonNone && v.InFlight >= v.Workers && v.Depth >= 2*v.Workers {
		verdict.Reason = admission.ReasonQueueDepth
	}
	return verdict
}

// mixedPolicy lets old work of one class shut the other one out.
type mixedPolicy struct{ admission.Threshold }

func (mixedPolicy) Admit(v admission.View, t admission.Task) admission.Verdict {
	if verdict := article.Admit(v, t); verdict.Reason != admission.ReasonNone {
		return verdict
	}
	t.Class = 1 - t.Class
	return article.Admit(v, t)
}

// carelessPolicy looks at deadlines at the door only.
type carelessPolicy struct{ admission.Threshold }

func (carelessPolicy) Admit(v admission.View, t admission.Task) admission.Verdict {
	return article.Admit(v, t)
}

func (carelessPolicy) Dispatch(admission.View, admission.Task) admission.Reason {
	return admission.ReasonNone
}
