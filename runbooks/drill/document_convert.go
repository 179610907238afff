package drill

import (
	"time"

	"headgate/proxy/fault"
)

// mapSlice makes a list of another; nil stays nil.
func mapSlice[A, B any](all []A, to func(A) B) []B {
	if all == nil {
		return nil
	}
	out := make([]B, len(all))
	for i, a := range all {
		out[i] = to(a)
	}
	return out
}

func specDocOf(s Spec) specDoc {
	limit := func(e Expectation) expectationDoc { return expectationDoc(e) }
	d := specDoc{
		ID: s.ID, Name: s.Name, Note: s.Note, Owner: s.Owner, BuiltIn: s.BuiltIn,
		Schedule: s.Schedule, Zone: s.Zone, CatchUp: docDuration(s.CatchUp), Speed: finite(s.Speed),
		Target: s.Target, Pool: s.Pool, Share: finite(s.Share), Marked: s.Marked,
		Scenario: scenarioOf(s.Scenario), Recovery: docDuration(s.Recovery),
		Expect: mapSlice(s.Expect, limit), AbortIf: mapSlice(s.AbortIf, limit),
	}
	if d.Expect == nil {
		d.Expect = []expectationDoc{}
	}
	if d.AbortIf == nil {
		d.AbortIf = []expectationDoc{}
	}
	return d
}

func scenarioOf(s Scenario) scenarioDoc {
	a := s.Arrivals
	return scenarioDoc{
		Duration: docDuration(s.Duration), Workers: s.Workers, Baseline: docDuration(s.Baseline),
		Service: s.Service, Seed: s.Seed,
		Arrivals: arrivalDoc{
			Rate: finite(a.Rate), Rest: finite(a.Rest), LargeShare: finite(a.LargeShare), Stream: a.Stream,
			Bursts: mapSlice(a.Bursts, func(b Burst) burstDoc { return burstDoc{docDuration(b.From), docDuration(b.To), finite(b.Multiple)} }),
		},
		Faults: mapSlice(s.Faults, faultOf), Slack: mapSlice(s.Slack, faultOf),
		Steps: mapSlice(s.Steps, func(s Step) stepDoc { return stepDoc{s.Kind, docDuration(s.At), docDuration(s.For), s.Count} }),
	}
}

func faultOf(i Injection) faultDoc {
	return faultDoc{
		Kind: i.Kind, Share: finite(i.Share), From: docDuration(i.From), For: docDuration(i.For),
		Delay: docDuration(i.Delay), Jitter: docDuration(i.Jitter), Code: i.Code, After: i.AfterBytes,
	}
}

func (d specDoc) spec() Spec {
	limit := func(e expectationDoc) Expectation { return Expectation(e) }
	s := Spec{
		ID: d.ID, Name: d.Name, Note: d.Note, Owner: d.Owner, BuiltIn: d.BuiltIn,
		Schedule: d.Schedule, Zone: d.Zone, CatchUp: time.Duration(d.CatchUp), Speed: d.Speed,
		Target: d.Target, Pool: d.Pool, Share: d.Share, Marked: d.Marked,
		Scenario: d.Scenario.scenario(), Recovery: time.Duration(d.Recovery),
	}
	if len(d.Expect) > 0 {
		s.Expect = mapSlice(d.Expect, limit)
	}
	if len(d.AbortIf) > 0 {
		s.AbortIf = mapSlice(d.AbortIf, limit)
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
			Bursts: mapSlice(a.Bursts, func(b burstDoc) Burst {
				return Burst{From: time.Duration(b.From), To: time.Duration(b.To), Multiple: b.Multiple}
			}),
		},
		Faults: mapSlice(d.Faults, faultDoc.injection), Slack: mapSlice(d.Slack, faultDoc.injection),
		Steps: mapSlice(d.Steps, func(s stepDoc) Step {
			return Step{Kind: s.Kind, At: time.Duration(s.At), For: time.Duration(s.For), Count: s.Count}
		}),
	}
}

func (d faultDoc) injection() Injection {
	return Injection{
		Fault: fault.Fault{
			Kind: d.Kind, Share: d.Share, Delay: time.Duration(d.Delay), Jitter: time.Duration(d.Jitter),
			Code: d.Code, AfterBytes: d.After,
		},
		From: time.Duration(d.From), For: time.Duration(d.For),
	}
}
