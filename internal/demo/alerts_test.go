package demo

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/engine"
	"headgate/internal/fakeslack"
	"headgate/internal/loadgen"
	"headgate/internal/modelstub"
	"headgate/web/api"
)

// overload is a burst that a warning comes of, soon over on the wall clock.
func overload() Options {
	o := DefaultOptions()
	o.Speed, o.Slack, o.Service = 40, true, modelstub.Uniform{Low: 5 * time.Second, High: 15 * time.Second}
	o.Profile.Duration, o.Profile.BaseRate = 2*time.Minute, 1.4
	o.Profile.Bursts = []loadgen.Burst{{From: 20 * time.Second, To: 80 * time.Second, Multiple: 3}}
	return o
}

// A burst opens incidents. Each has one message, which says in the end that the incident
// is resolved, and nothing is left behind. If the machine did not keep the pace, the test
// runs again at half the speed.
func TestSlackFollowsTheBurst(t *testing.T) {
	o := overload()
	for !checkSlackRun(t, o) {
		if o.Speed /= 2; o.Speed < 10 {
			t.Fatal("no pace was slow enough for this machine")
		}
	}
}

func checkSlackRun(t *testing.T, o Options) bool {
	t.Helper()
	wantEmptyTempDir(t)
	d := newDemo(t, o)
	var out buffer
	sum, err := d.Play(t.Context(), d.Plan().Wall(lineEvery), (&lineView{out: &out}).render)
	if err != nil {
		t.Fatal(err)
	}
	checkDemo(t, *sum)
	checkEffect(t, *sum)
	a := sum.Slack
	if a == nil {
		t.Fatal("no summary of alerts")
	}
	threads := checkChannel(t, d.monitor.channel.slack, a)
	if a.Opened == 0 || len(a.StillOpen) > 0 || a.Undelivered > 0 || a.Resolved != a.Opened || a.Messages != a.Opened {
		if !sum.Gated.KeptRate || !sum.Ungated.KeptRate {
			_ = d.Close() // the cleanup of the test reports its error
			return false
		}
		t.Fatalf("%+v, want some incidents, all over, and a message for each", a)
	}
	if a.FirstWarn == nil || a.LastResolved == nil || *a.LastResolved <= *a.FirstWarn {
		t.Errorf("warned at %v and over at %v, want both in this order", a.FirstWarn, a.LastResolved)
	}
	checkEnds(t, threads)
	checkSlackLines(t, out.String())
	page := get(t, d.gated.addresses().Slack+"channel")
	if name := fmt.Sprintf("headgate-demo-at-%gx", o.Speed); !strings.Contains(page, "RESOLVED") || !strings.Contains(page, name) {
		t.Errorf("the page says nothing of it:\n%s", page)
	}
	return true
}

// slackThread is a message with its replies.
type slackThread struct {
	root    fakeslack.Message
	replies []fakeslack.Message
}

// checkChannel: no incident has two messages, and no reply is without one.
func checkChannel(t *testing.T, s *fakeslack.Server, a *AlertSummary) (all []slackThread) {
	t.Helper()
	incidents, replies := map[string]bool{}, 0
	for _, root := range s.Roots(channelID) {
		var m struct {
			Payload struct {
				Incident string `json:"incident"`
			} `json:"event_payload"`
		}
		if err := json.Unmarshal(root.Metadata, &m); err != nil || m.Payload.Incident == "" || incidents[m.Payload.Incident] {
			t.Errorf("message %q is of no incident, or of one that has a message: %s, %v", root.Text, root.Metadata, err)
		}
		incidents[m.Payload.Incident] = true
		all = append(all, slackThread{root, s.Replies(channelID, root.TS)})
		replies += len(all[len(all)-1].replies)
	}
	if len(all) != a.Messages || replies != a.Replies || replies+len(all) != len(s.Messages(channelID)) {
		t.Errorf("%d messages with %d replies among %d, want %d and %d, each reply in a thread",
			len(all), replies, len(s.Messages(channelID)), a.Messages, a.Replies)
	}
	return all
}

