package slack

import (
	"cmp"
	"context"
	"io"
	"log"
	"math/rand/v2"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"
)

const (
	maxEnvelope = 1 << 20         // bytes read of one message
	ackTimeout  = 3 * time.Second // Slack waits no longer for an answer
)

// socket receives interactions over a connection that it opens itself, and opens again whenever it breaks (Socket
// Mode).
type socket struct {
	interactions *Interactions
	o            InteractionOptions
	api          *slack.Client
	http         *http.Client // of api
	connected    atomic.Bool
}

// newSocket returns a socket that connects in run, and registers a metric of its state.
func newSocket(i *Interactions) (*socket, error) {
	s := &socket{interactions: i, o: i.o}
	var err error
	if s.api, s.http, err = newSocketAPI(s.o.AppToken, s.o.APIURL); err != nil {
		return nil, err
	}
	s.o.MaxBackoff = cmp.Or(s.o.MaxBackoff, 30*time.Second)
	s.o.PingTimeout = cmp.Or(s.o.PingTimeout, 30*time.Second)
	return s, s.o.Registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "headgate_slack_socket_connected", Help: "1 while the Socket Mode connection for buttons and commands is open.",
	}, func() float64 { return oneIf(s.connected.Load()) }))
}

func newSocketAPI(token, apiURL string) (*slack.Client, *http.Client, error) {
	if err := checkToken(token, "xapp-", "the app token must begin with xapp- (bot tokens, xoxb-, are for messages)"); err != nil {
		return nil, nil, err
	}
	u, err := parseAPIURL(apiURL)
	if err != nil {
		return nil, nil, err
	}
	hc := newClient(0, nil)
	return slack.New("", slack.OptionAppLevelToken(token), slack.OptionAPIURL(u.String()), slack.OptionHTTPClient(hc)), hc, nil
}

// run connects, and connects again, until ctx ends. It never gives up: a token that is rejected now may be accepted
// later.
func (s *socket) run(ctx context.Context) {
	defer s.http.CloseIdleConnections()
	delay := time.Second
	for ctx.Err() == nil {
		begin := time.Now()
		s.runConnection(ctx)
		if time.Since(begin) > time.Minute {
			delay = time.Second
		}
		wait := time.NewTimer(delay/2 + rand.N(delay/2+1))
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
		delay = min(2*delay, s.o.MaxBackoff)
	}
}

// runConnection runs one client until it gives up, or would wait longer than MaxBackoff.
func (s *socket) runConnection(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client := socketmode.New(s.api, socketmode.OptionReadLimit(maxEnvelope), socketmode.OptionPingInterval(s.o.PingTimeout),
		socketmode.OptionLog(log.New(io.Discard, "", 0)))
	ended := make(chan error, 1)
	go func() { ended <- client.RunContext(ctx) }()
	for {
		select {
		case e := <-client.Events:
			s.handleEvent(ctx, cancel, client, e)
		case err := <-ended:
			if s.connected.Swap(false) {
				s.o.Log.Info("slack socket closed")
			}
			if ctx.Err() == nil {
				s.o.Log.Warn("slack socket failed, reconnecting", "error", redactedError(err, s.o.AppToken))
			}
			return
		}
	}
}

func (s *socket) handleEvent(ctx context.Context, cancel func(), client *socketmode.Client, e socketmode.Event) {
	switch e.Type {
	case socketmode.EventTypeConnecting:
		if s.connected.Swap(false) {
			s.o.Log.Info("slack socket lost, reconnecting")
		}
	case socketmode.EventTypeHello:
		s.connected.Store(true)
		s.o.Log.Info("slack socket connected")
	case socketmode.EventTypeConnectionError:
		if err, ok := e.Data.(*slack.ConnectionErrorEvent); ok {
			s.o.Log.Warn("slack socket failed", "error", redactedError(err.ErrorObj, s.o.AppToken), "attempt", err.Attempt)
			if err.Backoff > s.o.MaxBackoff {
				cancel()
			}
		}
	case socketmode.EventTypeInteractive:
		s.handleEnvelope(ctx, client, e.Request, parseBlockActions)
	case socketmode.EventTypeSlashCommand:
		s.handleEnvelope(ctx, client, e.Request, parseSlashJSON)
	case socketmode.EventTypeErrorBadMessage:
		s.interactions.reject("invalid", "invalid message on the socket", nil)
	}
}

// handleEnvelope accepts a callback and acknowledges it at once. Without an acknowledgement Slack shows the user an
// error.
func (s *socket) handleEnvelope(
	ctx context.Context, client *socketmode.Client, r *socketmode.Request, parse func([]byte) (callback, error),
) {
	if r == nil {
		return
	}
	c, err := parse(r.Payload)
	if err != nil {
		// It is acknowledged, since a retry would be as invalid.
		s.interactions.reject("invalid", "invalid callback on the socket: "+err.Error(), nil)
	} else {
		if c.dedupKey == "" {
			c.dedupKey = "envelope " + r.EnvelopeID
		}
		if r.RetryAttempt > 0 {
			c.retry = plainText(r.RetryReason, 100)
		}
		if err := s.interactions.enqueue(c); err != nil {
			s.o.Log.Warn("slack callback on the socket not accepted", "error", err)
			return
		}
	}
	ctx, cancel := context.WithTimeout(ctx, ackTimeout)
	defer cancel()
	if err := client.AckCtx(ctx, r.EnvelopeID, nil); err != nil && ctx.Err() == nil {
		s.o.Log.Warn("slack acknowledgement failed", "error", redactedError(err, s.o.AppToken))
	}
}
