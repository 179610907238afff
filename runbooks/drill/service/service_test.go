package service_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"headgate/engine"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/sandbox"
	"headgate/runbooks/drill/service"
)

const (
	runID   = "01a22a23-49da-7041-b2b9-8a1777e187aa"
	otherID = "01a22a23-49da-7041-b2b9-8a1777e187ab"
)

func TestVerdictText(t *testing.T) {
	r := drill.Run{
		ID: runID, Name: "Weekly burst", Verdict: drill.Failed, Reason: "permits are not returned",
		Spec:       drill.Spec{Owner: "the night crew"},
		Hypotheses: []drill.Hypothesis{{Expectation: drill.Expectation{Measure: drill.LateShare, Compare: drill.AtMost, Limit: 0.1, Unit: "ratio"}, Measured: true, Value: 0.2, Margin: -1}},
	}
	got := service.VerdictText(r, "", false)
	for _, want := range []string{
		"Drill Weekly burst: FAILED. permits are not returned. Closest to its limit: late_share <= 10%", "(margin -1.00).",
		"Owner: the night crew.", "headgate drill show " + runID,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
	r.Spec.Owner = "<@U0ADA>"
	if got := service.VerdictText(r, "https://gate.example/", true); strings.Contains(got, "Owner") || !strings.HasSuffix(got, " https://gate.example/drills/runs/"+runID) {
		t.Errorf("%q: a mentioned owner is not named again, and there is a link", got)
	}
	r.Verdict, r.Reason = drill.Passed, "all 12 hypotheses held; closest: late_share"
	if got := service.VerdictText(r, "", false); strings.Contains(got, "margin") {
		t.Errorf("%q says the closest twice", got)
	}
}

// fakeProduction is a production with one pool.
type fakeProduction struct {
	incidents []engine.Incident
	mode      control.ModeState
	budget    service.Budget
	arrivals  float64
	draining  bool
	traffic   sandbox.Traffic
}

func (p *fakeProduction) production() *service.Production {
	return &service.Production{
		Draining: func() bool { return p.draining }, Traffic: &p.traffic, Arrivals: func() float64 { return p.arrivals },
		Pool: func(s drill.Spec) (string, error) {
			if s.Pool == "gone" {
				return "", errors.New("there is no pool gone")
			}
			return "default", nil
		},
		OpenIncidents: func(context.Context) ([]engine.Incident, error) { return p.incidents, nil },
		Mode:          func(string) (control.ModeState, bool) { return p.mode, true },
		Budget:        func(context.Context, string) (service.Budget, error) { return p.budget, nil },
	}
}

func page(id, pool string, opened time.Time) engine.Incident {
	return engine.Incident{ID: id, Key: engine.Key{Rule: "queue_age", Pool: pool}, Level: engine.LevelPage, Opened: opened}
}

func TestProduction(t *testing.T) {
	began := time.Now().UTC()
	const never = ""
	for _, c := range []struct {
		name         string
		change       func(p *fakeProduction)
		pool         string
		live         bool
		ready, check string // why not; empty: it may
	}{
		{"well", func(*fakeProduction) {}, "", false, never, never},
		{"shutting down", func(p *fakeProduction) { p.draining = true }, "", false, "shutting down", never},
		{"unknown pool", func(*fakeProduction) {}, "gone", false, "no pool gone", never},
		{"warning", func(p *fakeProduction) {
			i := page(otherID, "default", began)
			i.Level = engine.LevelWarn
			p.incidents = append(p.incidents, i)
		}, "", false, never, never},
		{"page", func(p *fakeProduction) {
			p.incidents = append(p.incidents, page(otherID, "default", began.Add(time.Second)))
		}, "", false,
			"a page is open: queue_age of pool default", "a page is open: queue_age of pool default"},
		{"page of its own pool, live", func(p *fakeProduction) {
			p.incidents = append(p.incidents, page(otherID, "default", began.Add(time.Second)))
		}, "", true, "a page is open", never},
		{"page of headgate, live", func(p *fakeProduction) { p.incidents = append(p.incidents, page(otherID, "", began.Add(time.Second))) }, "", true,
			"of headgate itself", "of headgate itself"},
		{"pass-through", func(p *fakeProduction) {
			p.mode = control.ModeState{Mode: admission.PassThrough, Since: began.Add(time.Minute), Actor: "me"}
		}, "", false, "pool default is in pass-through since", never},
		{"pass-through, live", func(p *fakeProduction) {
			p.mode = control.ModeState{Mode: admission.PassThrough, Since: began.Add(time.Minute), Actor: "me"}
		}, "", true, "pass-through", "was changed to passthrough by me"},
		{"few tasks", func(p *fakeProduction) { p.budget = service.Budget{Good: 10, Bad: 80, Objective: 0.95} }, "", false, never, never},
		{"budget just used up", func(p *fakeProduction) { p.budget = service.Budget{Good: 1520, Bad: 80, Objective: 0.95} }, "", false, never, never},
		{"no budget", func(p *fakeProduction) { p.budget = service.Budget{Good: 1520, Bad: 81, Objective: 0.95} }, "", false,
			"81 of 1601 tasks were bad, of at most 5 in 100", never},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fakeProduction{}
			c.change(f)
			run := drill.Run{ID: runID, Started: began, Spec: drill.Spec{Pool: c.pool, Target: drill.Twin}}
			if c.live {
				run.Spec.Target = drill.Live
			}
			p := f.production()
			for i, want := range []string{c.ready, c.check} {
				err := [](func(context.Context, drill.Run) error){p.Ready, p.Check}[i](t.Context(), run)
				var stop *drill.StopError
				switch {
				case want == never:
					if err != nil {
						t.Errorf("%d: %v", i, err)
					}
				case !errors.As(err, &stop) || !strings.Contains(stop.Reason, want):
					t.Errorf("%d: %v, want %q", i, err, want)
				}
			}
		})
	}
}

// TestDryRunKeepsBaseline: asking whether a drill could run does not change what the drill in progress is compared with.
func TestDryRunKeepsBaseline(t *testing.T) {
	f := &fakeProduction{}
	p := f.production()
	run := drill.Run{ID: runID}
	if err := errors.Join(p.Ready(t.Context(), run), p.Ready(t.Context(), drill.Run{})); err != nil {
		t.Fatal(err)
	}
	f.arrivals = 3
	if drift, err := p.Drift(t.Context(), run); err != nil || !drift.Measured || drift.Value != 3 {
		t.Errorf("%+v, %v; want the 3 arrivals that did not come", drift, err)
	}
}
