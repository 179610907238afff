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
	maxRequest  = 256 << 10 // bytes: a press brings its message along
	maxRequests = 128       // at once
	readTime    = 2 * time.Second
)

// Requests takes presses and commands that Slack sends by HTTP, signed. It answers
// at once, and with nothing but a status; what comes of them is told by other ways.
// It is safe for concurrent use.
type Requests struct {
	secret    string
	reception *Reception
	log       *slog.Logger
	now       func() time.Time
	started   time.Time
	replayed  *once
	room      chan struct{}
	mux       *http.ServeMux
}

// NewRequests returns a handler of the two paths, for a listener of its own. What
// was signed before this moment is not taken: whether it has been taken already is
// not known.
func NewRequests(signingSecret string, r *Reception, log *slog.Logger) (*Requests, error) {
	if signingSecret == "" || r == nil || log == nil {
		return nil, errors.New("requests of Slack need a signing secret, a reception and a log")
	}
	q := &Requests{
		secret: signingSecret, reception: r, log: log, now: r.o.Now, started: r.o.Now().Truncate(time.Second),
		replayed: newOnce(), room: make(chan struct{}, maxRequests), mux: http.NewServeMux(),
	}
	q.mux.HandleFunc("POST "+InteractivityPath, q.serve(pressForm))
	q.mux.HandleFunc("POST "+CommandsPath, q.serve(parseForm))
	return q, nil
}

func pressForm(form url.Values) (callback, error) { return parsePress([]byte(form.Get("payload"))) }

// ServeHTTP implements http.Handler.
func (q *Requests) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	q.mux.ServeHTTP(w, r)
}

// serve authenticates a request before anything of it is parsed.
func (q *Requests) serve(parse func(url.Values) (callback, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		select {
		case q.room <- struct{}{}:
			defer func() { <-q.room }()
		default:
			http.Error(w, errBusy.Error(), http.StatusServiceUnavailable)
			return
		}
		// Where there is no deadline to set, the body is as bounded as its size.
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readTime))
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxRequest))
		if err != nil {
			http.Error(w, "the request is too long, or too slow", http.StatusRequestEntityTooLarge)
			return
		}
		if err := q.authentic(r.Header, body); err != nil {
			q.reception.turnAway("signature", "a request that is not Slack's: "+err.Error(), map[string]string{"path": r.URL.Path, "from": r.RemoteAddr})
			http.Error(w, "not signed by Slack for this app, or not just now", http.StatusUnauthorized)
			return
		}
		q.answer(w, q.accept(r, body, parse))
	}
}

// authentic checks the signature over the raw body, and its time.
func (q *Requests) authentic(h http.Header, body []byte) error {
	v, err := slack.NewSecretsVerifier(h, q.secret)
	if err != nil {
		return signatureProblem(err)
	}
	_, _ = v.Write(body) // a hash takes everything
	if err := v.Ensure(); err != nil {
		return signatureProblem(err)
	}
	at, err := strconv.ParseInt(h.Get(timestampHeader), 10, 64)
	if err != nil || time.Unix(at, 0).Before(q.started) {
		return errors.New("it was signed before this process began")
	}
	return nil
}

const timestampHeader = "X-Slack-Request-Timestamp"

// signatureProblem says what is wrong, and nothing of what was received.
func signatureProblem(err error) error {
	switch {
	case errors.Is(err, slack.ErrExpiredTimestamp):
		return errors.New("its time is more than five minutes off")
	case errors.Is(err, slack.ErrMissingHeaders):
		return errors.New("it is not signed")
	default:
		return errors.New("its signature is wrong")
	}
}

// accept hands an authentic request on. The same one a second time is nobody's
// wish: it is taken for well, and has no effect.
func (q *Requests) accept(r *http.Request, body []byte, parse func(url.Values) (callback, error)) error {
	key := r.Header.Get(timestampHeader) + ":" + string(body)
	switch q.replayed.take(q.now(), key) {
	case again:
		q.reception.turnAway("replayed", "a signed request was sent once more", map[string]string{"path": r.URL.Path, "from": r.RemoteAddr})
		return nil
	case full:
		return errBusy
	}
	form, err := url.ParseQuery(string(body))
	if err == nil && form.Get("ssl_check") != "" && form.Get("command") == "" {
		return nil // Slack looks now and then whether somebody is there
	}
	c, err2 := parse(form)
	if err = errors.Join(err, err2); err != nil {
		q.reception.turnAway("senseless", "a request of Slack's makes no sense: "+err.Error(), map[string]string{"path": r.URL.Path})
		return errSenseless
	}
	if n := r.Header.Get("X-Slack-Retry-Num"); n != "" {
		c.retry = n + " " + r.Header.Get("X-Slack-Retry-Reason")
	}
	if err = q.reception.take(c); err != nil {
		q.replayed.forget(key)
	}
	return err
}

var errSenseless = errors.New("the request makes no sense")

func (q *Requests) answer(w http.ResponseWriter, err error) {
	switch {
	case err == nil:
		w.WriteHeader(http.StatusOK)
	case errors.Is(err, errBusy), errors.Is(err, errGoingDown):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	default:
		http.Error(w, errSenseless.Error(), http.StatusBadRequest)
	}
}
