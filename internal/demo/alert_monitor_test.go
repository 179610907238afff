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
	"strings"
	"testing"
	"time"

	"headgate/internal/fakeslack"
	"headgate/internal/loadgen"
	"headgate/internal/modelstub"
)

// overload is a burst that a warning comes of, soon over on the wall clock.
func overload() Options {
	o := DefaultOptions()
	o.Speed, o.Slack, o.Service = 40, true, modelstub.Uniform{Low: 5 * time.Second, High: 15 * time.Second}
	o.Profile.Duration, o.Profile.BaseRate = 2*time.Minute, 1.4
	o.Profile.Bursts = []loadgen.Burst{{From: 20 * time.Second, To: 80 * time.Second, Multiple: 3}}
	return o
}

// The whole way: a burst opens incidents, each has one message that says in the
// end that it is over, and nothing is left behind. Tests share machines: when one
// says itself that it did not keep the pace, it gets another chance at half of it.
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
	a := sum.Slack
	if a == nil {
		t.Fatal("nothing is said about Slack")
	}
	threads := checkChannel(t, d.monitor.channel.slack, a)
	if a.Opened == 0 || len(a.StillOpen) > 0 || a.Undelivered > 0 || a.Resolved != a.Opened || a.Messages != a.Opened {
		if !sum.Gated.KeptRate || !sum.Ungated.KeptRate {
			_ = d.Close() // what it says is told at the end of the test
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
		t.Errorf("%d messages with %d replies among %d, want %d and %d: nobody replies to nothing",
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

// With nothing wrong nobody is told, and nothing is waited for.
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
	if s.Slack == nil || s.Slack.Opened != 0 || s.Slack.Messages != 0 || !strings.Contains(strings.Join(s.Notes, " "), "stayed silent") {
		t.Errorf("%+v, %q: want nothing told", s.Slack, s.Notes)
	}
}

// Stopped while incidents are open, the demo says so and leaves nothing.
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

// Kept, the demo says where the channel is and how to ask about incidents; the
// token is not shown, but is where the command looks for it.
func TestKeepWithSlack(t *testing.T) {
	wantEmptyTempDir(t)
	o := shortOptions()
	o.Slack = true
	d := newDemo(t, o)
	var b bytes.Buffer
	if err := (Screen{Live: &b}).printKeepHelp(d); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(d.dir, "enforce")
	for _, want := range []string{d.monitor.channel.pageURL(), "The pages are at http://" + d.gated.app.AdminAddr() + "/login?code=", "headgate incident list --admin http://" + d.gated.app.AdminAddr() + " --data-dir " + dir} {
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

// Only the side with the gate is watched, and only with Slack.
func TestWhoIsWatched(t *testing.T) {
	wantEmptyTempDir(t)
	for _, slack := range []bool{false, true} {
		o := shortOptions()
		o.Slack = slack
		d := newDemo(t, o)
		for _, y := range d.sides() {
			body := get(t, y.addresses().Metrics)
			if got, want := strings.Contains(body, "headgate_samples_"), slack && y == d.gated; got != want {
				t.Errorf("slack %v: %s is watched: %v", slack, y.mode, got)
			}
			if got := y.addresses().Slack != ""; got != (slack && y == d.gated) {
				t.Errorf("slack %v: %s has a channel: %v", slack, y.mode, got)
			}
		}
	}
}

// fakeAdmin is an admin API that knows two incidents.
func fakeAdmin(t *testing.T) *adminClient {
	t.Helper()
	mux := http.NewServeMux()
	reply := func(path, body string) {
		mux.HandleFunc("GET /api/v1"+path, func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Authorization") != "Bearer secret" {
				w.WriteHeader(http.StatusUnauthorized)
			}
			_, _ = io.WriteString(w, body)
		})
	}
	reply("/incidents", `{"items":[{"id":"b","rule":"second","level":"page","ended_at":null},{"id":"a","rule":"first","level":"warn","ended_at":"2026-01-01T00:00:09Z"}],"next":""}`)
	reply("/incidents/a", `{"id":"a","rule":"first","level":"warn","ended_at":"2026-01-01T00:00:09Z","events":[{"at":"2026-01-01T00:00:02Z","kind":"opened","level":"warn"}],"deliveries":[{"state":"sent"},{"state":"dropped"}]}`)
	reply("/status", `{"pools":[{"name":"default","mode":"passthrough","mode_by":"slack:U0ADA"}]}`)
	reply("/audit", `{"items":[{"kind":"mode","action":"rollback","actor":"slack:U0ADA","via":"slack"},{"kind":"press","action":"rollback","actor":"slack:U0ADA"},{"kind":"mode","action":"start","actor":"settings","via":"settings"}],"next":""}`)
	reply("/incidents/b", `{"id":"b","rule":"second","level":"page","ended_at":null,"events":[{"at":"2026-01-01T00:00:05Z","kind":"opened","level":"page"}],"deliveries":[{"state":"retry"}]}`)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	d := newAdminClient(strings.TrimPrefix(server.URL, "http://"), "secret")
	t.Cleanup(d.close)
	return d
}

func TestDesk(t *testing.T) {
	d := fakeAdmin(t)
	all, err := d.incidentDetails(t.Context())
	if err != nil || len(all) != 2 || all[0].ID != "a" || all[1].ID != "b" {
		t.Fatalf("%+v, %v: want the older one first", all, err)
	}
	if all[0].pending() || !all[1].pending() || all[0].Ended == nil || all[1].Ended != nil || len(all[0].Events) != 1 {
		t.Errorf("%+v", all)
	}
	if d.allResolved(t.Context()) {
		t.Error("quiet with an open incident")
	}
	changes, err := d.modeChanges(t.Context())
	if err != nil || len(changes) != 1 || changes[0].Action != "rollback" || changes[0].Actor != "slack:U0ADA" {
		t.Errorf("changes %+v, %v: want what somebody did to the mode", changes, err)
	}
	d.token = "wrong"
	if _, err := d.incidents(t.Context()); err == nil || !strings.Contains(err.Error(), "401") {
		t.Errorf("with a wrong token: %v", err)
	}
	if d.allResolved(t.Context()) {
		t.Error("what cannot be asked is taken for quiet")
	}
}

// What cannot be asked stays as it was seen last.
func TestAlarmsOfADeskThatIsGone(t *testing.T) {
	failed := make(chan error, 1)
	c, err := newChannel(Plan{Speed: 1}, failed)
	if err != nil {
		t.Fatal(err)
	}
	w := &alertMonitor{channel: c, admin: fakeAdmin(t)}
	seen := w.poll(nil)
	if seen.Mode != "passthrough" || seen.By != "slack:U0ADA" || seen.Opened != 2 || seen.Pages != 1 || seen.Warns != 0 {
		t.Errorf("%+v, want one of two open", seen)
	}
	w.admin.token = "wrong"
	if again := w.poll(seen); *again != *seen {
		t.Errorf("%+v, was %+v", again, seen)
	}
	if none := w.poll(nil); none.Opened != 0 {
		t.Errorf("%+v out of nothing", none)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Millisecond)
	defer stop()
	<-w.resolved(ctx) // an open incident is waited for no longer than ctx
	if err := w.close(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-failed:
		t.Errorf("closing is taken for a failure: %v", err)
	default:
	}
}

func TestSiteThatStopsByItself(t *testing.T) {
	failed := make(chan error, 1)
	s, err := newHTTPServer("thing", http.NotFoundHandler(), failed)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newHTTPServer("other", http.NotFoundHandler(), failed)
	if err != nil {
		t.Fatal(err)
	}
	if s.address == other.address {
		t.Errorf("both at %s", s.address)
	}
	for _, site := range []*httpServer{s, other} {
		if err := site.close(); err != nil {
			t.Error(err)
		}
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