// checkEnds: each message says that it is over, and so does its thread, unless
// trouble came and went before Slack took the first message.
func checkEnds(t *testing.T, all []slackThread) {
	t.Helper()
	edited := 0
	for _, one := range all {
		if !strings.HasPrefix(one.root.Text, "RESOLVED") {
			t.Errorf("message %q, want one that says that it is over", one.root.Text)
		}
		edits, n := len(one.root.Versions), len(one.replies)
		if edits == 0 && n == 0 {
			continue
		}
		edited++
		if edits == 0 || n == 0 || !strings.Contains(one.replies[n-1].Text, "Resolved after") {
			t.Errorf("the thread of %q, edited %d times, does not end with its end: %v", one.root.Text, edits, one.replies)
		}
	}
	if edited == 0 {
		t.Error("no message was followed from its beginning to its end")
	}
}

var slackLine = regexp.MustCompile(`^t_s=\d+ +phase=\w+ +slack    mode=\w+ +by="[^"]*" page=(\d+) +warn=(\d+) +opened=\d+ +messages=\d+ +replies=\d+ +edits=\d+ +pings=\d+ +last=".*"$`)

func checkSlackLines(t *testing.T, text string) {
	t.Helper()
	open := false
	var last []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, " slack ") {
			if last = slackLine.FindStringSubmatch(strings.TrimSpace(line)); last == nil {
				t.Fatalf("line %q", line)
			}
			open = open || last[1] != "0" || last[2] != "0"
		}
	}
	if !open || last == nil || last[1] != "0" || last[2] != "0" {
		t.Errorf("want an open incident in some line and none in the last:\n%s", text)
	}
	if !strings.Contains(text, "phase=settling") {
		t.Errorf("incidents were not waited for:\n%s", text)
	}
}

// Without a fault no message is sent, and nothing is waited for.
func TestSlackStaysSilent(t *testing.T) {
	wantEmptyTempDir(t)
	o := shortOptions()
	o.Slack = true
	var out, live bytes.Buffer
	if err := Show(t.Context(), o, Screen{Out: &out, Live: &live, JSON: true}); err != nil {
		t.Fatal(err)
	}
	var s Summary
	if err := json.Unmarshal(out.Bytes(), &s); err != nil {
		t.Fatal(err)
	}
	if s.Slack == nil || s.Slack.Opened != 0 || s.Slack.Messages != 0 || !strings.Contains(strings.Join(s.Notes, " "), "no message was sent") {
		t.Errorf("%+v, %q: want no message", s.Slack, s.Notes)
	}
}

