package slack

import (
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/slack-go/slack"
)

// The paths that Slack's requests come to.
const (
	InteractivityPath = "/slack/interactivity"
	CommandsPath      = "/slack/commands"
)

const (
	maxRequestBytes       = 256 << 10 // bytes: a press brings its message along
	maxConcurrentRequests = 128       // at once
	readTimeout           = 2 * time.Second
)

// RequestHandler takes presses and commands that Slack sends by HTTP, signed. It answers
// at once, and with nothing but a status; what comes of them is told by other ways.
// It is safe for concurrent use.
type RequestHandler struct {
	secret  string
	handler *InteractionHandler
	log     *slog.Logger
	now     func() time.Time
	started time.Time
	dedup   *deduper
	slots   chan struct{}
	mux     *http.ServeMux
}

// NewRequestHandler returns a handler of the two paths, for a listener of its own. What
// was signed before this moment is not taken: whether it has been taken already is
// not known.
func NewRequestHandler(signingSecret string, r *InteractionHandler, log *slog.Logger) (*RequestHandler, error) {
	if signingSecret == "" || r == nil || log == nil {
		return nil, errors.New("requests of Slack need a signing secret, a reception and a log")
	}
	q := &RequestHandler{
		secret: signingSecret, handler: r, log: log, now: r.o.Now, started: r.o.Now().Truncate(time.Second),
		dedup: newDeduper(), slots: make(chan struct{}, maxConcurrentRequests), mux: http.NewServeMux(),
	}
	q.mux.HandleFunc("POST "+InteractivityPath, q.handle(parseBlockActionsForm))
	q.mux.HandleFunc("POST "+CommandsPath, q.handle(parseSlashForm))
	return q, nil
}

func parseBlockActionsForm(form url.Values) (callback, error) {
	return parseBlockActions([]byte(form.Get("payload")))
}

// ServeHTTP implements http.Handler.
func (q *RequestHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	q.mux.ServeHTTP(w, r)
}

// handle authenticates a request before anything of it is parsed.
func (q *RequestHandler) handle(parse func(url.Values) (callback, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case q.slots <- struct{}{}:
			defer func() { <-q.slots }()
		default:
			http.Error(w, errBusy.Error(), http.StatusServiceUnavailable)
			return
		}
		// Where there is no deadline to set, the body is as bounded as its size.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTimeout))
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequestBytes))
		if err != nil {
			http.Error(w, "the request is too long, or too slow", http.StatusRequestEntityTooLarge)
			return
		}
		if err := q.verifySignature(r.Header, body); err != nil {
			q.handler.reject("signature", "a request that is not Slack's: "+err.Error(), map[string]string{"path": r.URL.Path, "from": r.RemoteAddr})
			http.Error(w, "not signed by Slack for this app, or not just now", http.StatusUnauthorized)
			return
		}
		q.writeStatus(w, q.process(r, body, parse))
	}
}

// verifySignature checks the signature over the raw body, and its time.
func (q *RequestHandler) verifySignature(h http.Header, body []byte) error {
	v, err := slack.NewSecretsVerifier(h, q.secret)
	if err != nil {
		return signatureError(err)
	}
	_, _ = v.Write(body) // a hash takes everything
	if err := v.Ensure(); err != nil {
		return signatureError(err)
	}
	at, err := strconv.ParseInt(h.Get(timestampHeader), 10, 64)
	if err != nil || time.Unix(at, 0).Before(q.started) {
		return errors.New("it was signed before this process began")
	}
	return nil
}

const timestampHeader = "X-Slack-Request-Timestamp"

// signatureError says what is wrong, and nothing of what was received.
func signatureError(err error) error {
	switch {
	case errors.Is(err, slack.ErrExpiredTimestamp):
		return errors.New("its time is more than five minutes off")
	case errors.Is(err, slack.ErrMissingHeaders):
		return errors.New("it is not signed")
	default:
		return errors.New("its signature is wrong")
	}
}

// process hands an authentic request on. The same one a second time is nobody's
// wish: it is taken for well, and has no effect.
func (q *RequestHandler) process(r *http.Request, body []byte, parse func(url.Values) (callback, error)) error {
	key := r.Header.Get(timestampHeader) + ":" + string(body)
	switch q.dedup.add(q.now(), key) {
	case dedupDuplicate:
		q.handler.reject("replayed", "a signed request was sent once more", map[string]string{"path": r.URL.Path, "from": r.RemoteAddr})
		return nil
	case dedupFull:
		return errBusy
	}
	form, err := url.ParseQuery(string(body))
	if err == nil && form.Get("ssl_check") != "" && form.Get("command") == "" {
		return nil // Slack looks now and then whether somebody is there
	}
	c, err2 := parse(form)
	if err = errors.Join(err, err2); err != nil {
		q.handler.reject("senseless", "a request of Slack's makes no sense: "+err.Error(), map[string]string{"path": r.URL.Path})
		return errInvalidRequest
	}
	if n := r.Header.Get("X-Slack-Retry-Num"); n != "" {
		c.retry = n + " " + r.Header.Get("X-Slack-Retry-Reason")
	}
	if err = q.handler.enqueue(c); err != nil {
		q.dedup.forget(key)
	}
	return err
}

var errInvalidRequest = errors.New("the request makes no sense")

func (q *RequestHandler) writeStatus(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
		w.WriteHeader(http.StatusOK)
	case errors.Is(err, errBusy), errors.Is(err, errShuttingDown):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		http.Error(w, errInvalidRequest.Error(), http.StatusBadRequest)
	}
}
