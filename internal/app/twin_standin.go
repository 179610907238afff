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

// standInChannel is the one channel of a drill's own Slack.
const standInChannel = "C0DRILLS"

// standIn is how that is named for people.
const standIn = "a stand-in for Slack that is part of the drill"

// twinSlack is where a drill's messages go: to the channel for drills, or to a stand-in
// for Slack.
type twinSlack struct {
	settings  config.Slack
	receiver  *receiver
	faults    *fault.Injector
	way       http.RoundTripper // for the sender
	transport *http.Transport
	slack     *fakeslack.Server // nil: the real one
	site      *site
}

// drillChannel says where messages go.
func drillChannel(s config.Slack) (where string, real bool) {
	if s.BotToken.Empty() || s.Channels.Drills == "" {
		return standIn, false
	}
	return channelName(s.Channels.Drills), true
}

func newTwinSlack(s config.Slack, seed uint64) (*twinSlack, error) {
	d := &twinSlack{receiver: newReceiver()}
	if _, real := drillChannel(s); real {
		d.settings = config.Slack{BotToken: s.BotToken, APIURL: s.APIURL, Channels: config.Channels{Page: s.Channels.Drills}}
	} else if err := d.openStandIn(seed); err != nil {
		return nil, err
	}
	d.transport = &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 5 * time.Second}).DialContext,
		TLSHandshakeTimeout: 5 * time.Second, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute, ForceAttemptHTTP2: true,
	}
	d.faults = fault.New(d.receiver.acceptances(d.transport), seed)
	d.way = d.receiver.attempts(d.faults)
	return d, nil
}

func (d *twinSlack) openStandIn(seed uint64) (err error) {
	token := "xoxb-drill-" + rand.Text()
	d.slack = fakeslack.New(fakeslack.Options{Token: token, Limited: true, Seed: seed})
	d.slack.SetChannel(fakeslack.Channel{ID: standInChannel, Name: "drills", Member: true})
	if d.site, err = openSite(d.slack); err != nil {
		return err
	}
	d.settings = config.Slack{
		BotToken: config.NewSecret(token), APIURL: d.site.url("/api/"), Channels: config.Channels{Page: standInChannel},
	}
	return nil
}

func (d *twinSlack) close(context.Context) error {
	d.transport.CloseIdleConnections()
	if d.slack == nil {
		return nil
	}
	d.slack.Close()
	return d.site.close()
}
