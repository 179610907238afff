package app

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"headgate/engine"
	"headgate/internal/config"
	"headgate/proxy/fault"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/sandbox"
)

// overloadedRun is a short run that the gate has to refuse in.
func overloadedRun() drill.Run {
	return drill.Run{ID: "r1", Name: "test", Speed: 50, Spec: drill.Spec{
		ID: "test", Name: "test", Target: drill.Twin, Recovery: 2 * time.Minute,
		Scenario: drill.Scenario{
			Duration: 200 * time.Second, Baseline: 40 * time.Second, Workers: 4, Service: "uniform:5s-10s", Seed: 1,
			Arrivals: drill.Arrivals{Rate: 0.3, Rest: 0.2, Bursts: []drill.Burst{{From: 20 * time.Second, To: 170 * time.Second, Multiple: 6}}},
		},
	}}
}

// openSandbox opens a twin beside an App that serves, and returns its system as well.
func openSandbox(t *testing.T, r *fixture, run drill.Run) (drill.Environment, *sandboxSystem) {
	t.Helper()
	var system sandboxSystem
	environments := r.app.drillEnvironments()
	environments.Dir = t.TempDir()
	environments.NewSystem = func(s sandbox.SystemSpec) (sandbox.System, error) {
		built, err := r.app.newSandboxSystem(s)
		system, _ = built.(sandboxSystem)
		return built, err
	}
	w, err := environments.Open(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
		defer cancel()
		if err := w.Close(ctx); err != nil {
			t.Errorf("close the twin: %v", err)
		}
		if left, _ := os.ReadDir(environments.Dir); len(left) > 0 {
			t.Errorf("the twin left %v", left)
		}
	})
	return w, &system
}

