package drill

import (
	"time"

	"headgate/proxy/fault"
)

// mapped makes a list of another; nil stays nil.
func mapped[A, B any](all []A, to func(A) B) []B {
	if all == nil {
		return nil
	}
	out := make([]B, len(all))
	for i, a := range all {
		out[i] = to(a)
	}
	return out
}

func docOf(s Spec) specDoc {
	limit := func(e Expectation) limitDoc { return limitDoc(e) }
	d := specDoc{
		ID: s.ID, Name: s.Name, Note: s.Note, Owner: s.Owner, BuiltIn: s.BuiltIn,
		Schedule: s.Schedule, Zone: s.Zone, CatchUp: span(s.CatchUp), Speed: finite(s.Speed),
		Target: s.Target, Pool: s.Pool, Share: finite(s.Share), Marked: s.Marked,
		Scenario: scenarioOf(s.Scenario), Recovery: span(s.Recovery),
		Expect: mapped(s.Expect, limit), AbortIf: mapped(s.AbortIf, limit),
	}
	if d.Expect == nil {
		d.Expect = []limitDoc{}
	}
	if d.AbortIf == nil {
		d.AbortIf = []limitDoc{}
	}
	return d
}

func scenarioOf(s Scenario) scenarioDoc {
	a := s.Arrivals
	return scenarioDoc{
		Duration: span(s.Duration), Workers: s.Workers, Baseline: span(s.Baseline),
		Service: s.Service, Seed: s.Seed,
		Arrivals: arrivalDoc{
			Rate: finite(a.Rate), Rest: finite(a.Rest), LargeShare: finite(a.LargeShare), Stream: a.Stream,
			Bursts: mapped(a.Bursts, func(b Burst) burstDoc { return burstDoc{span(b.From), span(b.To), finite(b.Multiple)} }),
		},
		Faults: mapped(s.Faults, faultOf), Slack: mapped(s.Slack, faultOf),
		Steps: mapped(s.Steps, func(s Step) stepDoc { return stepDoc{s.Kind, span(s.At), span(s.For), s.Count} }),
	}
}

func faultOf(i Injection) faultDoc {
	return faultDoc{
		Kind: i.Kind, Share: finite(i.Share), From: span(i.From), For: span(i.For),
		Delay: span(i.Delay), Jitter: span(i.Jitter), Code: i.Code, After: i.After,
	}
}

func (d specDoc) spec() Spec {
	limit := func(e limitDoc) Expectation { return Expectation(e) }
	s := Spec{
		ID: d.ID, Name: d.Name, Note: d.Note, Owner: d.Owner, BuiltIn: d.BuiltIn,
		Schedule: d.Schedule, Zone: d.Zone, CatchUp: time.Duration(d.CatchUp), Speed: d.Speed,
		Target: d.Target, Pool: d.Pool, Share: d.Share, Marked: d.Marked,
		Scenario: d.Scenario.scenario(), Recovery: time.Duration(d.Recovery),
	}
	if len(d.Expect) > 0 {
		s.Expect = mapped(d.Expect, limit)
	}
	if len(d.AbortIf) > 0 {
		s.AbortIf = mapped(d.AbortIf, limit)
	}
	return s
}

func (d scenarioDoc) scenario() Scenario {
	a := d.Arrivals
	return Scenario{
		Duration: time.Duration(d.Duration), Workers: d.Workers, Baseline: time.Duration(d.Baseline),
		Service: d.Service, Seed: d.Seed,
		Arrivals: Arrivals{
			Rate: a.Rate, Rest: a.Rest, LargeShare: a.LargeShare, Stream: a.Stream,
			Bursts: mapped(a.Bursts, func(b burstDoc) Burst {
				return Burst{From: time.Duration(b.From), To: time.Duration(b.To), Multiple: b.Multiple}
			}),
		},
		Faults: mapped(d.Faults, faultDoc.injection), Slack: mapped(d.Slack, faultDoc.injection),
		Steps: mapped(d.Steps, func(s stepDoc) Step {
			return Step{Kind: s.Kind, At: time.Duration(s.At), For: time.Duration(s.For), Count: s.Count}
		}),
	}
}

func (d faultDoc) injection() Injection {
	return Injection{
		Fault: fault.Fault{
			Kind: d.Kind, Share: d.Share, Delay: time.Duration(d.Delay), Jitter: time.Duration(d.Jitter),
			Code: d.Code, After: d.After,
		},
		From: time.Duration(d.From), For: time.Duration(d.For),
	}
}