// When stopped with open incidents, the demo reports them and leaves no files.
func TestStoppedWithSlack(t *testing.T) {
	wantEmptyTempDir(t)
	o := overload()
	o.Workers, o.Profile.Bursts = 4, nil // too much from beginning to end
	d := newDemo(t, o)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	sum, err := d.Play(ctx, 20*time.Millisecond, func(s State) error {
		if s.Alerts.Warns+s.Alerts.Pages > 0 {
			stop()
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if sum.Slack == nil || len(sum.Slack.StillOpen) == 0 || sum.Slack.LastResolved != nil {
		t.Errorf("%+v, want an incident that was not over", sum.Slack)
	}
}

// What fails while incidents are waited for ends the demo.
func TestFailureWhileSettling(t *testing.T) {
	wantEmptyTempDir(t)
	o := shortOptions()
	o.Slack = true
	d := newDemo(t, o)
	broken := errors.New("broken")
	_, err := d.Play(t.Context(), time.Millisecond, func(s State) error {
		if d.settling {
			return broken
		}
		return nil
	})
	if !errors.Is(err, broken) {
		t.Errorf("%v, want the watcher's error", err)
	}
}

// checkKeepHelp checks that the help for a demo that keeps running names the channel
// and the command for incidents. The token is not shown, but is where the command looks
// for it.
func checkKeepHelp(t *testing.T, d *Demo) {
	t.Helper()
	var b bytes.Buffer
	if err := (Screen{Live: &b}).printKeepHelp(d); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(d.dir, "enforce")
	for _, want := range []string{d.monitor.channel.URL() + "/", "pages (the link works once): http://" + d.gated.app.AdminAddr() + "/login?code=", "headgate incident list --admin http://" + d.gated.app.AdminAddr() + " --data-dir " + dir} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	file := filepath.Join(dir, "headgate.token")
	token, err := os.ReadFile(file)
	if info, _ := os.Stat(file); err != nil || strings.TrimSpace(string(token)) != d.gated.token || info.Mode().Perm() != 0o600 {
		t.Errorf("token %v, %v; want the one of the admin API, private", info, err)
	}
	if strings.Contains(b.String(), d.gated.token) {
		t.Error("the token is shown")
	}
}

// checkWatched checks that only the gated side is watched, and only with Slack.
func checkWatched(t *testing.T, d *Demo) {
	t.Helper()
	for _, y := range d.sides() {
		want := y == d.gated && d.monitor != nil
		if got := strings.Contains(get(t, y.addresses().Metrics), "headgate_samples_"); got != want {
			t.Errorf("%s is watched: %v, want %v", y.mode, got, want)
		}
		if got := y.addresses().Slack != ""; got != want {
			t.Errorf("%s has a channel: %v, want %v", y.mode, got, want)
		}
	}
}

// fakeAdmin is an admin API that knows two incidents.
func fakeAdmin(t *testing.T, token string) *api.Client {
	t.Helper()
	mux := http.NewServeMux()
	reply := func(path, body string) {
		mux.HandleFunc("GET /api/v1"+path, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer secret" {
				w.WriteHeader(http.StatusUnauthorized)
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, body)
		})
	}
	reply("/incidents", `{"items":[{"id":"b","rule":"second","level":"page"},{"id":"a","rule":"first","level":"warn","ended_at":"2026-01-01T00:00:09Z"}],"next":""}`)
	reply("/incidents/a", `{"id":"a","rule":"first","level":"warn","ended_at":"2026-01-01T00:00:09Z","events":[{"at":"2026-01-01T00:00:02Z","kind":"opened","level":"warn"}],"deliveries":[{"state":"sent"},{"state":"dropped"}]}`)
	reply("/status", `{"pools":[{"name":"default","mode":"passthrough","mode_by":"slack:U0ADA"}]}`)
	reply("/audit", `{"items":[{"kind":"mode","action":"rollback","actor":"slack:U0ADA","via":"slack"},{"kind":"press","action":"rollback","actor":"slack:U0ADA"},{"kind":"mode","action":"start","actor":"settings","via":"settings"}],"next":""}`)
	reply("/incidents/b", `{"id":"b","rule":"second","level":"page","events":[{"at":"2026-01-01T00:00:05Z","kind":"opened","level":"page"}],"deliveries":[{"state":"retry"}]}`)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	c, err := api.NewClient(api.ClientConfig{URL: server.URL, Token: token})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func TestIncidentsOfTheMonitor(t *testing.T) {
	m := alertMonitor{admin: fakeAdmin(t, "secret")}
	all, err := m.incidents(t.Context())
	if err != nil || len(all) != 2 || all[0].ID != "a" || all[1].ID != "b" {
		t.Fatalf("%+v, %v: want the older one first", all, err)
	}
	if undelivered(all[0]) || !undelivered(all[1]) || all[0].Open() || !all[1].Open() || len(all[0].Events) != 1 {
		t.Errorf("%+v", all)
	}
	m.admin = fakeAdmin(t, "wrong")
	if _, err := m.incidents(t.Context()); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("with a wrong token: %v", err)
	}
}

// What cannot be read keeps its value from before, and is not taken for the end of
// all incidents.
func TestAdminUnreachable(t *testing.T) {
	failed := make(chan error, 1)
	c, err := newChannel(Plan{Speed: 1}, failed)
	if err != nil {
		t.Fatal(err)
	}
	m := &alertMonitor{channel: c, admin: fakeAdmin(t, "secret")}
	seen := m.poll(nil)
	if seen.Mode != "passthrough" || seen.By != "slack:U0ADA" || seen.Opened != 2 || seen.Pages != 1 || seen.Warns != 0 {
		t.Errorf("%+v, want one of two open", seen)
	}
	for _, token := range []string{"secret", "wrong"} {
		m.admin = fakeAdmin(t, token)
		ctx, stop := context.WithCancel(t.Context())
		done := m.resolved(ctx)
		select {
		case <-done:
			t.Errorf("token %s: an open incident counts as resolved", token)
		case <-time.After(2 * alertPollInterval):
		}
		stop()
		<-done
	}
	if again := m.poll(seen); *again != *seen {
		t.Errorf("%+v, was %+v", again, seen)
	}
	if none := m.poll(nil); none.Opened != 0 {
		t.Errorf("%+v out of nothing", none)
	}
	if err := m.close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-failed:
		t.Errorf("closing is reported as a failure: %v", err)
	default:
	}
}

