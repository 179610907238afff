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

func moment(s int) time.Time { return time.Date(2026, 1, 1, 0, 0, s, 0, time.UTC) }

// sinceTen counts from second 10.
func sinceTen(t time.Time) float64 { return t.Sub(moment(10)).Seconds() }

func TestSumUpIncidents(t *testing.T) {
	ended := moment(40)
	over := incident{Rule: "a", Ended: &ended, Events: []event{
		{moment(15), "opened", "warn"}, {moment(20), "escalated", "page"}, {ended, "resolved", "page"},
	}, Deliveries: []delivery{{"sent"}, {"dropped"}, {"dead"}}}
	open := incident{Rule: "b", Events: []event{{moment(8), "opened", "page"}}, Deliveries: []delivery{{"uncertain"}}}
	none := Alerting{Rules: []string{}, Open: []string{}, Orders: []string{}}
	for name, c := range map[string]struct {
		all  []incident
		want Alerting
	}{
		"none": {nil, none},
		"over": {[]incident{over}, Alerting{Opened: 1, Resolved: 1, Rules: []string{"a"}, Open: []string{}, Orders: []string{}, Warn: at(5), Page: at(10), Over: at(30)}},
		"open": {[]incident{open, over}, Alerting{Opened: 2, Resolved: 1, Rules: []string{"b", "a"}, Open: []string{"b"}, Orders: []string{}, Warn: at(-2), Page: at(-2), Untold: 1}},
	} {
		if diff := cmp.Diff(c.want, *sumUpIncidents(c.all, sinceTen)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestNotesOfAlerting(t *testing.T) {
	for name, c := range map[string]struct {
		a    Alerting
		want []string
		not  string
	}{
		"none": {Alerting{}, []string{"stayed silent"}, "incident"},
		"people": {Alerting{Orders: []string{"rollback by ada in Slack", "restore by ana@ops1"}},
			[]string{"not left alone: rollback by ada in Slack, restore by ana@ops1.", "stayed silent"}, "incident"},
		"one": {Alerting{Opened: 1, Resolved: 1, Rules: []string{"queue_age"}, Traffic: Traffic{1, 1, 1, 0}, Warn: at(54.2), Over: at(300)},
			[]string{"1 incident (queue_age): 1 message, 1 reply in threads, 1 edit, 0 pings", "the first warning after 54 s, the end of the last incident after 300 s"}, "page"},
		"open": {Alerting{Opened: 2, Rules: []string{"a", "b"}, Open: []string{"a", "b"}, Warn: at(-30), Page: at(12), Untold: 2},
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
	if text := strings.Join((&Alerting{Opened: 1, Warn: at(1)}).notes(false), " "); !strings.Contains(text, "when the load began") {
		t.Errorf("without a burst: %s", text)
	}
}

// told is a state in which a page is open.
func told(w world) State {
	s := w.at(sec(225))
	s.Alarms = &Alarms{Mode: "passthrough", By: "slack:U0ADA", Pages: 1, Warns: 2, Opened: 4, Traffic: Traffic{4, 2, 9, 1},
		Last: "@here Now a page: 51.4 %, limit 25 % · a large share of requests is refused (pool default)"}
	return s
}

func TestFramesWithSlack(t *testing.T) {
	w := newWorld(t, DefaultOptions())
	s := told(w)
	golden(t, "frame-slack.txt", draw(s, w.plan, 96, 40, false))
	golden(t, "frame-slack-narrow.txt", draw(s, w.plan, 44, 24, true))
	s.Phase, s.Alarms = Settling, &Alarms{Mode: "enforce", By: "settings", Warns: 1, Opened: 1}
	golden(t, "frame-slack-settling.txt", draw(s, w.plan, 80, 30, true))
	s.Alarms.Warns = 0
	if got := draw(s, w.plan, 80, 30, false); !strings.Contains(got, "gate: enforce\nincidents open: none  (1 so far)\nSlack: nothing has been said yet\n") {
		t.Errorf("without open incidents:\n%s", got)
	}
	for _, width := range []int{0, 1, 20, 44, 80, 300} {
		for height := range 40 {
			lines := frame(told(w), w.plan, width, height)
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
	w := newWorld(t, DefaultOptions())
	var out bytes.Buffer
	if err := (&lines{out: &out}).show(told(w)); err != nil {
		t.Fatal(err)
	}
	golden(t, "lines-slack.txt", out.String())
}

func slackSummary(t *testing.T) *Summary {
	s := newWorld(t, DefaultOptions()).summary(sec(500), Complete)
	s.Slack = &Alerting{Opened: 2, Resolved: 2, Rules: []string{"queue_depth", "refused_share"}, Open: []string{}, Orders: []string{},
		Traffic: Traffic{2, 3, 11, 2}, Warn: at(54), Page: at(378), Over: at(825)}
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
	emptyAfter(t)
	for name, speed := range map[string]float64{"slack": 10, "slack-realtime": 1} {
		o := DefaultOptions().WithSlack()
		o.Speed = speed
		var b bytes.Buffer
		if err := intro(&b, started(t, o), 80); err != nil {
			t.Fatal(err)
		}
		golden(t, "intro-"+name+".txt", code.ReplaceAllString(port.ReplaceAllString(b.String(), "127.0.0.1:PORT"), "code=CODE"))
	}
}
