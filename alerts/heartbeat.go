package alerts

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Results of heartbeats, as a metric's label.
const (
	heartbeatSent     = "sent"
	heartbeatFailed   = "failed"
	heartbeatWithheld = "withheld" // the process is unhealthy
)

const heartbeatTimeout = 10 * time.Second // of one call

// HeartbeatOptions configure a Heartbeat. URL, Interval, Registerer and Log are required.
type HeartbeatOptions struct {
	URL      string        // http or https; a secret that is never shown
	Interval time.Duration // at least 1 s
	// Healthy returns an error while the process cannot do its work: then nothing is sent, which raises the alarm at
	// the receiver. Optional.
	Healthy    func() error
	Transport  http.RoundTripper // nil: a new one
	Registerer prometheus.Registerer
	Log        *slog.Logger
}

// Heartbeat calls a URL periodically, so that a monitoring service can alert people when the calls stop (a dead man's
// switch). It is independent of the Dispatcher: neither stops the other.
type Heartbeat struct {
	o       HeartbeatOptions
	http    *http.Client
	results *prometheus.CounterVec
}

// NewHeartbeat returns a Heartbeat that is not running, and registers its counter.
func NewHeartbeat(o HeartbeatOptions) (*Heartbeat, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Transport == nil {
		o.Transport = &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	}
	h := &Heartbeat{
		o: o,
		http: &http.Client{
			Timeout: heartbeatTimeout, Transport: o.Transport,
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

func (o HeartbeatOptions) validate() error {
	u, err := url.Parse(o.URL)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "":
		return errors.New("the heartbeat must be an http or https URL") // the URL is not shown
	case o.Interval < time.Second:
		return fmt.Errorf("the heartbeat's interval is %s, it must be at least 1 s", o.Interval)
	case o.Registerer == nil || o.Log == nil:
		return errors.New("a heartbeat needs a registerer and a log")
	}
	return nil
}

// Run sends the first heartbeat at once, and the others at the interval, until ctx ends. Then a call in flight is
// aborted.
func (h *Heartbeat) Run(ctx context.Context) {
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

// sendIfHealthy sends a heartbeat unless the process is unhealthy, and records the result.
func (h *Heartbeat) sendIfHealthy(ctx context.Context) {
	if h.o.Healthy != nil {
		if err := h.o.Healthy(); err != nil {
			h.results.WithLabelValues(heartbeatWithheld).Inc()
			h.o.Log.Error("heartbeat withheld", "reason", err)
			return
		}
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
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, h.o.URL, nil)
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