func TestOneLine(t *testing.T) {
	for text, want := range map[string]string{
		"":                              "",
		"<!here> PAGE · a\nb  c":        "@here PAGE · a b c",
		"1 &lt; 2 &amp;&amp; 3 &gt; 2":  "1 < 2 && 3 > 2",
		"&amp;lt; stays what it was":    "&lt; stays what it was",
		"Acknowledged by <@U0BEN>":      "Acknowledged by @ben",
		"by <@U0STRANGE>":               "by <@U0STRANGE>",
		"WARNING · many tasks (pool a)": "WARNING · many tasks (pool a)",
	} {
		if got := stripMarkup(text); got != want {
			t.Errorf("oneLine(%q) = %q, want %q", text, got, want)
		}
	}
}

// The tail leaves the workers room, however many they are.
func TestTail(t *testing.T) {
	for _, workers := range []int{1, 4, 16, 1000} {
		p := Plan{Workers: workers, MeanService: 17500 * time.Millisecond}
		if load := tailRate * p.tailService().Seconds() / float64(workers); load > tailLoad+1e-9 || p.tailService() > p.MeanService {
			t.Errorf("%d workers: calls of %v are %.2f of what they can do", workers, p.tailService(), load)
		}
	}
}

func TestWithSlack(t *testing.T) {
	o := DefaultOptions().WithSlack()
	if err := o.Validate(); err != nil || !o.Slack || o.Speed != SlackSpeed || DefaultOptions().Profile.Bursts[0].To != 240*time.Second {
		t.Errorf("%+v, %v", o, err)
	}
	o.Speed = MaxSlackSpeed + 1
	if err := o.Validate(); err == nil || !strings.Contains(err.Error(), fmt.Sprint("speed: must be at most ", MaxSlackSpeed)) {
		t.Errorf("at speed %v: %v", o.Speed, err)
	}
}

func at(s float64) *float64 { return &s }

func atSecond(s int) time.Time { return time.Date(2026, 1, 1, 0, 0, s, 0, time.UTC) }

// secondsSinceTen counts from second 10.
func secondsSinceTen(t time.Time) float64 {
	return t.Sub(time.Date(2026, 1, 1, 0, 0, 10, 0, time.UTC)).Seconds()
}

