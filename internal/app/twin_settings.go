package app

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"headgate/alerts"
	"headgate/engine"
	"headgate/internal/config"
	"headgate/internal/modelstub"
	"headgate/proxy"
	"headgate/runbooks/drill"
)

const loopback = "127.0.0.1:0"

// findPool finds the pool that a drill is about.
func findPool(cfg *config.Config, name string) (config.Pool, error) {
	i := slices.IndexFunc(cfg.Pools, func(p config.Pool) bool { return name == "" || p.Name == name })
	if i < 0 {
		return config.Pool{}, fmt.Errorf("there is no pool %.63q", name)
	}
	return cfg.Pools[i], nil
}

// sandboxConfig are the pool's, except for what would reach out of the twin, and for
// times, which pass as much faster as the scenario does. The upstream's silence is
// no part of a scenario that says nothing of it, so its limit is scaled too.
func sandboxConfig(cfg *config.Config, p config.Pool, r drill.Run, upstream, dir string) *config.Config {
	c := config.Default()
	c.Listen, c.Admin.Listen, c.DataDir, c.Drain = loopback, loopback, dir, 0
	c.Rules.Interval = cfg.Rules.Interval // the rules themselves are handed over
	c.Rollback.Auto = false               // a drill says itself when it rolls back
	p.Upstream, p.UpstreamKey, p.Models, p.Endpoints = upstream, config.Secret{}, []string{"*"}, nil
	p.Mode = "enforce"
	p.Workers = cmp.Or(r.Spec.Scenario.Workers, p.Workers)
	wall := func(d time.Duration) time.Duration { return time.Duration(math.Ceil(float64(d) / r.Speed)) }
	p.SLO.Turnaround, p.Admission.MaxQueueAge = wall(p.SLO.Turnaround), wall(p.Admission.MaxQueueAge)
	p.Timeouts.UpstreamIdle = max(wall(p.Timeouts.UpstreamIdle), time.Second)
	c.Pools = []config.Pool{p}
	return c
}

// serviceBounds are the shortest and the longest time that a call can take; 0 and 0
// if there is no longest.
func serviceBounds(s modelstub.Service) (least, most time.Duration) {
	switch s := s.(type) {
	case modelstub.Fixed:
		return time.Duration(s), time.Duration(s)
	case modelstub.Uniform:
		return s.Low, s.High
	case modelstub.Bimodal:
		return min(s.First.Low, s.Second.Low), max(s.First.High, s.Second.High)
	default:
		return 0, 0
	}
}

// sandboxOverrides makes an App one that stands in for another in a drill.
type sandboxOverrides struct {
	upstream http.RoundTripper
	slack    http.RoundTripper
	rules    []engine.Rule // instead of those of the settings
	speed    float64
}

// withSandboxOverrides sends calls and messages by ways of the drill's own, marks messages, and
// says seconds as the scenario has them.
func withSandboxOverrides(d sandboxOverrides) Option { return func(a *App) { a.sandbox = &d } }

// effectiveRules are the rules of a double, or those that the settings ask for.
func (d *sandboxOverrides) effectiveRules(rules []engine.Rule) []engine.Rule {
	if d == nil {
		return rules
	}
	return d.rules
}

// slackTransport is how calls of Slack go; nil: the usual way.
func (d *sandboxOverrides) slackTransport() http.RoundTripper {
	if d == nil {
		return nil
	}
	return d.slack
}

// setTransports sends the calls of pools the drill's way.
func (d *sandboxOverrides) setTransports(pools []proxy.Pool) {
	if d == nil {
		return
	}
	for i := range pools {
		pools[i].Transport = d.upstream
	}
}

// markDeliveries makes a delivery one of a drill. Values in seconds were measured on the wall
// clock.
func (d *sandboxOverrides) markDeliveries(all []alerts.Delivery) []alerts.Delivery {
	for i := range all {
		n := &all[i].Notification
		n.Drill = true
		if n.Incident.Unit == "s" {
			n.Incident.Value = d.scenarioSeconds(n.Incident.Value)
			n.Incident.Threshold = d.scenarioSeconds(n.Incident.Threshold)
			n.Event.Value = d.scenarioSeconds(n.Event.Value)
		}
	}
	return all
}

// scenarioSeconds has three digits behind the point at most: what a wall clock cannot tell
// is not said.
func (d *sandboxOverrides) scenarioSeconds(v float64) float64 {
	return math.Round(v*d.speed*1000) / 1000
}

// wrapPlan makes a plan one of a drill, if there is a drill.
func (d *sandboxOverrides) wrapPlan(next alerts.PlanFunc) alerts.PlanFunc {
	if d == nil {
		return next
	}
	return func(b engine.Batch, k alerts.TxView) []alerts.Delivery { return d.markDeliveries(next(b, k)) }
}

// channelName is how a drill's channel is named for people.
func channelName(channel string) string { return "channel " + strings.TrimSpace(channel) }
