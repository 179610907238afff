package app

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"headgate/internal/config"
)

// TestSlackListenerReopens: a listener that ends by itself is opened again, at the
// same address, and metrics tell meanwhile.
func TestSlackListenerReopens(t *testing.T) {
	_, url := newFakeSlack(t)
	r := newFixture(t, func(c *config.Config) {
		useFakeSlack(url)(c)
		c.Slack.SigningSecret, c.Slack.Listen = config.NewSecret("signing"), "127.0.0.1:0"
	})
	address := r.app.SlackAddr()
	answers := func() bool {
		a := r.do(r.request(http.MethodPost, "http://"+address+"/slack/commands", ""))
		return a.status == http.StatusUnauthorized
	}
	listening := func(n string) bool {
		return strings.Contains(r.getAdmin("/metrics").body, "headgate_slack_listening "+n)
	}
	r.eventually("it listens", func() bool { return answers() && listening("1") })
	listener := r.app.interactions.listener.current()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	squat, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	r.eventually("metrics tell", func() bool { return listening("0") })
	r.eventually("it has tried while the address is taken", func() bool { return strings.Count(r.logs.String(), "opening it again") >= 2 })
	if err := squat.Close(); err != nil {
		t.Fatal(err)
	}
	r.client.CloseIdleConnections() // one of before is still served
	r.eventually("it listens again", func() bool { return answers() && listening("1") })
	if got := r.app.SlackAddr(); got != address {
		t.Errorf("at %s, was at %s", got, address)
	}
}
