package demo

import (
	"bytes"
	"encoding/json"
	"errors"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func at(s float64) *float64 { return &s }

func atSecond(s int) time.Time { return time.Date(2026, 1, 1, 0, 0, s, 0, time.UTC) }

// secondsSinceTen counts from second 10.
func secondsSinceTen(t time.Time) float64 { return t.Sub(atSecond(10)).Seconds() }

func TestSumUpIncidents(t *testing.T) {
	ended := atSecond(40)
	over := incident{Rule: "a", Ended: &ended, Events: []event{
		{atSecond(15), "opened", "warn"}, {atSecond(20), "escalated", "page"}, {ended, "resolved", "page"},
	}, Deliveries: []deliveryState{{"sent"}, {"dropped"}, {"dead"}}}
	open := incident{Rule: "b", Events: []event{{atSecond(8), "opened", "page"}}, Deliveries: []deliveryState{{"uncertain"}}}
	none := AlertSummary{Rules: []string{}, StillOpen: []string{}, ModeChanges: []string{}}
	for name, c := range map[string]struct {
		all  []incident
		want AlertSummary
	}{
		"none": {nil, none},
		"over": {[]incident{over}, AlertSummary{Opened: 1, Resolved: 1, Rules: []string{"a"}, StillOpen: []string{}, ModeChanges: []string{}, FirstWarn: at(5), FirstPage: at(10), LastResolved: at(30)}},
		"open": {[]incident{open, over}, AlertSummary{Opened: 2, Resolved: 1, Rules: []string{"b", "a"}, StillOpen: []string{"b"}, ModeChanges: []string{}, FirstWarn: at(-2), FirstPage: at(-2), Undelivered: 1}},
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
		"none": {AlertSummary{}, []string{"stayed silent"}, "incident"},
		"people": {AlertSummary{ModeChanges: []string{"rollback by ada in Slack", "restore by ana@ops1"}},
			[]string{"not left alone: rollback by ada in Slack, restore by ana@ops1.", "stayed silent"}, "incident"},
		"one": {AlertSummary{Opened: 1, Resolved: 1, Rules: []string{"queue_age"}, MessageCounts: MessageCounts{1, 1, 1, 0}, FirstWarn: at(54.2), LastResolved: at(300)},
			[]string{"1 incident (queue_age): 1 message, 1 reply in threads, 1 edit, 0 pings", "the first warning after 54 s, the end of the last incident after 300 s"}, "page"},
		"open": {AlertSummary{Opened: 2, Rules: []string{"a", "b"}, StillOpen: []string{"a", "b"}, FirstWarn: at(-30), FirstPage: at(12), Undelivered: 2},
			[]string{"the first warning 30 s before, the first page after 12 s.", "Not over when the demo ended: a, b.", "Of 2 incidents not everything"}, "the end of"},
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
	if text := strings.Join((&AlertSummary{Opened: 1, FirstWarn: at(1)}).notes(false), " "); !strings.Contains(text, "when the load began") {
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
	if got := draw(s, w.plan, 80, 30, false); !strings.Contains(got, "gate: enforce\nincidents open: none  (1 so far)\nSlack: nothing has been said yet\n") {
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

var code = regexp.MustCompile(`code=[A-Z0-9]+`)

func TestIntroWithSlack(t *testing.T) {
	wantEmptyTempDir(t)
	for name, speed := range map[string]float64{"slack": 10, "slack-realtime": 1} {
		o := DefaultOptions().WithSlack()
		o.Speed = speed
		var b bytes.Buffer
		if err := intro(&b, newDemo(t, o), 80); err != nil {
			t.Fatal(err)
		}
		golden(t, "intro-"+name+".txt", code.ReplaceAllString(port.ReplaceAllString(b.String(), "127.0.0.1:PORT"), "code=CODE"))
	}
}
