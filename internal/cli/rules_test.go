package cli

import (
	"bytes"
	"context"
	"strings"
	"testing"

	"headgate/alerts/slack"
	"headgate/internal/config"
)

// TestAlertDeliveryReport: each failure has its hint below it, and text from Slack
// cannot control a terminal.
func TestAlertDeliveryReport(t *testing.T) {
	var out bytes.Buffer
	s := Service{Out: &out, Env: Env{LookupEnv: func(string) (string, bool) { return "", false }}}
	s.TestAlerts = func(ctx context.Context, _ *config.Config) ([]slack.Check, error) {
		if _, bounded := ctx.Deadline(); !bounded {
			t.Error("the test has no time limit")
		}
		return []slack.Check{
			{Name: "token", OK: true, Detail: "headgate in \x1b[2JTeam", Hint: "not shown"},
			{Name: "page: channel", Detail: "the bot is not in #ops", Hint: "write /invite @headgate"},
			{Name: "page: post", Detail: "not_in_channel"},
		}, nil
	}
	err := s.TestAlertDelivery(t.Context(), nil)
	const want = "ok      token          headgate in \uFFFD[2JTeam\n" +
		"FAILED  page: channel  the bot is not in #ops\n" +
		"                       → write /invite @headgate\n" +
		"FAILED  page: post     not_in_channel\n"
	if out.String() != want || ExitCode(err) != ExitFailed || !strings.Contains(err.Error(), "2 of 3 checks failed") {
		t.Errorf("%q, %v", out.String(), err)
	}
}