func TestSumUpIncidents(t *testing.T) {
	ended := atSecond(40)
	over := api.IncidentReport{Incident: api.Incident{Incident: engine.Incident{Key: engine.Key{Rule: "a"}, Ended: ended}}, Events: api.EventsOf([]engine.Event{
		{At: atSecond(15), Level: engine.LevelWarn}, {At: atSecond(20), Level: engine.LevelPage}, {At: ended, Level: engine.LevelPage},
	}), Deliveries: []api.Delivery{{State: "sent"}, {State: "dropped"}, {State: "dead"}}}
	open := api.IncidentReport{Incident: api.Incident{Incident: engine.Incident{Key: engine.Key{Rule: "b"}}}, Events: api.EventsOf([]engine.Event{{At: atSecond(8), Level: engine.LevelPage}}), Deliveries: []api.Delivery{{State: "uncertain"}}}
	none := AlertSummary{Rules: []string{}, StillOpen: []string{}, ModeChanges: []string{}}
	for name, c := range map[string]struct {
		all  []api.IncidentReport
		want AlertSummary
	}{
		"none": {nil, none},
		"over": {[]api.IncidentReport{over}, AlertSummary{Opened: 1, Resolved: 1, Rules: []string{"a"}, StillOpen: []string{}, ModeChanges: []string{}, FirstWarn: at(5), FirstPage: at(10), LastResolved: at(30)}},
		"open": {[]api.IncidentReport{open, over}, AlertSummary{Opened: 2, Resolved: 1, Rules: []string{"b", "a"}, StillOpen: []string{"b"}, ModeChanges: []string{}, FirstWarn: at(-2), FirstPage: at(-2), Undelivered: 1}},
	} {
		if diff := cmp.Diff(c.want, *summarizeIncidents(c.all, secondsSinceTen)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNotesOfAlerting(t *testing.T) {
	for name, c := range map[string]struct {
		a    AlertSummary
		want []string
		not  string
	}{
		"none": {AlertSummary{}, []string{"no message was sent"}, "incident"},
		"people": {AlertSummary{ModeChanges: []string{"rollback by ada in Slack", "restore by ana@ops1"}},
			[]string{"was changed: rollback by ada in Slack, restore by ana@ops1.", "no message was sent"}, "incident"},
		"one": {AlertSummary{Opened: 1, Resolved: 1, Rules: []string{"queue_age"}, MessageCounts: MessageCounts{1, 1, 1, 0}, FirstWarn: at(54.2), LastResolved: at(300)},
			[]string{"1 incident (queue_age): 1 message, 1 reply in threads, 1 edit, 0 pings", "the first warning after 54 s, the end of the last incident after 300 s"}, "page"},
		"open": {AlertSummary{Opened: 2, Rules: []string{"a", "b"}, StillOpen: []string{"a", "b"}, FirstWarn: at(-30), FirstPage: at(12), Undelivered: 2},
			[]string{"the first warning 30 s before, the first page after 12 s.", "Still open when the demo ended: a, b.", "For 2 incidents not all messages"}, "the end of"},
	} {
		text := strings.Join(c.a.notes(true), "\n")
		for _, want := range c.want {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", name, want, text)
			}
		}
		if strings.Contains(text, c.not) {
			t.Errorf("%s: %q in\n%s", name, c.not, text)
		}
	}
	if text := strings.Join((&AlertSummary{Opened: 1, FirstWarn: at(1)}).notes(false), " "); !strings.Contains(text, "the start of the load") {
		t.Errorf("without a burst: %s", text)
	}
}

// alertingState is a state in which a page is open.
func alertingState(w simulation) State {
	s := w.at(sec(225))
	s.Alerts = &AlertState{Mode: "passthrough", By: "slack:U0ADA", Pages: 1, Warns: 2, Opened: 4, MessageCounts: MessageCounts{4, 2, 9, 1},
		LastMessage: "@here Now a page: 51.4 %, limit 25 % · a large share of requests is refused (pool default)"}
	return s
}

func TestFramesWithSlack(t *testing.T) {
	w := newSimulation(t, DefaultOptions())
	s := alertingState(w)
	golden(t, "frame-slack.txt", draw(s, w.plan, 96, 40, false))
	golden(t, "frame-slack-narrow.txt", draw(s, w.plan, 44, 24, true))
	s.Phase, s.Alerts = Settling, &AlertState{Mode: "enforce", By: "settings", Warns: 1, Opened: 1}
	golden(t, "frame-slack-settling.txt", draw(s, w.plan, 80, 30, true))
	s.Alerts.Warns = 0
	if got := draw(s, w.plan, 80, 30, false); !strings.Contains(got, "gate: enforce\nincidents open: none  (1 so far)\nSlack: no message yet\n") {
		t.Errorf("without open incidents:\n%s", got)
	}
	for _, width := range []int{0, 1, 20, 44, 80, 300} {
		for height := range 40 {
			lines := frame(alertingState(w), w.plan, width, height)
			if len(lines) > max(height-1, 0) {
				t.Fatalf("%d×%d: %d lines", width, height, len(lines))
			}
			for _, l := range lines {
				if l.width() > width {
					t.Fatalf("%d×%d: %q is too wide", width, height, l.render(false))
				}
			}
		}
	}
}

func TestPlainLinesWithSlack(t *testing.T) {
	w := newSimulation(t, DefaultOptions())
	var out bytes.Buffer
	if err := (&lineView{out: &out}).render(alertingState(w)); err != nil {
		t.Fatal(err)
	}
	golden(t, "lines-slack.txt", out.String())
}

func slackSummary(t *testing.T) *Summary {
	s := newSimulation(t, DefaultOptions()).summary(sec(500), Complete)
	s.Slack = &AlertSummary{Opened: 2, Resolved: 2, Rules: []string{"queue_depth", "refused_share"}, StillOpen: []string{}, ModeChanges: []string{},
		MessageCounts: MessageCounts{2, 3, 11, 2}, FirstWarn: at(54), FirstPage: at(378), LastResolved: at(825)}
	s.Notes = s.notes()
	return s
}

func TestReportWithSlack(t *testing.T) {
	s := slackSummary(t)
	var b bytes.Buffer
	if err := errors.Join(s.Write(&b, 100, false), outro(&b, s, "", 100)); err != nil {
		t.Fatal(err)
	}
	golden(t, "report-slack.txt", b.String())
}

func TestJSONKeysWithSlack(t *testing.T) {
	var b bytes.Buffer
	if err := slackSummary(t).WriteJSON(&b); err != nil {
		t.Fatal(err)
	}
	var all map[string]any
	if err := json.Unmarshal(b.Bytes(), &all); err != nil {
		t.Fatal(err)
	}
	slack, ok := all["slack"].(map[string]any)
	if !ok {
		t.Fatalf("no slack in %s", b.String())
	}
	golden(t, "keys-slack.txt", strings.Join(paths("", slack), "\n")+"\n")
}

// buttonPresser presses buttons as a user of the page would, one after the other, and
// only once the demo shows what became of the one before.
type buttonPresser struct {
	slack   *fakeslack.Server
	presses sync.WaitGroup
	errs    chan error
	next    int
}

// pressStep is a press when the gate is in a mode.
type pressStep struct{ mode, action, user string }

var pressSteps = []pressStep{
	{"enforce", "headgate_rollback", "U0EVE"}, // may not, so the mode stays
	{"enforce", "headgate_rollback", "U0ADA"},
	{"passthrough", "headgate_restore", "U0BEN"},
}

// done says whether the last press has had its effect.
func (p *buttonPresser) done(mode string) bool { return p.next == len(pressSteps) && mode == "enforce" }

// step makes the next press if it is its turn and its button is there.
func (p *buttonPresser) step(mode string) {
	if p.next == len(pressSteps) || pressSteps[p.next].mode != mode {
		return
	}
	if p.next == 1 && len(p.slack.Ephemerals(channelID, "U0EVE")) == 0 {
		return // has not got an answer yet
	}
	do := pressSteps[p.next]
	for _, m := range p.slack.Roots(channelID) {
		i, err := p.slack.PressInteraction(channelID, m.TS, do.action, do.user)
		if err != nil {
			continue
		}
		p.next++
		p.presses.Go(func() {
			if _, err := p.slack.Deliver(context.Background(), i); err != nil {
				p.errs <- fmt.Errorf("%s by %s: %w", do.action, do.user, err)
			}
		})
		return
	}
}

// The buttons in the channel roll back and restore the gate. The demo shows both,
// also in its summary, and rejects users without permission.
func TestButtonsInTheDemo(t *testing.T) {
	wantEmptyTempDir(t)
	o := overload()
	o.Speed, o.Workers, o.Profile.Bursts = 10, 4, nil // too much from beginning to end
	o.Profile.Duration = 5 * time.Minute
	d := newDemo(t, o)
	p := &buttonPresser{slack: d.monitor.channel.slack, errs: make(chan error, len(pressSteps))}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	var modes []string
	sum, err := d.Play(ctx, 50*time.Millisecond, func(s State) error {
		if n := len(modes); n == 0 || modes[n-1] != s.Alerts.Mode {
			modes = append(modes, s.Alerts.Mode)
		}
		p.step(s.Alerts.Mode)
		if p.done(s.Alerts.Mode) {
			stop()
		}
		return nil
	})
	p.presses.Wait()
	if err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-p.errs:
		t.Error(err)
	default:
	}
	if want := []string{"enforce", "passthrough", "enforce"}; !slices.Equal(modes, want) {
		t.Fatalf("modes %v, want %v; receipts %+v", modes, want, p.slack.Receipts())
	}
	if want := []string{"rollback by ada in Slack", "restore by ben in Slack"}; !slices.Equal(sum.Slack.ModeChanges, want) {
		t.Errorf("the summary has %v, want %v", sum.Slack.ModeChanges, want)
	}
	if notes := strings.Join(sum.Notes, " "); !strings.Contains(notes, "was changed") {
		t.Errorf("nothing is said of it: %s", notes)
	}
	for _, w := range p.slack.Ephemerals(channelID, "U0EVE") {
		if !strings.Contains(w.Text, "headgate rollback") {
			t.Errorf("the user without permission got %q, without the command to type", w.Text)
		}
	}
}
