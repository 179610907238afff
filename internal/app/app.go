package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"golang.org/x/sync/errgroup"

	"headgate/internal/config"
	"headgate/proxy"
	"headgate/web"
)

// cutTime is how long a stop waits, after the drain time, for tasks that it has
// cut off to notice.
const cutTime = 2 * time.Second

var errDraining = errors.New("draining: going down")

// App is one headgate. Stop it once it has been started; New alone holds
// nothing that would have to be given back.
type App struct {
	cfg      *config.Config
	log      *slog.Logger
	registry *prometheus.Registry
	pools    []Pool
	proxy    *proxy.Proxy
	draining atomic.Bool
	cut      context.CancelCauseFunc // ends the tasks that still run

	data, admin *http.Server
	listeners   [2]net.Listener
	serving     errgroup.Group
	failed      chan error
	stop        sync.Once
	stopErr     error
}

// New builds an App and checks what only its parts can check. Errors carry the
// position of the setting.
func New(cfg *config.Config, version string, log *slog.Logger) (*App, error) {
	a := &App{cfg: cfg, log: log, registry: prometheus.NewRegistry(), failed: make(chan error, 2)}
	metrics, err := a.metrics(version)
	if err != nil {
		return nil, err
	}
	data := proxy.Config{Observer: metrics, Log: log.With("component", "proxy")}
	if data.Clients, err = clients(cfg); err != nil {
		return nil, err
	}
	for i := range cfg.Pools {
		p, err := pool(cfg, i)
		if err != nil {
			return nil, err
		}
		if err := metrics.AddPool(p.Name, p.SLO, p.Gate); err != nil {
			return nil, fmt.Errorf("metrics of pool %q: %w", p.Name, err)
		}
		data.Pools = append(data.Pools, p)
		a.pools = append(a.pools, Pool{Name: p.Name, SLO: p.SLO, Gate: p.Gate})
	}
	if a.proxy, err = proxy.New(data); err != nil {
		return nil, err
	}
	a.servers()
	return a, nil
}

func (a *App) metrics(version string) (*proxy.Metrics, error) {
	build := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "headgate_build_info", Help: "1; the version is in the label.",
		ConstLabels: prometheus.Labels{"version": version},
	}, func() float64 { return 1 })
	for _, c := range []prometheus.Collector{
		build, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := a.registry.Register(c); err != nil {
			return nil, err
		}
	}
	return proxy.NewMetrics(a.registry)
}

func (a *App) servers() {
	ctx, cut := context.WithCancelCause(context.Background())
	a.cut = cut
	ops := web.Ops{Metrics: a.registry, Ready: a.ready}
	a.data = newServer(a.hostGuard(a.proxy, foreignData), a.log.With("component", "data"))
	a.data.BaseContext = func(net.Listener) context.Context { return ctx }
	a.admin = newServer(a.hostGuard(ops.Handler(), foreignAdmin), a.log.With("component", "admin"))
}

func (a *App) ready() error {
	if a.draining.Load() {
		return errDraining
	}
	return nil
}

// Start opens both listeners and serves. When it fails, nothing is left open.
func (a *App) Start() error {
	for i, address := range []string{a.cfg.Listen, a.cfg.Admin.Listen} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			a.closeListeners()
			return fmt.Errorf("%s: %w", [2]string{"listen", "admin.listen"}[i], err)
		}
		a.listeners[i] = l
	}
	for i, server := range []*http.Server{a.data, a.admin} {
		a.serving.Go(func() error {
			err := server.Serve(a.listeners[i])
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			a.failed <- err
			return err
		})
	}
	return nil
}

func (a *App) closeListeners() {
	for _, l := range a.listeners {
		if l != nil {
			_ = l.Close()
		}
	}
}

// Failed delivers an error when a listener stops by itself.
func (a *App) Failed() <-chan error { return a.failed }

// DataAddr returns the address of the data plane; call it after Start.
func (a *App) DataAddr() string { return a.listeners[0].Addr().String() }

// AdminAddr returns the address of the admin plane; call it after Start.
func (a *App) AdminAddr() string { return a.listeners[1].Addr().String() }

// Metrics returns what /metrics shows.
func (a *App) Metrics() prometheus.Gatherer { return a.registry }

// Pools returns the pools, in the order of the settings.
func (a *App) Pools() []Pool { return a.pools }

// Stop goes down in order: those who wait are turned away, no new connection is
// taken, those who run get the drain time (or ctx, if that is shorter) to
// finish, and what is left is cut off. The admin plane answers until the end.
// It may be called more than once; all calls return the first one's error.
func (a *App) Stop(ctx context.Context) error {
	a.stop.Do(func() { a.stopErr = a.shutdown(ctx) })
	return a.stopErr
}

func (a *App) shutdown(ctx context.Context) error {
	a.draining.Store(true)
	a.proxy.Drain(time.Now())
	drain, cancel := context.WithTimeout(ctx, a.cfg.Drain)
	defer cancel()
	err := a.data.Shutdown(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		a.log.Warn("drain time is over, cutting off what still runs", "drain", a.cfg.Drain)
		err = nil
	}
	a.cut(proxy.ErrDraining)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), cutTime)
	defer cancel()
	if a.data.Shutdown(grace) != nil {
		err = errors.Join(err, a.data.Close())
	}
	a.proxy.Close()
	if a.admin.Shutdown(grace) != nil {
		err = errors.Join(err, a.admin.Close())
	}
	return errors.Join(err, a.serving.Wait())
}
