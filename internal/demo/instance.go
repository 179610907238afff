package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"headgate/internal/app"
	"headgate/internal/config"
	"headgate/internal/lifecycle"
	"headgate/internal/loadgen"
	"headgate/internal/modelstub"
)

// indexHeader carries the index of the call's arrival to the endpoint.
const indexHeader = "Demo-Arrival"

// serve serves on a free loopback address. If the server stops unexpectedly, its error
// goes to failed, which must have room for it.
func serve(name string, h http.Handler, failed chan<- error) (*lifecycle.Server, error) {
	s, err := lifecycle.Listen(name, lifecycle.Loopback, h, slog.New(slog.DiscardHandler))
	if err == nil {
		s.Serve(failed)
	}
	return s, err
}

// instance is one side: a headgate in front of its own endpoint.
type instance struct {
	mode     string
	tracker  *tracker
	stub     *modelstub.Stub
	endpoint *lifecycle.Server
	app      *app.App
	channel  *slackChannel // gets its alerts; nil: the side is not watched
	token    string        // of the admin API, if the side is watched
}

// newInstance starts one side. If it fails, nothing is left open.
func newInstance(mode string, o Options, p Plan, w workload, slack *slackChannel, dir string, failed chan<- error) (*instance, error) {
	y := &instance{mode: mode, tracker: newTracker(o.Speed, w.arrivals), channel: slack}
	var err error
	y.stub, err = modelstub.New(modelstub.Config{
		Slots: o.Workers, Service: o.Service, Seed: o.Seed, Speed: o.Speed,
		Tap: func(r *http.Request, _ []byte) {
			if i, err := strconv.Atoi(r.Header.Get(indexHeader)); err == nil {
				y.tracker.started(i)
			}
		},
	})
	if err != nil {
		return nil, err
	}
	if y.endpoint, err = serve("endpoint", y.stub, failed); err != nil {
		return nil, err
	}
	if err := y.startApp(p, filepath.Join(dir, mode)); err != nil {
		return nil, errors.Join(err, y.stopEndpoint())
	}
	return y, nil
}

// startApp starts headgate with its own data directory. Rules run on the gated side with
// Slack only.
func (y *instance) startApp(p Plan, dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	cfg := y.config(p, dir)
	monitoring := app.WithoutMonitoring()
	if y.channel != nil {
		monitoring = app.TimeScale(p.Speed)
		y.token = rand.Text()
		cfg.Admin.Token, cfg.Slack = config.NewSecret(y.token), y.channel.settings()
		// In the file in which commands look for it.
		if err := os.WriteFile(filepath.Join(dir, "headgate.token"), []byte(y.token+"\n"), 0o600); err != nil {
			return err
		}
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	gate, err := app.New(cfg, "demo", slog.New(slog.DiscardHandler), app.Ephemeral(), monitoring)
	if err != nil {
		return err
	}
	if err := gate.Start(); err != nil {
		return err
	}
	y.app = gate
	return nil
}

// config returns the default settings, except for what differs between the sides and
// for durations of the scenario, which are scaled with the speed. The idle timeout of
// the upstream is not part of the scenario, so it is longer than any service time.
func (y *instance) config(p Plan, dir string) *config.Config {
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen, cfg.DataDir, cfg.Drain = lifecycle.Loopback, lifecycle.Loopback, dir, 0
	pool := &cfg.Pools[0]
	pool.Upstream = y.endpoint.URL() + "/v1"
	pool.Workers = p.Workers
	pool.Mode = y.mode
	pool.SLO.Turnaround = p.Wall(p.SLO)
	pool.Admission.MaxQueueAge = p.Wall(p.MaxQueueAge)
	pool.Timeouts.UpstreamIdle = modelstub.MaxService
	return cfg
}

// play sends all arrivals and waits until they have ended, or ctx ends.
func (y *instance) play(ctx context.Context, p Plan, w workload) (*loadgen.Report, error) {
	return loadgen.Run(ctx, loadgen.Config{
		URL: y.addresses().Data, Speed: p.Speed, SLO: p.SLO,
		MaxOutstanding: max(p.Arrivals, 1),
		// Longer than any wait of the demo.
		Timeout: 2 * (p.Duration + p.DrainLimit + modelstub.MaxService),
		HeaderFor: func(i int) http.Header {
			y.tracker.sent(i)
			return http.Header{
				indexHeader:             {strconv.Itoa(i)},
				modelstub.HeaderService: {w.serviceTimes[i].String()},
			}
		},
		Observe: y.tracker.ended,
	}, w.arrivals.Source())
}

func (y *instance) reading(p Plan, now time.Duration) Reading {
	r := newReading(y.tracker.snapshot(), p.SLO, now)
	r.InFlight = y.stub.Stats().InFlight
	return r
}

// stop stops the side. Play must have ended.
func (y *instance) stop(ctx context.Context) error {
	err := y.app.Stop(ctx)
	return errors.Join(err, y.stopEndpoint())
}

func (y *instance) stopEndpoint() error {
	y.stub.Close()
	return y.endpoint.Close()
}

func (y *instance) adminURL() string { return "http://" + y.app.AdminAddr() }

func (y *instance) addresses() Addresses {
	a := Addresses{Data: "http://" + y.app.DataAddr() + "/v1", Metrics: y.adminURL() + "/metrics"}
	if y.channel != nil {
		a.Slack = y.channel.URL() + "/"
	}
	return a
}
