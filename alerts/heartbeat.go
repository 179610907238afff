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

	"headgate/internal/lifecycle"
)

// Results of heartbeats, as a metric's label.
const (
	heartbeatSent     = "sent"
	heartbeatFailed   = "failed"
	heartbeatWithheld = "withheld" // the process is unhealthy
)

// HeartbeatOptions configure a Heartbeat. A zero duration is replaced by its default.
type HeartbeatOptions struct {
	URL      string        // http or https; a secret that is never shown
	Method   string        // GET, POST or HEAD; empty: GET
	Interval time.Duration // 1 min; at least 1 s
	Timeout  time.Duration // of one call; 10 s
	// Healthy returns an error while the process cannot do its work: then nothing is sent, which raises the alarm at
	// the receiver. Optional.
	Healthy    func() error
	Transport  http.RoundTripper // nil: one of its own
	Registerer prometheus.Registerer
	Log        *slog.Logger
}

// Heartbeat calls a URL periodically, so that a monitoring service can alert people when the calls stop (a dead man's
// switch). It is independent of the Dispatcher: neither stops the other.
type Heartbeat struct {
	o       HeartbeatOptions
	http    *http.Client
	results *prometheus.CounterVec

	mu   sync.Mutex
	task *lifecycle.Task // nil before Start
}

// NewHeartbeat returns a Heartbeat that is not running, and registers its counter.
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
			Name: "headgate_heartbeats_total", Help: "Heartbeats by result.",
		}, []string{"result"}),
	}
	for _, result := range []string{heartbeatSent, heartbeatFailed, heartbeatWithheld} {
		h.results.WithLabelValues(result)
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
		return errors.New("the heartbeat must be an http or https URL") // the URL is not shown
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

// Start sends the first heartbeat at once, and the others at the interval. Further calls do nothing.
func (h *Heartbeat) Start() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.task == nil {
		h.task = lifecycle.Go(h.run)
	}
}

// Stop ends the heartbeats, and aborts a call in flight. It may be called more than once.
func (h *Heartbeat) Stop() {
	h.mu.Lock()
	task := h.task
	h.mu.Unlock()
	_ = task.Stop(context.Background()) // without a limit: a call obeys its context
}

func (h *Heartbeat) run(ctx context.Context) {
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
		h.results.WithLabelValues(heartbeatWithheld).Inc()
		h.o.Log.Error("heartbeat withheld", "reason", err)
		return
	}
	err := h.send(ctx)
	switch {
	case err == nil:
		h.results.WithLabelValues(heartbeatSent).Inc()
	case ctx.Err() == nil: // an aborted call is no failure
		h.results.WithLabelValues(heartbeatFailed).Inc()
		h.o.Log.Warn("heartbeat failed", "error", err)
	}
}

// send returns errors without the URL.
func (h *Heartbeat) send(ctx context.Context) error {
	req, err := http.NewRequestWithContext(ctx, h.o.Method, h.o.URL, nil)
	if err != nil {
		return errors.New("invalid request")
	}
	resp, err := h.http.Do(req)
	if u := (*url.Error)(nil); errors.As(err, &u) {
		return u.Err
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10) // only the status counts
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}
