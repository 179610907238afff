package slack

import (
	"context"
	"errors"
	"io"
	"log"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slack-go/slack"
	"github.com/slack-go/slack/socketmode"
)

// SocketOptions are those of a Socket.
type SocketOptions struct {
	AppToken   string // xapp-…; it is shown nowhere
	APIURL     string // ends in a slash; empty: Slack's
	Handler    *InteractionHandler
	Registerer prometheus.Registerer
	Log        *slog.Logger

	MaxBackoff  time.Duration // between two attempts to connect; 0: 30 s
	PingTimeout time.Duration // a connection is dead after so long without a ping; 0: 30 s
}

// Socket takes presses and commands over a connection that it opens itself, and
// opens again whenever it breaks (Socket Mode).
type Socket struct {
	o         SocketOptions
	api       *slack.Client
	http      *http.Client // of api
	connected atomic.Bool
}

// maxEnvelope bounds what is read of one message, in bytes.
const maxEnvelope = 1 << 20

// NewSocket returns a Socket that connects in Run.
func NewSocket(o SocketOptions) (*Socket, error) {
	if o.Handler == nil || o.Registerer == nil || o.Log == nil {
		return nil, errors.New("a socket needs a reception, a log and metrics")
	}
	api, hc, err := newSocketAPI(o.AppToken, o.APIURL)
	if err != nil {
		return nil, err
	}
	if o.MaxBackoff <= 0 {
		o.MaxBackoff = 30 * time.Second
	}
	if o.PingTimeout <= 0 {
		o.PingTimeout = 30 * time.Second
	}
	s := &Socket{o: o, api: api, http: hc}
	return s, o.Registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "headgate_slack_socket_connected", Help: "1 while the connection for buttons and commands (Socket Mode) stands.",
	}, func() float64 {
		if s.Connected() {
			return 1
		}
		return 0
	}))
}

func newSocketAPI(token, apiURL string) (*slack.Client, *http.Client, error) {
	if !strings.HasPrefix(token, "xapp-") || strings.ContainsAny(token, " \r\n\t") {
		return nil, nil, errors.New("the app token must begin with xapp- (bot tokens, xoxb-, are for messages)")
	}
	if apiURL == "" {
		apiURL = slack.APIURL
	}
	if !strings.HasSuffix(apiURL, "/") {
		return nil, nil, errors.New("the API's address must end in a slash")
	}
	hc := newClient(10*time.Second, nil)
	return slack.New("", slack.OptionAppLevelToken(token), slack.OptionAPIURL(apiURL), slack.OptionHTTPClient(hc)), hc, nil
}

// Connected says whether the connection stands.
func (s *Socket) Connected() bool { return s.connected.Load() }

// Run connects, and connects again, until ctx ends. It never gives up: a token
// that is refused now may be mended at Slack's end.
func (s *Socket) Run(ctx context.Context) {
	defer s.http.CloseIdleConnections()
	pause := time.Second
	for ctx.Err() == nil {
		begin := time.Now()
		s.runConnection(ctx)
		if time.Since(begin) > time.Minute {
			pause = time.Second
		}
		wait := time.NewTimer(pause/2 + rand.N(pause/2+1))
		select {
		case <-ctx.Done():
		case <-wait.C:
		}
		wait.Stop()
		pause = min(2*pause, s.o.MaxBackoff)
	}
}

// runConnection is one client's life: it ends when it gives up, or would wait for long.
func (s *Socket) runConnection(ctx context.Context) {
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
				s.o.Log.Info("slack: the connection for buttons is closed")
			}
			if ctx.Err() == nil {
				s.o.Log.Warn("slack: no connection for buttons; trying again", "error", redactedError(err, s.o.AppToken))
			}
			return
		}
	}
}

func (s *Socket) handleEvent(ctx context.Context, cancel func(), client *socketmode.Client, e socketmode.Event) {
	switch e.Type {
	case socketmode.EventTypeConnecting:
		if s.connected.Swap(false) {
			s.o.Log.Info("slack: the connection for buttons is gone; connecting again")
		}
	case socketmode.EventTypeHello:
		s.connected.Store(true)
		s.o.Log.Info("slack: connected for buttons and commands")
	case socketmode.EventTypeConnectionError:
		if err, ok := e.Data.(*slack.ConnectionErrorEvent); ok {
			s.o.Log.Warn("slack: no connection for buttons", "error", redactedError(err.ErrorObj, s.o.AppToken), "attempt", err.Attempt)
			if err.Backoff > s.o.MaxBackoff {
				cancel()
			}
		}
	case socketmode.EventTypeInteractive, socketmode.EventTypeSlashCommand:
		s.handleEnvelope(ctx, client, e)
	case socketmode.EventTypeErrorBadMessage:
		s.o.Handler.reject("senseless", "a message on the socket makes no sense", nil)
	}
}

// handleEnvelope takes a callback and answers for it at once. Without an answer Slack
// tells the presser that it did not work.
func (s *Socket) handleEnvelope(ctx context.Context, client *socketmode.Client, e socketmode.Event) {
	if e.Request == nil {
		return
	}
	parse := parseBlockActions
	if e.Type == socketmode.EventTypeSlashCommand {
		parse = parseSlashJSON
	}
	c, err := parse(e.Request.Payload)
	if err != nil {
		s.o.Handler.reject("senseless", "a callback on the socket makes no sense: "+err.Error(), nil)
		s.ack(ctx, client, e) // sent again it would make no more
		return
	}
	if c.dedupKey == "" {
		c.dedupKey = "envelope " + e.Request.EnvelopeID
	}
	if e.Request.RetryAttempt > 0 {
		c.retry = plainText(e.Request.RetryReason, 100)
	}
	if err := s.o.Handler.enqueue(c); err != nil {
		s.o.Log.Warn("slack: what came over the socket is not taken", "error", err)
		return
	}
	s.ack(ctx, client, e)
}

func (s *Socket) ack(ctx context.Context, client *socketmode.Client, e socketmode.Event) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	if err := client.AckCtx(ctx, e.Request.EnvelopeID, nil); err != nil && ctx.Err() == nil {
		s.o.Log.Warn("slack: a callback could not be answered", "error", redactedError(err, s.o.AppToken))
	}
}
