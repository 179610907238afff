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

// TestVerdictNotification: the verdict is sent to the channel for drills; the owner is mentioned only if the drill failed.
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
	r.app.notifyVerdict(run)
	r.app.notifyVerdict(run) // once more is one message
	run.ID, run.Verdict, run.Reason = otherID, drill.Passed, "all held"
	r.app.notifyVerdict(run)
	r.eventually("both verdicts are sent", func() bool { return len(slack.Messages("C2")) == 2 })
	sent := slack.Messages("C2")
	if !strings.Contains(sent[0].Text, "Drill Burst: FAILED. it broke.") || strings.Join(sent[0].Pings, "") != "<@U0ADA>" {
		t.Errorf("%q pings %v", sent[0].Text, sent[0].Pings)
	}
	if !strings.Contains(sent[1].Text, "Drill Burst: PASSED. all held.") || len(sent[1].Pings) != 0 {
		t.Errorf("%q pings %v", sent[1].Text, sent[1].Pings)
	}
	if others := slack.Messages("C1"); len(others) != 0 {
		t.Errorf("the channel for pages has %v", others)
	}
}
