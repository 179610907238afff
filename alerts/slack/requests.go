package slack

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slack-go/slack"
)

// The paths of Slack's requests.
const (
	InteractivityPath = "/slack/interactivity"
	CommandsPath      = "/slack/commands"
)

const (
	maxRequestBytes       = 256 << 10 // bytes: a button press includes its message
	maxConcurrentRequests = 128
	maxHeaderBytes        = 64 << 10
	bodyTimeout           = 2 * time.Second
	requestTimeout        = 10 * time.Second // for reading a whole request
	keepAliveTimeout      = 2 * time.Minute
	timestampHeader       = "X-Slack-Request-Timestamp"
)

// requestHandler receives signed requests. It answers with a status only, at once.
type requestHandler struct {
	secret       string
	interactions *Interactions
	started      time.Time
	dedup        *deduper
	slots        chan struct{}
	mux          *http.ServeMux
}

// newRequestHandler returns a handler of the two paths, for a separate listener. Requests that were signed
// before this moment are rejected: they may have been accepted by an earlier process.
func newRequestHandler(signingSecret string, i *Interactions) (*requestHandler, error) {
	if signingSecret == "" {
		return nil, errors.New("signed requests need a signing secret")
	}
	h := &requestHandler{
		secret: signingSecret, interactions: i, started: i.o.Now().Truncate(time.Second),
		dedup: newDeduper(), slots: make(chan struct{}, maxConcurrentRequests), mux: http.NewServeMux(),
	}
	h.mux.HandleFunc("POST "+InteractivityPath, h.handle(func(form url.Values) (callback, error) {
		return parseBlockActions([]byte(form.Get("payload")))
	}))
	h.mux.HandleFunc("POST "+CommandsPath, h.handle(parseSlashForm))
	return h, nil
}

// ServeHTTP handles a request.
func (h *requestHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	h.mux.ServeHTTP(w, r)
}

// handle authenticates a request before it parses any of it.
func (h *requestHandler) handle(parse func(url.Values) (callback, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case h.slots <- struct{}{}:
			defer func() { <-h.slots }()
		default:
			http.Error(w, errBusy.Error(), http.StatusServiceUnavailable)
			return
		}
		// A connection without deadlines is bounded by the size.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout))
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
		if err != nil {
			http.Error(w, "request too long or too slow", http.StatusRequestEntityTooLarge)
			return
		}
		if err := h.verifySignature(r.Header, body); err != nil {
			h.interactions.reject("signature", "not a request from Slack: "+err.Error(), requestInputs(r))
			http.Error(w, "not signed by Slack for this app, or not recently", http.StatusUnauthorized)
			return
		}
		switch err := h.process(r, body, parse); {
		case err == nil:
			w.WriteHeader(http.StatusOK)
		case errors.Is(err, errBusy), errors.Is(err, errShuttingDown):
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		default:
			http.Error(w, "invalid request", http.StatusBadRequest)
		}
	}
}

func requestInputs(r *http.Request) map[string]string {
	return map[string]string{"path": r.URL.Path, "from": r.RemoteAddr}
}

// verifySignature checks the signature over the raw body, and its time.
func (h *requestHandler) verifySignature(header http.Header, body []byte) error {
	v, err := slack.NewSecretsVerifier(header, h.secret)
	if err == nil {
		_, _ = v.Write(body) // a hash accepts everything
		err = v.Ensure()
	}
	switch { // the errors of the library may hold what was received
	case errors.Is(err, slack.ErrExpiredTimestamp):
		return errors.New("its time is more than five minutes off")
	case errors.Is(err, slack.ErrMissingHeaders):
		return errors.New("it is not signed")
	case err != nil:
		return errors.New("its signature is wrong")
	}
	at, err := strconv.ParseInt(header.Get(timestampHeader), 10, 64)
	if err != nil || time.Unix(at, 0).Before(h.started) {
		return errors.New("it was signed before this process started")
	}
	return nil
}

// process passes an authentic request on. The same request a second time is acknowledged and has no effect.
func (h *requestHandler) process(r *http.Request, body []byte, parse func(url.Values) (callback, error)) error {
	key := r.Header.Get(timestampHeader) + ":" + string(body)
	switch h.dedup.add(h.interactions.o.Now(), key) {
	case dedupDuplicate:
		h.interactions.reject("replayed", "a signed request was sent again", requestInputs(r))
		return nil
	case dedupFull:
		return errBusy
	}
	form, formErr := url.ParseQuery(string(body))
	if formErr == nil && form.Get("ssl_check") != "" && form.Get("command") == "" {
		return nil // Slack's periodic check of the certificate
	}
	c, err := parse(form)
	if err = errors.Join(formErr, err); err != nil {
		h.interactions.reject("invalid", "invalid request from Slack: "+err.Error(), requestInputs(r))
		return err
	}
	if n := r.Header.Get("X-Slack-Retry-Num"); n != "" {
		c.retry = n + " " + r.Header.Get("X-Slack-Retry-Reason")
	}
	if err = h.interactions.enqueue(c); err != nil {
		h.dedup.forget(key)
	}
	return err
}

const (
	minReopenDelay = time.Second // before a listener that ended is opened again
	maxReopenDelay = 30 * time.Second
)

// listener serves signed requests. It is reopened if it stops unexpectedly, because users in Slack depend on it. Host
// names are not checked: a reverse proxy may set another one, and all requests are signed.
type listener struct {
	server   *http.Server
	log      *slog.Logger
	minDelay time.Duration // before it is opened again

	mu      sync.Mutex
	current net.Listener // nil while there is none
	address string       // of the first one
}

// newListener returns a listener that is not open, and registers a metric of its state.
func newListener(h http.Handler, o InteractionOptions) (*listener, error) {
	l := &listener{log: o.Log, minDelay: minReopenDelay, server: &http.Server{
		Handler: h, ReadHeaderTimeout: requestTimeout, ReadTimeout: requestTimeout, IdleTimeout: keepAliveTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug),
	}}
	return l, o.Registerer.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "headgate_slack_listening", Help: "1 while requests from Slack are accepted at slack.listen.",
	}, func() float64 {
		l.mu.Lock()
		defer l.mu.Unlock()
		return oneIf(l.current != nil)
	}))
}

func oneIf(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (l *listener) open(address string) error {
	c, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("slack.listen: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.current, l.address = c, c.Addr().String()
	return nil
}

func (l *listener) addr() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.address
}

// serve serves what open has opened, and opens it again when it ends, until shutdown.
func (l *listener) serve(ctx context.Context) {
	delay := l.minDelay
	for {
		l.mu.Lock()
		current := l.current
		l.mu.Unlock()
		err := l.server.Serve(current)
		l.mu.Lock()
		l.current = nil
		l.mu.Unlock()
		for !errors.Is(err, http.ErrServerClosed) {
			l.log.Error("slack listener ended, opening it again", "error", err, "after", delay)
			select {
			case <-ctx.Done():
				return
			case <-time.After(delay):
			}
			if err = l.open(l.addr()); err == nil {
				l.log.Info("slack listener open again")
				delay = l.minDelay
				break
			}
			delay = min(2*delay, maxReopenDelay)
		}
		if err != nil {
			return
		}
	}
}

// shutdown waits a while for requests in flight, then closes them: those that hang there were not accepted.
func (l *listener) shutdown(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, shutdownTimeout)
	defer cancel()
	if err := l.server.Shutdown(ctx); err != nil {
		return l.server.Close()
	}
	return nil
}
