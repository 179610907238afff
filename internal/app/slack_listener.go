package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const (
	minReopenDelay = time.Second // before a listener that has ended is opened again
	maxReopenDelay = 30 * time.Second
)

// slackListener takes Slack's requests. One that ends by itself is opened again: the
// gate does not depend on it, and people in Slack do.
type slackListener struct {
	server *http.Server
	log    *slog.Logger

	mu       sync.Mutex
	listener net.Listener // nil while there is none
	address  string       // that it had first
}

// newSlackListener makes one that is not open, and the metric that says whether it is.
func newSlackListener(h http.Handler, reg prometheus.Registerer, log *slog.Logger) (*slackListener, error) {
	l := &slackListener{server: newServer(h, log), log: log}
	l.server.ReadTimeout = readHeaderTimeout
	return l, reg.Register(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "headgate_slack_listening", Help: "1 while Slack's requests are taken at slack.listen.",
	}, func() float64 {
		if l.current() != nil {
			return 1
		}
		return 0
	}))
}

func (l *slackListener) current() net.Listener {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.listener
}

// listen opens it.
func (l *slackListener) listen(address string) error {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("slack.listen: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listener, l.address = listener, listener.Addr().String()
	return nil
}

// serve serves what listen has opened, and opens it again when it ends, until stop.
func (l *slackListener) serve(ctx context.Context) {
	pause := minReopenDelay
	for {
		err := l.server.Serve(l.current())
		l.mu.Lock()
		l.listener = nil
		l.mu.Unlock()
		for {
			if errors.Is(err, http.ErrServerClosed) {
				return
			}
			l.log.Error("the listener for Slack has ended; opening it again", "error", err, "after", pause)
			select {
			case <-ctx.Done():
				return
			case <-time.After(pause):
			}
			if err = l.listen(l.address); err == nil {
				l.log.Info("the listener for Slack is open again")
				pause = minReopenDelay
				break
			}
			pause = min(2*pause, maxReopenDelay)
		}
	}
}

// start serves until the watch stops.
func (l *slackListener) start(w *monitor) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		l.serve(ctx)
	}()
	w.onStop(func(ctx context.Context) error {
		ctx, cut := context.WithTimeout(ctx, slackStopTimeout)
		defer cut()
		err := l.server.Shutdown(ctx)
		if err != nil {
			err = l.server.Close() // what hangs there has brought nothing
		}
		cancel()
		<-done
		return err
	})
}
