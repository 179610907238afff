package alerts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// HeartbeatResult is what became of one heartbeat.
type HeartbeatResult string

// The ends of heartbeats.
const (
	HeartbeatSent     HeartbeatResult = "sent"
	HeartbeatFailed   HeartbeatResult = "failed"
	HeartbeatWithheld HeartbeatResult = "withheld" // the process is not well, and does not say that it is
)

// HeartbeatOptions are what a Heartbeat needs. A zero duration is replaced by its
// default.
type HeartbeatOptions struct {
	URL      string        // http or https; it is a secret, and shown nowhere
	Method   string        // GET, POST or HEAD; empty: GET
	Interval time.Duration // 1 min; at least 1 s
	Timeout  time.Duration // of one call; 10 s
	// Well returns an error while the process cannot do its duty: then nothing is
	// sent, which is the alarm. Nil: it always can.
	Healthy    func() error
	Transport  http.RoundTripper // nil: one of its own
	Registerer prometheus.Registerer
	Log        *slog.Logger
}

// Heartbeat calls a URL again and again, so that somebody else can tell people
// when it stops: a dead man's switch. It is apart from the Dispatcher, and neither
// stops the other.
type Heartbeat struct {
	o       HeartbeatOptions
	http    *http.Client
	results *prometheus.CounterVec

	mu     sync.Mutex
	cancel context.CancelFunc
	done   chan struct{}
}

// NewHeartbeat returns one that is not running, and registers its counter.
func NewHeartbeat(o HeartbeatOptions) (*Heartbeat, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	h := &Heartbeat{
		o: o,
		http: &http.Client{
			Timeout: o.Timeout, Transport: o.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		results: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_heartbeats_total", Help: "What the heartbeats that are sent out came to.",
		}, []string{"result"}),
	}
	for _, b := range []HeartbeatResult{HeartbeatSent, HeartbeatFailed, HeartbeatWithheld} {
		h.results.WithLabelValues(string(b))
	}
	return h, o.Registerer.Register(h.results)
}

func (o HeartbeatOptions) withDefaults() HeartbeatOptions {
	if o.Method == "" {
		o.Method = http.MethodGet
	}
	if o.Interval == 0 {
		o.Interval = time.Minute
	}
	if o.Timeout == 0 {
		o.Timeout = 10 * time.Second
	}
	if o.Healthy == nil {
		o.Healthy = func() error { return nil }
	}
	if o.Transport == nil {
		o.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	}
	return o
}

func (o HeartbeatOptions) validate() error {
	u, err := url.Parse(o.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return errors.New("the heartbeat must be an http or https URL") // which is not shown
	}
	switch o.Method {
	case http.MethodGet, http.MethodPost, http.MethodHead:
	default:
		return fmt.Errorf("the heartbeat's method is %.20q, it must be GET, POST or HEAD", o.Method)
	}
	if o.Interval < time.Second || o.Timeout < 0 {
		return fmt.Errorf("the heartbeat's interval is %s, it must be at least 1 s", o.Interval)
	}
	if o.Registerer == nil || o.Log == nil {
		return errors.New("a heartbeat needs a registerer and a log")
	}
	return nil
}

// Start sends the first heartbeat and goes on. It is called once.
func (h *Heartbeat) Start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.done != nil {
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	h.cancel, h.done = cancel, make(chan struct{})
	go h.run(ctx, h.done)
}

// Stop ends it, and breaks off a call that is under way. It may be called more
// than once.
func (h *Heartbeat) Stop() {
	h.mu.Lock()
	end, ended := h.cancel, h.done
	h.mu.Unlock()
	if ended == nil {
		return
	}
	end()
	<-ended
}

func (h *Heartbeat) run(ctx context.Context, ended chan<- struct{}) {
	defer close(ended)
	t := time.NewTicker(h.o.Interval)
	defer t.Stop()
	for {
		h.sendIfHealthy(ctx)
		select {
		case <-t.C:
		case <-ctx.Done():
			return
		}
	}
}

func (h *Heartbeat) sendIfHealthy(ctx context.Context) {
	if err := h.o.Healthy(); err != nil {
		h.results.WithLabelValues(string(HeartbeatWithheld)).Inc()
		h.o.Log.Error("the heartbeat is withheld", "reason", err)
		return
	}
	err := h.send(ctx)
	switch {
	case err == nil:
		h.results.WithLabelValues(string(HeartbeatSent)).Inc()
	case ctx.Err() == nil: // stopping is no failure
		h.results.WithLabelValues(string(HeartbeatFailed)).Inc()
		h.o.Log.Warn("the heartbeat failed", "err", err)
	}
}

// send returns errors without the URL.
func (h *Heartbeat) send(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, h.o.Method, h.o.URL, nil)
	if err != nil {
		return errors.New("the request cannot be made")
	}
	resp, err := h.http.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			return u.Err
		}
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // only the status counts
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}
