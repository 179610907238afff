package app

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/alerts/slack"
	"headgate/engine"
	"headgate/internal/config"
	"headgate/proxy"
	"headgate/runbooks/drill/sandbox"
	"headgate/runbooks/drill/service"
)

// App is one headgate, put together from its parts. Start, Stop and Reload call the parts in order. Stop it once it has
// been started; New alone holds nothing that has to be released.
type App struct {
	opts         options
	reloading    sync.Mutex // held by Reload
	current      atomic.Pointer[settings]
	metrics      metrics
	proxy        *proxy.Proxy
	traffic      sandbox.Traffic // of live drills
	notifiers    slack.Notifiers
	interactions *slack.Interactions // nil: Slack cannot reach this headgate
	record       *record             // nil before Start
	monitor      *monitor            // nil before Start, or without monitoring
	drills       *service.Service    // nil before Start, or without drills
	servers      servers
	draining     atomic.Bool
	stopOnce     sync.Once
	stopErr      error
}

// options are what an App is built with besides its settings.
type options struct {
	version           string
	log               *slog.Logger
	ephemeral         bool
	withoutMonitoring bool
	timeScale         engine.TimeScale
	sandbox           sandboxOverrides
}

func (o options) component(name string) *slog.Logger { return o.log.With("component", name) }

// Option changes what an App is made of.
type Option func(*options)

// Ephemeral keeps the record in memory and nothing on disk: modes and audit are lost when the App stops.
func Ephemeral() Option { return func(o *options) { o.ephemeral = true } }

// TimeScale evaluates rules for a scenario that is played so many times faster than real time, 1 to 1000.
func TimeScale(speed float64) Option {
	return func(o *options) { o.timeScale = engine.TimeScale(speed) }
}

// WithoutMonitoring takes no samples, evaluates no rules and sends no notifications. It is for short-lived Apps.
func WithoutMonitoring() Option { return func(o *options) { o.withoutMonitoring = true } }

// New builds an App and checks what only its parts can check. It opens nothing. Errors carry a setting's position.
func New(cfg *config.Config, version string, log *slog.Logger, opts ...Option) (*App, error) {
	a := &App{opts: options{version: version, log: log}, traffic: sandbox.Traffic{Tag: proxy.WithDrillTraffic}}
	for _, o := range opts {
		o(&a.opts)
	}
	if err := a.opts.timeScale.Validate(); err != nil {
		return nil, err
	}
	if err := checkAdminToken(cfg); err != nil {
		return nil, err
	}
	var err error
	if a.metrics, err = newMetrics(a.opts.version, a.opts.timeScale); err != nil {
		return nil, err
	}
	p, err := a.plan(cfg, settings{})
	if err != nil {
		return nil, err
	}
	if a.notifiers, err = newNotifiers(cfg, a.opts.sandbox.slack); err != nil {
		return nil, err
	}
	if a.interactions, err = a.newInteractions(cfg); err != nil {
		return nil, err
	}
	if a.proxy, err = proxy.New(p.proxy); err != nil {
		return nil, err
	}
	a.current.Store(&p.settings)
	return a, a.metrics.addPools(p.pools)
}

// Start opens the record, begins to monitor, and serves. When it fails, nothing is left open.
func (a *App) Start() error {
	for _, start := range []func() error{
		a.openRecord, a.startMonitor, a.startDrills, a.startServers, a.startInteractions,
	} {
		if err := start(); err != nil {
			ctx := context.Background()
			return errors.Join(err, a.stopDrills(ctx), a.servers.close(), a.stopMonitor(ctx), a.record.close(ctx))
		}
	}
	a.servers.serve()
	return nil
}

// Limits of what a start, a reload and a stop wait for.
const (
	storeOpenTimeout       = 2 * time.Minute  // opening the record, its check and its migration
	rulesReloadTimeout     = 5 * time.Second  // until the engine has taken new rules
	verdictTimeout         = 10 * time.Second // writing the verdict of a drill to the outbox
	drillStopTimeout       = 8 * time.Second  // until a drill has ended
	cancelGrace            = 2 * time.Second  // until tasks that were cut off after the drain time have ended
	interactionStopTimeout = 2 * time.Second  // accepted interactions; the record, which stops later, needs time too
	notifyTimeout          = 3 * time.Second  // messages in flight; others stay in the record for the next start
)

// Stop shuts down in order: a running drill is aborted and cleared, queued tasks are rejected, connections are no longer
// accepted, running tasks get the drain time (or ctx, if that is shorter) to finish, and what is left is cut off. The
// admin plane answers until the end. All calls return the first one's error. An App not started has nothing to stop.
func (a *App) Stop(ctx context.Context) error {
	a.stopOnce.Do(func() {
		if a.servers.failed != nil {
			a.stopErr = a.shutdown(ctx)
		}
	})
	return a.stopErr
}

func (a *App) shutdown(ctx context.Context) error {
	a.draining.Store(true)
	err := a.stopDrills(ctx)
	a.drain(time.Now())
	err = errors.Join(err, a.servers.stopData(ctx, a.config().Drain, a.opts.log))
	a.proxy.Close()
	err = errors.Join(err, stopServer(ctx, a.servers.admin))
	notify, cancel := context.WithTimeout(context.WithoutCancel(ctx), notifyTimeout)
	defer cancel()
	return errors.Join(err, a.stopMonitor(notify), a.record.close(notify))
}

// Failed delivers an error when a listener stops unexpectedly. Call it after Start.
func (a *App) Failed() <-chan error { return a.servers.failed }

// DataAddr returns the address of the data plane. Call it after Start.
func (a *App) DataAddr() string { return a.servers.data.Addr() }

// AdminAddr returns the address of the admin plane. Call it after Start.
func (a *App) AdminAddr() string { return a.servers.admin.Addr() }

// SlackAddr returns the address for requests from Slack; empty: none. Call it after Start.
func (a *App) SlackAddr() string {
	if a.interactions == nil {
		return ""
	}
	return a.interactions.Addr()
}

// Metrics returns what /metrics shows.
func (a *App) Metrics() prometheus.Gatherer { return a.metrics.registry }

// Pools returns the pools, in the order of the settings.
func (a *App) Pools() []Pool { return a.current.Load().pools }

// ready reports whether tasks are accepted.
func (a *App) ready() error {
	if a.draining.Load() {
		return errors.New("draining: shutting down")
	}
	return nil
}

// transports puts the transports of drills into pools.
func (a *App) transports(cfg *config.Config, pools []proxy.Pool) {
	for i := range pools {
		switch name := pools[i].Name; {
		case a.opts.sandbox.upstream != nil:
			pools[i].Transport = a.opts.sandbox.upstream
		case cfg.AllowLive:
			pools[i].WrapTransport = func(next http.RoundTripper) http.RoundTripper { return a.traffic.Transport(name, next) }
		}
	}
}
