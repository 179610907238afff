package app

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headgate/alerts"
	"headgate/engine"
	"headgate/internal/config"
	"headgate/internal/loadgen"
	"headgate/internal/modelstub"
	"headgate/runbooks/drill"
)

func TestSlotsServeInTurn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &endpointSlots{limit: 2}
		var order []int
		took := func(n int, ctx context.Context) {
			go func() {
				if s.acquire(ctx) {
					order = append(order, n)
				}
			}()
			synctest.Wait()
		}
		leaving, leave := context.WithCancel(t.Context())
		took(1, t.Context())
		took(2, t.Context())
		took(3, leaving)
		took(4, t.Context())
		took(5, t.Context())
		leave()
		synctest.Wait()
		s.release()
		synctest.Wait()
		s.resize(-1) // there are two at work, and one slot
		s.release()
		synctest.Wait()
		if len(order) != 3 || order[2] != 4 {
			t.Errorf("served %v, want 1, 2 and 4: one has left, and one has to wait", order)
		}
		s.resize(1)
		synctest.Wait()
		if len(order) != 4 || order[3] != 5 || s.used != 2 {
			t.Errorf("served %v, %d at work", order, s.used)
		}
		s.release()
		s.release()
		if s.used != 0 || len(s.queue) != 0 {
			t.Errorf("%d at work, %d wait, at the end", s.used, len(s.queue))
		}
	})
}

// A slot that comes to somebody who has just left goes to the next one.
func TestSlotReleasedOnCancel(t *testing.T) {
	s := &endpointSlots{limit: 1}
	s.acquire(t.Context())
	turn := make(chan struct{})
	next := make(chan struct{})
	s.queue = []chan struct{}{turn, next}
	s.release() // turn has it, and is about to leave
	s.abandon(turn)
	select {
	case <-next:
	default:
		t.Error("the slot is lost")
	}
	if s.used != 1 {
		t.Errorf("%d at work", s.used)
	}
}

// cannedResponse is a Slack that gives one answer.
type cannedResponse string

func (a cannedResponse) RoundTrip(r *http.Request) (*http.Response, error) {
	if a == "" {
		return nil, errors.New("no connection")
	}
	return &http.Response{StatusCode: 200, Body: io.NopCloser(strings.NewReader(string(a))), Request: r}, nil
}

// callSlackAPI makes a call of Slack's API through a receiver.
func callSlackAPI(t *testing.T, c *slackRecorder, slack cannedResponse, method string, form url.Values) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://slack/api/"+method, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	res, err := c.wrapAttempts(c.wrapAccepted(slack)).RoundTrip(r)
	if err != nil {
		return
	}
	if text, err := io.ReadAll(res.Body); err != nil || string(text) != string(slack) {
		t.Errorf("headgate reads %q, %v", text, err)
	}
	_ = res.Body.Close()
}

func deliveryMetadata(incident, seq, kind string) string {
	return `{"event_type":"headgate_delivery","event_payload":{"incident":"` + incident + `","seq":"` + seq + `","kind":"` + kind + `"}}`
}

// What Slack accepts counts, and nothing else: not what is tried, nor what is
// answered without a ts.
func TestSlackRecorderCountsAccepted(t *testing.T) {
	c := newSlackRecorder()
	post := url.Values{"channel": {"C1"}, "text": {"DRILL · WARNING · tasks wait (pool default): 31 tasks, limit 19 tasks"}, "metadata": {deliveryMetadata("i1", "1", "post")},
		"blocks": {`[{"type":"header","text":{"type":"plain_text","text":"DRILL"}},{"type":"section","fields":[{"text":"Value"}]},{"elements":[{"text":"rule"}]}]`}}
	for _, answer := range []cannedResponse{"", "{}", `{"ok":false,"error":"ratelimited"}`, `{"ok":true}`, "<html>"} {
		callSlackAPI(t, c, answer, "chat.postMessage", post)
	}
	var e drill.Evidence
	if c.addTo(&e); len(e.Messages) != 0 || e.SlackCalls != 5 {
		t.Fatalf("%d tries, accepted %+v", e.SlackCalls, e.Messages)
	}
	first := time.Now()
	callSlackAPI(t, c, `{"ok":true,"channel":"C1","ts":"1.2"}`, "chat.postMessage", post)
	edit := url.Values{"channel": {"C1"}, "ts": {"1.2"}, "text": {"<!here> DRILL · PAGE · tasks wait"}}
	callSlackAPI(t, c, `{"ok":true,"channel":"C1","ts":"1.2"}`, "chat.update", edit)
	reply := func(seq, text string) {
		callSlackAPI(t, c, cannedResponse(`{"ok":true,"channel":"C1","ts":"1.`+seq+`"}`), "chat.postMessage",
			url.Values{"channel": {"C1"}, "thread_ts": {"1.2"}, "text": {text}, "metadata": {deliveryMetadata("i1", seq, "reply")}})
	}
	reply("3", "DRILL · Now a page: 40 tasks, limit 32 tasks")
	reply("4", "DRILL · Acknowledged by me")
	reply("5", "DRILL · Resolved after 2m: the value went back below the limit")
	callSlackAPI(t, c, `{"ok":true}`, "conversations.history", url.Values{"channel": {"C1"}})
	e = drill.Evidence{}
	c.addTo(&e)
	var got []string
	for _, m := range e.Messages {
		got = append(got, m.Incident+" "+m.Kind+" "+m.Level)
	}
	if want := "i1 post warn, i1 edit page, i1 reply page, i1 reply page, i1 reply resolved"; strings.Join(got, ", ") != want {
		t.Errorf("%v, want %s", got, want)
	}
	if m := e.Messages[0]; !m.FirstAttempt.Before(first) || m.Accepted.Before(first) || !strings.Contains(m.Text, "\nValue\nrule") {
		t.Errorf("%+v: it was tried before it was accepted, and has all texts", m)
	}
}

