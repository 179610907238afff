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
	"headgate/internal/loadgen"
	"headgate/internal/modelstub"
)

// indexHeader tells the endpoint which arrival a call belongs to.
const indexHeader = "Demo-Arrival"

// instance is one side: a headgate in front of its own endpoint.
type instance struct {
	mode     string
	tracker  *tracker
	stub     *modelstub.Stub
	endpoint *httpServer
	app      *app.App
	channel  *slackChannel // that hears of it; nil: nobody does, and nothing watches
	token    string        // of the admin API, if it is watched
}

// newInstance starts one side. When it fails, nothing is left open.
func newInstance(mode string, o Options, p Plan, s workload, slack *slackChannel, dir string, failed chan<- error) (*instance, error) {
	y := &instance{mode: mode, tracker: newTracker(o.Speed, s.arrivals), channel: slack}
	if err := y.startEndpoint(o, failed); err != nil {
		return nil, err
	}
	if err := y.startApp(p, dir); err != nil {
		return nil, errors.Join(err, y.stopEndpoint())
	}
	return y, nil
}

func (y *instance) startEndpoint(o Options, failed chan<- error) error {
	stub, err := modelstub.New(modelstub.Config{
		Slots: o.Workers, Service: o.Service, Seed: o.Seed, Speed: o.Speed,
		Tap: func(r *http.Request, _ []byte) {
			if i, err := strconv.Atoi(r.Header.Get(indexHeader)); err == nil {
				y.tracker.started(i)
			}
		},
	})
	if err != nil {
		return err
	}
	y.stub = stub
	y.endpoint, err = newHTTPServer("endpoint", stub, failed)
	return err
}

func (y *instance) startApp(p Plan, dir string) error {
	dir = filepath.Join(dir, y.mode)
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	cfg := y.config(p, dir)
	watch := app.WithoutMonitoring()
	if y.channel != nil {
		watch = app.TimeScale(p.Speed)
		if err := y.enableAdmin(cfg, dir); err != nil {
			return err
		}
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	gate, err := app.New(cfg, "demo", slog.New(slog.DiscardHandler), app.Ephemeral(), watch)
	if err != nil {
		return err
	}
	if err := gate.Start(); err != nil {
		return err
	}
	y.app = gate
	return nil
}

// enableAdmin gives the admin API a token. It is put where commands look for it.
func (y *instance) enableAdmin(cfg *config.Config, dir string) error {
	y.token = rand.Text()
	cfg.Admin.Token, cfg.Slack = config.NewSecret(y.token), y.channel.settings()
	return os.WriteFile(filepath.Join(dir, "headgate.token"), []byte(y.token+"\n"), 0o600)
}

// config are the built-in ones, except for what differs between the sides and
// for what must be scaled with the speed. The upstream's silence is no part of
// the scenario, so its limit is out of the way. Depth is no time.
func (y *instance) config(p Plan, dir string) *config.Config {
	cfg := config.Default()
	cfg.Listen, cfg.Admin.Listen, cfg.DataDir, cfg.Drain = loopback, loopback, dir, 0
	pool := &cfg.Pools[0]
	pool.Upstream = "http://" + y.endpoint.address + "/v1"
	pool.Workers = p.Workers
	pool.Mode = y.mode
	pool.SLO.Turnaround = p.Wall(p.SLO)
	pool.Admission.MaxQueueAge = p.Wall(p.MaxQueueAge)
	pool.Timeouts.UpstreamIdle = modelstub.MaxService
	return cfg
}

// play sends all arrivals and waits for their ends, or for that of ctx.
func (y *instance) play(ctx context.Context, p Plan, s workload) (*loadgen.Report, error) {
	return loadgen.Run(ctx, loadgen.Config{
		URL: "http://" + y.app.DataAddr() + "/v1", Speed: p.Speed, SLO: p.SLO,
		MaxOutstanding: max(p.Arrivals, 1),
		// Longer than anything that the demo waits for.
		Timeout: 2 * (p.Duration + p.DrainLimit + modelstub.MaxService),
		HeaderFor: func(i int) http.Header {
			y.tracker.sent(i)
			return http.Header{
				indexHeader:             {strconv.Itoa(i)},
				modelstub.HeaderService: {s.serviceTimes[i].String()},
			}
		},
		Observe: y.tracker.ended,
	}, s.arrivals.Source())
}

func (y *instance) reading(slo, now time.Duration) Reading {
	r := newReading(y.tracker.snapshot(), slo, now)
	r.InFlight = y.stub.Stats().InFlight
	return r
}

// stop takes the side down. Play must have ended.
func (y *instance) stop(ctx context.Context) error {
	err := y.app.Stop(ctx)
	return errors.Join(err, y.stopEndpoint())
}

func (y *instance) stopEndpoint() error {
	y.stub.Close()
	return y.endpoint.close()
}

func (y *instance) addresses() Addresses {
	a := Addresses{
		Data:     "http://" + y.app.DataAddr() + "/v1",
		Metrics:  "http://" + y.app.AdminAddr() + "/metrics",
		Endpoint: "http://" + y.endpoint.address + "/v1",
	}
	if y.channel != nil {
		a.Slack = y.channel.pageURL()
	}
	return a
}
