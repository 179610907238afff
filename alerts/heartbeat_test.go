package alerts_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/alerts"
)

// fakeTransport answers requests without a network.
type fakeTransport struct {
	mu     sync.Mutex
	seen   []string
	answer func(n int, r *http.Request) (int, error)
}

func (w *fakeTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	w.mu.Lock()
	w.seen = append(w.seen, r.Method+" "+r.URL.String())
	n := len(w.seen)
	w.mu.Unlock()
	code, err := w.answer(n, r)
	if err != nil {
		return nil, err
	}
	return &http.Response{StatusCode: code, Body: io.NopCloser(strings.NewReader("ok")), Request: r, Header: http.Header{}}, nil
}

func (w *fakeTransport) calls() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.seen)
}

func heartbeatCounts(t *testing.T, reg *prometheus.Registry) map[string]float64 {
	t.Helper()
	fams, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]float64)
	for _, m := range fams[0].GetMetric() {
		got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
	}
	return got
}

// startHeartbeat runs a heartbeat, and returns what ends it.
func startHeartbeat(h *alerts.Heartbeat) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Run(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func TestHeartbeat(t *testing.T) {
	const secret = "https://beat.example/ping/secret-uuid"
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		reg := prometheus.NewRegistry()
		var ill atomic.Bool
		w := &fakeTransport{answer: func(n int, r *http.Request) (int, error) {
			switch n {
			case 2:
				return 0, errors.New("connection refused")
			case 3:
				return 404, nil
			case 4:
				return 302, nil
			case 5:
				<-r.Context().Done()
				return 0, r.Context().Err()
			}
			return 200, nil
		}}
		h, err := alerts.NewHeartbeat(alerts.HeartbeatOptions{
			URL: secret, Interval: 30 * time.Second, Transport: w, Registerer: reg,
			Log: slog.New(slog.NewTextHandler(&log, nil)),
			Healthy: func() error {
				if ill.Load() {
					return errors.New("the evaluation is late")
				}
				return nil
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		if b := heartbeatCounts(t, reg); len(b) != 3 || b["sent"]+b["failed"]+b["withheld"] != 0 {
			t.Errorf("at first %v", b)
		}
		stop := startHeartbeat(h)
		advance(time.Second)
		if seen := w.calls(); len(seen) != 1 || seen[0] != "GET "+secret {
			t.Errorf("calls %v, want one at once", seen)
		}
		advance(150 * time.Second)
		if b := heartbeatCounts(t, reg); b["sent"] != 2 || b["failed"] != 4 {
			t.Errorf("%v, want 2 sent and 4 failed", b)
		}
		ill.Store(true)
		advance(60 * time.Second)
		if b := heartbeatCounts(t, reg); b["withheld"] != 2 || len(w.calls()) != 6 {
			t.Errorf("%v after %d calls, want 2 withheld", b, len(w.calls()))
		}
		stop()
		if strings.Contains(log.String(), "secret") || strings.Contains(log.String(), "beat.example") {
			t.Errorf("the log shows the URL: %s", log.String())
		}
		if !strings.Contains(log.String(), "status 404") || !strings.Contains(log.String(), "evaluation is late") {
			t.Errorf("the log does not say why: %s", log.String())
		}
	})
}

func TestStopAbortsHeartbeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		w := &fakeTransport{answer: func(_ int, r *http.Request) (int, error) {
			<-r.Context().Done()
			return 0, r.Context().Err()
		}}
		h, err := alerts.NewHeartbeat(alerts.HeartbeatOptions{
			URL: "http://x/", Interval: time.Minute, Transport: w, Registerer: reg, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		stop := startHeartbeat(h)
		advance(time.Second)
		stop()
		if b := heartbeatCounts(t, reg); b["failed"] != 0 {
			t.Errorf("%v", b)
		}
	})
}

func TestInvalidHeartbeatOptions(t *testing.T) {
	tests := []struct {
		o    alerts.HeartbeatOptions
		want string
	}{
		{alerts.HeartbeatOptions{URL: "secret"}, "http or https"},
		{alerts.HeartbeatOptions{URL: "ftp://secret/"}, "http or https"},
		{alerts.HeartbeatOptions{URL: "http://secret/", Interval: time.Millisecond}, "at least 1 s"},
		{alerts.HeartbeatOptions{URL: "http://secret/", Interval: time.Minute}, "registerer"},
	}
	for _, tt := range tests {
		if _, err := alerts.NewHeartbeat(tt.o); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%v, want an error about %s that does not show the URL", err, tt.want)
		}
	}
}
