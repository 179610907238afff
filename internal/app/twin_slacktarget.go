package app

import (
	"context"
	"crypto/rand"
	"net"
	"net/http"
	"time"

	"headgate/internal/config"
	"headgate/internal/fakeslack"
	"headgate/proxy/fault"
)

// fakeSlackChannel is the one channel of a drill's own Slack.
const fakeSlackChannel = "C0DRILLS"

// fakeSlackName is how that is named for people.
const fakeSlackName = "a stand-in for Slack that is part of the drill"

// slackTarget is where a drill's messages go: to the channel for drills, or to a stand-in
// for Slack.
type slackTarget struct {
	settings        config.Slack
	recorder        *slackRecorder
	faults          *fault.Injector
	senderTransport http.RoundTripper // for the sender
	transport       *http.Transport
	slack           *fakeslack.Server // nil: the real one
	server          *loopbackServer
}

// messageTarget says where messages go.
func messageTarget(s config.Slack) (where string, real bool) {
	if s.BotToken.Empty() || s.Channels.Drills == "" {
		return fakeSlackName, false
	}
	return channelName(s.Channels.Drills), true
}

func newSlackTarget(s config.Slack, seed uint64) (*slackTarget, error) {
	d := &slackTarget{recorder: newSlackRecorder()}
	if _, real := messageTarget(s); real {
		d.settings = config.Slack{BotToken: s.BotToken, APIURL: s.APIURL, Channels: config.Channels{Page: s.Channels.Drills}}
	} else if err := d.startFakeSlack(seed); err != nil {
		return nil, err
	}
	d.transport = &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
	}
	d.faults = fault.New(d.recorder.wrapAccepted(d.transport), seed)
	d.senderTransport = d.recorder.wrapAttempts(d.faults)
	return d, nil
}

func (d *slackTarget) startFakeSlack(seed uint64) (err error) {
	token := "xoxb-drill-" + rand.Text()
	d.slack = fakeslack.New(fakeslack.Options{Token: token, RateLimited: true, Seed: seed})
	d.slack.SetChannel(fakeslack.Channel{ID: fakeSlackChannel, Name: "drills", Member: true})
	if d.server, err = startLoopbackServer(d.slack); err != nil {
		return err
	}
	d.settings = config.Slack{
		BotToken: config.NewSecret(token), APIURL: d.server.url("/api/"), Channels: config.Channels{Page: fakeSlackChannel},
	}
	return nil
}

func (d *slackTarget) close(context.Context) error {
	d.transport.CloseIdleConnections()
	if d.slack == nil {
		return nil
	}
	d.slack.Close()
	return d.server.close()
}