// Who gets what a drill says: the channel for drills if there is one.
func TestSlackTarget(t *testing.T) {
	var s config.Slack
	if where, real := messageTarget(s); real || where != fakeSlackName {
		t.Errorf("%s, %t without Slack", where, real)
	}
	s.BotToken, s.Channels.Page = config.NewSecret("xoxb-1"), "C1"
	if where, real := messageTarget(s); real {
		t.Errorf("%s, though there is no channel for drills", where)
	}
	s.Channels.Drills = "C9"
	d, err := newSlackTarget(s, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close(t.Context())
	if where, real := messageTarget(s); !real || where != "channel C9" || d.slack != nil || d.settings.Channels.Page != "C9" {
		t.Errorf("%s, %t, %+v", where, real, d.settings.Channels)
	}
	if d.settings.Mention.Page != "" {
		t.Error("a drill calls people")
	}
}

// Seconds are said as the scenario has them; other values as they are.
func TestSandboxDeliveriesUseScenarioTime(t *testing.T) {
	d := &sandboxOverrides{speed: 20}
	plan := d.wrapPlan(func(engine.Batch, alerts.TxView) []alerts.Delivery {
		note := func(unit string) alerts.Notification {
			return alerts.Notification{Incident: engine.Incident{Unit: unit, Value: 1.5, Threshold: 1.25}, Event: engine.Event{Value: 1.3}}
		}
		return []alerts.Delivery{{Notification: note("s")}, {Notification: note("tasks")}}
	})
	got := plan(engine.Batch{}, alerts.TxView{})
	if n := got[0].Notification; !n.Drill || n.Incident.Value != 30 || n.Incident.Threshold != 25 || n.Event.Value != 26 {
		t.Errorf("%+v", n)
	}
	if n := got[1].Notification; !n.Drill || n.Incident.Value != 1.5 || n.Incident.Threshold != 1.25 {
		t.Errorf("%+v", n)
	}
	var none *sandboxOverrides
	if none.slackTransport() != nil || none.wrapPlan(nil) != nil {
		t.Error("an App that is itself has ways of its own")
	}
}

func TestSandboxConfig(t *testing.T) {
	cfg := config.Default()
	cfg.Pools[0].UpstreamKey, cfg.Slack.BotToken = config.NewSecret("sk-1"), config.NewSecret("xoxb-1")
	cfg.Pools[0].Mode, cfg.Heartbeat.URL = "observe", config.NewSecret("http://example.org/ping")
	run := overloadedRun()
	run.Speed = 20
	c := sandboxConfig(cfg, cfg.Pools[0], run, "http://127.0.0.1:1/v1", t.TempDir())
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

func TestServiceBounds(t *testing.T) {
	for text, want := range map[string][2]time.Duration{
		"fixed:3s": {3 * time.Second, 3 * time.Second}, "uniform:5s-30s": {5 * time.Second, 30 * time.Second},
		"bimodal:0.7,3s-8s,20s-40s": {3 * time.Second, 40 * time.Second}, "lognormal:10s,0.6": {},
	} {
		s, err := modelstub.ParseService(text)
		if err != nil {
			t.Fatal(err)
		}
		if least, most := serviceBounds(s); least != want[0] || most != want[1] {
			t.Errorf("%s: %v to %v", text, least, most)
		}
	}
}

func TestEndsOfTasks(t *testing.T) {
	for want, r := range map[drill.TaskOutcome]loadgen.Result{
		drill.Served: {Outcome: loadgen.OK}, drill.Refused: {Outcome: loadgen.Refused}, drill.Broken: {Outcome: loadgen.Truncated},
		drill.TimedOut: {Outcome: loadgen.Failed, Cause: loadgen.Timeout}, drill.Errored: {Outcome: loadgen.Failed, Status: 502},
		drill.Unsent: {Outcome: loadgen.Dropped},
	} {
		if got := taskEnd(r); got != want {
			t.Errorf("%s, want %s", got, want)
		}
	}
	if got := taskEnd(loadgen.Result{Outcome: loadgen.Failed, Cause: loadgen.ErrorEvent, Status: 200}); got != drill.Broken {
		t.Errorf("an error in the stream is %s", got)
	}
}

// A generator that is late says so, as of the wall clock.
func TestKeptRate(t *testing.T) {
	l := &generatedLoad{clock: &scenarioClock{speed: 10}}
	for _, tt := range []struct {
		lag    time.Duration
		unsent int
		kept   bool
	}{{9 * maxSendLag, 0, true}, {11 * maxSendLag, 0, false}, {0, 1, false}} {
		lags := make([]time.Duration, 100)
		lags[3], lags[4] = tt.lag, tt.lag
		if kept, note := l.keptRate(lags, tt.unsent); kept != tt.kept || kept != (note == "") {
			t.Errorf("%+v: %t, %q", tt, kept, note)
		}
	}
}

// What a twin has left that was killed goes at the next start; what is no twin's
// stays.
func TestStaleSandboxesRemoved(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"drills/twin-1/headgate.db", "drills/twin-2/samples/wal", "headgate.token"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := removeStaleSandboxes(dir); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 || left[0].Name() != "headgate.token" {
		t.Errorf("left are %v, %v", left, err)
	}
}
