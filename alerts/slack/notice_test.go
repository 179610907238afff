package slack

import (
	"strings"
	"testing"

	"headgate/alerts"
)

// A notice calls whom it names, and nothing that is no mention gets through.
func TestNoticeCallsWhomItNames(t *testing.T) {
	for by, want := range map[string]string{
		"<@U0ADA>": "<@U0ADA>", "<!subteam^S0OPS>": "<!subteam^S0OPS>", "ops": "", "<http://evil|click>": "", "": "",
	} {
		d := alerts.Routes{Page: "C1"}.NewNotice("id", "drill-1", "default", "Drill Burst: FAILED. a < b", noon)
		d.Notification.Event.By, d.Notification.Ping = by, true
		text := renderer{pageMention: Mention{markup: "<!here>"}}.render(d, alerts.Ref{}, true).text
		if calls, words := strings.CutSuffix(text, "Drill Burst: FAILED. a &lt; b"); !words || strings.TrimSpace(calls) != want {
			t.Errorf("%q says %q, want it to call %q", by, text, want)
		}
		d.Notification.Ping = false
		if text := (renderer{}).render(d, alerts.Ref{}, true).text; strings.Contains(text, "<") {
			t.Errorf("%q calls without a ping: %q", by, text)
		}
	}
}