func observe(t *testing.T, w drill.Environment) drill.Evidence {
	t.Helper()
	e, err := w.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// A twin is loaded, refuses requests, sends alerts, and changes nothing in production.
func TestSandboxEvidence(t *testing.T) {
	r := newFixture(t, nil)
	before := r.getAdmin("/metrics").body
	w, _ := openSandbox(t, r, overloadedRun())
	if took, err := w.Canary(t.Context()); err != nil || took > time.Second {
		t.Fatalf("canary: %v, %v", took, err)
	}
	if e := observe(t, w); e.At != 0 || len(e.Tasks)+len(e.Calls) > 0 || e.Workers != 4 || e.SLO != time.Minute {
		t.Errorf("before the load: %+v", e)
	}
	zero, err := w.Start(t.Context())
	if err != nil || time.Until(zero) <= 0 {
		t.Fatalf("zero is %v away, %v", time.Until(zero), err)
	}
	var e drill.Evidence
	warned := func(m drill.Message) bool { return m.Level == "warn" || m.Level == "page" }
	r.eventually("the scenario is over, and a warning was accepted", func() bool {
		e = observe(t, w)
		return e.At > 210*time.Second && slices.ContainsFunc(e.Messages, warned)
	})
	ends := map[drill.TaskOutcome]int{}
	for _, task := range e.Tasks {
		ends[task.Outcome]++
	}
	if ends[drill.Refused] < 20 || ends[drill.Served] < 60 || ends[drill.Errored]+ends[drill.Broken]+ends[drill.TimedOut]+ends[drill.Unsent] > 0 {
		t.Errorf("ends %v", ends)
	}
	if e.StaleReason != "" || e.MaxQueueAge != 25*time.Second || e.MaxWaiting != 8 || e.ServiceMin != 5*time.Second || e.ServiceMax != 10*time.Second {
		t.Errorf("%+v", e)
	}
	assertCalls(t, e)
	assertMessages(t, e)
	if after := r.getAdmin("/metrics").body; counterLines(before) != counterLines(after) {
		t.Errorf("production moved:\n%s\nwas\n%s", counterLines(after), counterLines(before))
	}
}

func assertCalls(t *testing.T, e drill.Evidence) {
	t.Helper()
	byTask := map[int]drill.Call{}
	for _, c := range e.Calls {
		byTask[c.Task] = c
	}
	matched := 0
	for _, task := range e.Tasks {
		c, called := byTask[task.ID]
		switch {
		case task.Outcome == drill.Refused && called:
			t.Errorf("task %d was refused and reached the endpoint", task.ID)
		case task.Outcome != drill.Served:
		case !called || !c.Reached || !c.Complete || c.Working || c.Status != 200 || c.Finished-c.Arrived < 4*time.Second || c.Arrived < task.Sent:
			t.Errorf("task %+v was served by call %+v", task, c)
		case task.Checksum != 0 && task.Checksum == c.Checksum && task.Bytes == c.Bytes:
			matched++
		}
	}
	if matched < 50 {
		t.Errorf("%d answers were the endpoint's, byte by byte", matched)
	}
}

func assertMessages(t *testing.T, e drill.Evidence) {
	t.Helper()
	levels := map[string]int{}
	for _, m := range e.Messages {
		levels[m.Level]++
		if m.Incident == "" || !strings.Contains(m.Text, "DRILL") || m.Accepted.IsZero() || m.Channel == "" {
			t.Errorf("message %+v", m)
		}
	}
	if len(e.Incidents) == 0 || e.SlackCalls < len(e.Messages) {
		t.Errorf("levels %v, %d incidents, %d tries", levels, len(e.Incidents), e.SlackCalls)
	}
}

// counterLines are those lines of a scrape that tasks, incidents and messages move.
func counterLines(scrape string) string {
	var lines []string
	for line := range strings.Lines(scrape) {
		for _, name := range []string{"headgate_arrivals_total", "headgate_tasks_total", "headgate_refusals_total", "headgate_turnaround_seconds", "headgate_incidents_open", "headgate_deliveries_total", "headgate_mode"} {
			if strings.HasPrefix(line, name) {
				lines = append(lines, line)
			}
		}
	}
	return strings.Join(lines, "")
}

func TestSandboxFaultsAndSteps(t *testing.T) {
	r := newFixture(t, nil)
	run := overloadedRun()
	run.Spec.Scenario.Arrivals.Bursts = nil
	w, system := openSandbox(t, r, run)
	if _, err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	l, err := w.Inject(t.Context(), drill.TargetUpstream, drill.Injection{Fault: fault.Fault{Kind: fault.Hang, Share: 1}}, time.Minute)
	if err != nil {
		t.Fatal(err)
	}
	r.eventually("calls hang", func() bool { return observe(t, w).FaultHits[drill.TargetUpstream] > 2 })
	if err := l.Renew(t.Context(), time.Minute); err != nil {
		t.Error(err)
	}
	c, err := w.Clear(t.Context())
	if err != nil || !c.Confirmed || c.Held != 0 || c.Released == 0 || c.Took > time.Second {
		t.Errorf("cleared %+v, %v", c, err)
	}
	if err := l.Renew(t.Context(), time.Minute); !errors.Is(err, fault.ErrLeaseExpired) {
		t.Errorf("renewed after the clear: %v", err)
	}
	hung := 0
	for _, c := range observe(t, w).Calls {
		if c.Fault == fault.Hang {
			hung++
		}
	}
	if hung < 3 {
		t.Errorf("%d calls are said to have hung", hung)
	}
	for _, s := range []drill.Step{{Kind: drill.StepRollback}, {Kind: drill.StepLockRecord}, {Kind: drill.StepLoseSlots, Count: 3}} {
		undo, err := w.RunStep(t.Context(), s)
		if err != nil {
			t.Fatalf("%s: %v", s.Kind, err)
		}
		if mode := system.Pools()[0].Gate.Snapshot(time.Now()).Mode.String(); (mode == "passthrough") != (s.Kind == drill.StepRollback) {
			t.Errorf("%s: mode %s", s.Kind, mode)
		}
		if err := undo(t.Context()); err != nil {
			t.Errorf("undo %s: %v", s.Kind, err)
		}
	}
	if mode := system.Pools()[0].Gate.Snapshot(time.Now()).Mode.String(); mode != "enforce" {
		t.Errorf("mode %s at the end", mode)
	}
}

func TestSandboxConfig(t *testing.T) {
	cfg := config.Default()
	cfg.Pools[0].UpstreamKey, cfg.Slack.BotToken = config.NewSecret("sk-1"), config.NewSecret("xoxb-1")
	cfg.Pools[0].Mode, cfg.Heartbeat.URL = "observe", config.NewSecret("http://example.org/ping")
	c := sandboxConfig(cfg, cfg.Pools[0], sandbox.SystemSpec{Workers: 4, Speed: 20, UpstreamURL: "http://127.0.0.1:1/v1", Dir: t.TempDir()})
	p := c.Pools[0]
	if p.Workers != 4 || p.Mode != "enforce" || p.SLO.Turnaround != 3*time.Second || p.Admission.MaxQueueAge != 1250*time.Millisecond {
		t.Errorf("%+v", p)
	}
	if !p.UpstreamKey.Empty() || !c.Slack.BotToken.Empty() || !c.Heartbeat.URL.Empty() || c.Rollback.Auto || len(c.Clients) > 0 {
		t.Errorf("a twin reaches out: %+v", c)
	}
	if err := c.Validate(); err != nil {
		t.Error(err)
	}
	if _, err := findPool(cfg, "other"); err == nil {
		t.Error("a pool that is not was found")
	}
}

// scaledPool is a pool as a twin has it at ten times the speed.
func scaledPool(p config.Pool) config.Pool {
	p.Workers = 16
	p.SLO.Turnaround, p.Admission.MaxQueueAge = p.SLO.Turnaround/10, p.Admission.MaxQueueAge/10
	return p
}

func ruleNamed(t *testing.T, all []engine.Rule, name, pool string) engine.Rule {
	t.Helper()
	for _, r := range all {
		if r.Name == name && r.Pool == pool {
			return r
		}
	}
	t.Fatalf("no rule %s of %q", name, pool)
	return engine.Rule{}
}

// The built-in rules come with the settings; what they say in seconds is scaled once,
// and what they say in tasks goes by the twin's workers.
func TestTwinRulesBuiltIn(t *testing.T) {
	cfg := config.Default()
	p := cfg.Pools[0]
	rules, err := twinRules(cfg, scaledPool(p), 10)
	if err != nil {
		t.Fatal(err)
	}
	if r := ruleNamed(t, rules, "queue_age", "default"); r.Page.At != 2.5 || r.Warn.At != 1.5 || r.Page.For != time.Minute {
		t.Errorf("queue_age %+v, %+v", r.Warn, r.Page)
	}
	if r := ruleNamed(t, rules, "queue_depth", "default"); r.Page.At != 32 {
		t.Errorf("queue_depth %+v", r.Page)
	}
	if r := ruleNamed(t, rules, "refused_share", "default"); r.Page.At != 0.25 {
		t.Errorf("refused_share %+v", r.Page)
	}
}

// A file of rules has literal thresholds in seconds, and may name pools that a
// twin does not have.
func TestTwinRulesFromFile(t *testing.T) {
	cfg := config.Default()
	other := cfg.Pools[0]
	other.Name, other.Models = "other", []string{"b"}
	cfg.Pools = append(cfg.Pools, other)
	cfg.Rules.File = filepath.Join(t.TempDir(), "rules.yaml")
	const text = `rules:
  - name: old_tasks
    signal: headgate_queue_oldest_age_seconds{pool="$pool"}
    unit: s
    pools: [default, other]
    warn: {at: 15, for: 30s}
    page: {at: 25, for: 1m}
    clear: {below: 10, for: 30s}
    summary: tasks are old
    runbook: queue_age
  - name: near_slo
    signal: headgate_queue_oldest_age_seconds{pool="$pool"} / $slo
    unit: ratio
    warn: {at: 0.5, for: 30s}
    clear: {below: 0.4, for: 30s}
    summary: tasks are near the limit
    runbook: queue_age
`
	if err := os.WriteFile(cfg.Rules.File, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := cfg.Pools[0]
	rules, err := twinRules(cfg, scaledPool(p), 10)
	if err != nil {
		t.Fatal(err)
	}
	if r := ruleNamed(t, rules, "old_tasks", "default"); r.Warn.At != 1.5 || r.Page.At != 2.5 || r.Clear.Below != 1 {
		t.Errorf("%+v, %+v, %+v", r.Warn, r.Page, r.Clear)
	}
	if r := ruleNamed(t, rules, "near_slo", "default"); r.Warn.At != 0.5 || r.Signal != `headgate_queue_oldest_age_seconds{pool="default"} / 6` {
		t.Errorf("%+v of %s", r.Warn, r.Signal)
	}
	for _, r := range rules {
		if r.Pool == "other" {
			t.Errorf("the twin has rule %s of another pool", r.Name)
		}
	}
	if cfg.Pools[0].Workers != p.Workers {
		t.Error("production's settings were changed")
	}
}

// TestLiveIsAllowedByReload: live drills are allowed and forbidden by a reload.
func TestLiveIsAllowedByReload(t *testing.T) {
	r := newFixture(t, nil)
	run := drill.Run{Speed: 1, Spec: drill.Spec{Target: drill.Live, Share: 0.2}}
	for _, allowed := range []bool{false, true, false} {
		cfg := *r.app.config()
		cfg.AllowLive = allowed
		if err := r.app.Reload(&cfg); err != nil {
			t.Fatal(err)
		}
		w, err := r.app.drillEnvironments().Open(t.Context(), run)
		if (err == nil) != allowed || err != nil && !strings.Contains(err.Error(), "set allow_live: true") {
			t.Errorf("allowed %t: %v", allowed, err)
		}
		if err == nil && w.Close(t.Context()) != nil {
			t.Error("not closed")
		}
	}
}

// TestMarkedTasksDoNotCount: a live drill touches marked tasks, and they count for no SLO.
func TestMarkedTasksDoNotCount(t *testing.T) {
	r := newFixture(t, func(c *config.Config) { c.AllowLive = true })
	close(r.upstream.release)
	r.app.traffic.SetMarkToken("a token")
	w, err := r.app.drillEnvironments().Open(t.Context(), drill.Run{Speed: 1, Spec: drill.Spec{Target: drill.Live, Marked: true}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := w.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	if _, err := w.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	fail := drill.Injection{Fault: fault.Fault{Kind: fault.Status, Code: 503, Share: 1}}
	if _, err := w.Inject(t.Context(), drill.TargetUpstream, fail, fault.MaxTTL); err != nil {
		t.Fatal(err)
	}
	mac := func(key []byte, text string) []byte {
		h := hmac.New(sha256.New, key)
		h.Write([]byte(text))
		return h.Sum(nil)
	}
	at := strconv.FormatInt(time.Now().Unix(), 10)
	req := r.request(http.MethodPost, "http://"+r.app.DataAddr()+chatPath, chatBody)
	req.Header.Set("Headgate-Drill", at+"."+hex.EncodeToString(mac(mac([]byte("a token"), "headgate drill header"), at)))
	if a := r.do(req); a.status != http.StatusServiceUnavailable {
		t.Errorf("status %d, want that of the fault", a.status)
	}
	for pool, c := range r.app.metrics.proxy.SLO() {
		if c.Bad != 0 {
			t.Errorf("%d tasks of a drill count against the SLO of %s", c.Bad, pool)
		}
	}
}
