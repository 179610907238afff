package app

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"headgate/internal/config"
	"headgate/internal/fakeslack"
	"headgate/runbooks/drill"
)

func TestVerdictText(t *testing.T) {
	r := drill.Run{
		ID: firstID, Name: "Weekly burst", Verdict: drill.Failed, Reason: "permits do not come back",
		Spec:       drill.Spec{Owner: "the night crew"},
		Hypotheses: []drill.Hypothesis{{Expectation: drill.Expectation{Measure: drill.LateShare, Compare: drill.AtMost, Limit: 0.1, Unit: "ratio"}, Measured: true, Value: 0.2, Margin: -1}},
	}
	got := verdictText(r, "")
	for _, want := range []string{
		"Drill Weekly burst: FAILED. permits do not come back. Closest to its limit: late_share <= 10%", "(margin -1.00).",
		"Owner: the night crew.", "headgate drill show " + firstID,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("%q does not say %q", got, want)
		}
	}
	r.Spec.Owner = "<@U0ADA>"
	if got := verdictText(r, "https://gate.example/"); strings.Contains(got, "Owner") || !strings.HasSuffix(got, " https://gate.example/drills/runs/"+firstID) {
		t.Errorf("%q: who is called is not named again, and there is a link", got)
	}
	r.Verdict, r.Reason = drill.Passed, "all 12 hypotheses held; closest: late_share"
	if got := verdictText(r, ""); strings.Contains(got, "margin") {
		t.Errorf("%q says the closest twice", got)
	}
}

// The verdict comes to the channel for drills; the owner of a drill that failed is
// called, of another not.
func TestVerdictNotification(t *testing.T) {
	slack := fakeslack.New(fakeslack.Options{})
	slack.SetChannel(fakeslack.Channel{ID: "C1", Name: "ops", Member: true})
	slack.SetChannel(fakeslack.Channel{ID: "C2", Name: "drills", Member: true})
	server := httptest.NewServer(slack)
	t.Cleanup(server.Close)
	r := newFixture(t, func(c *config.Config) {
		c.Slack.BotToken, c.Slack.APIURL = config.NewSecret("xoxb-1"), server.URL+"/api/"
		c.Slack.Channels = config.Channels{Page: "C1", Drills: "C2"}
	})
	run := drill.Run{ID: firstID, Name: "Burst", Verdict: drill.Failed, Reason: "it broke", Ended: time.Now().UTC(), Spec: drill.Spec{ID: "burst", Owner: "<@U0ADA>"}}
	r.app.drills.runEnded(run)
	r.app.drills.runEnded(run) // told again, it is one message
	run.ID, run.Verdict, run.Reason = otherID, drill.Passed, "all held"
	r.app.drills.runEnded(run)
	r.eventually("both are told", func() bool { return len(slack.Messages("C2")) == 2 })
	told := slack.Messages("C2")
	if !strings.Contains(told[0].Text, "Drill Burst: FAILED. it broke.") || strings.Join(told[0].Pings, "") != "<@U0ADA>" {
		t.Errorf("%q pings %v", told[0].Text, told[0].Pings)
	}
	if !strings.Contains(told[1].Text, "Drill Burst: PASSED. all held.") || len(told[1].Pings) != 0 {
		t.Errorf("%q pings %v", told[1].Text, told[1].Pings)
	}
	if others := slack.Messages("C1"); len(others) != 0 {
		t.Errorf("the channel for pages has %v", others)
	}
}
