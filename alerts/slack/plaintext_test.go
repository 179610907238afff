package slack

import (
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"headgate/alerts"
	"headgate/engine"
)

func TestWordingSaysWhatSlackShows(t *testing.T) {
	w, err := NewPlainTextRenderer("https://gate.example")
	if err != nil {
		t.Fatal(err)
	}
	got := w.Render(sampleDelivery(), 2000)
	for _, want := range []string{"PAGE", "Impact: ", "Value: ", "State: ", "(https://gate.example/runbooks/", "Since: 2026-03-01 12:00:00 UTC\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	reply := w.Render(sampleDelivery(atEvent(engine.EventAcked, alerts.Reply, time.Minute), acked), 2000)
	if !strings.Contains(reply, "ann") || strings.Contains(reply, "Impact") {
		t.Errorf("a line of the thread says:\n%s", reply)
	}
	if _, err := NewPlainTextRenderer("ftp://x"); err == nil {
		t.Error("links may lead to ftp")
	}
}

// TestWordingIsPlain: of every message there is, nothing of Slack's markup is left,
// it has no control characters, and it is no longer than was asked.
func TestWordingIsPlain(t *testing.T) {
	leftover := regexp.MustCompile(`<!date|<https?:|<!here|&amp;amp;|\*\*`)
	for _, s := range renderCases() {
		w, err := NewPlainTextRenderer(s.links)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 80, 2000} {
			got := w.Render(s.d, n)
			if strings.Contains(s.d.Notification.Incident.Summary, "<!here>") {
				got = strings.ReplaceAll(got, "<!here>", "") // as somebody wrote it
			}
			if utf8.RuneCountInString(got) > n || got == "" || !utf8.ValidString(got) || strings.ContainsAny(got, "\x00\u202e") || leftover.MatchString(got) {
				t.Errorf("%s, %d: %q", s.name, n, got)
			}
		}
	}
}
