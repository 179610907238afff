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
	"golang.org/x/sync/errgroup"

	"headgate/alerts/slack"
	"headgate/engine"
	"headgate/engine/rules"
	"headgate/internal/config"
	"headgate/internal/sqlite"
	"headgate/proxy"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/sandbox"
	"headgate/runbooks/drill/service"
	"headgate/web/api"
)

// App is one headgate. Stop it once it has been started; New alone holds
// nothing that would have to be given back.
type App struct {
	version  string
	log      *slog.Logger
	registry *prometheus.Registry
	metrics  *proxy.Metrics
	proxy    *proxy.Proxy
	draining atomic.Bool

	ephemeral         bool
	withoutMonitoring bool
	timeScale         engine.TimeScale
	sandbox           sandboxOverrides
	traffic           sandbox.Traffic
	drills            *service.Service // nil: there are none
	drillMetrics      *service.Metrics
	drillSpecs        []drill.Spec // guarded by mu
	modeMetrics       *control.Metrics
	monitorMetrics    monitorMetrics
	notifiers         notifiers
	interactions      *slack.Interactions // nil: Slack cannot reach this headgate
	store             *sqlite.Store
	modes             *control.Controller
	auditor           *control.AuditLog
	pauses            *control.Pauses
	control           *control.Service
	autoRollback      *control.AutoRollback // nil when unwatched
	monitor           *monitor              // nil while not started, or unwatched
	closeStore        func() error
	cancelTasks       context.CancelCauseFunc // ends the tasks that still run

	auth                    *api.Auth
	dataServer, adminServer *http.Server
	listeners               [2]net.Listener
	serving                 errgroup.Group
	serveErrors             chan error
	started                 bool
	stopOnce                sync.Once
	stopErr                 error

	allowedHosts atomic.Pointer[[]string] // by which this headgate may be called
	mu           sync.Mutex
	cfg          *config.Config
	pools        []Pool
	rules        []engine.Rule
	gates        map[string]*admission.Gate // of all pools ever, so that those who are gone drain
}

// Option changes what an App is made of.
type Option func(*App)

// Ephemeral keeps the record in memory and nothing on disk: modes and audit are
// forgotten when the App stops.
func Ephemeral() Option { return func(a *App) { a.ephemeral = true } }

// TimeScale evaluates rules for a scenario that is played so many times faster than real time, 1 to 1000.
func TimeScale(speed float64) Option { return func(a *App) { a.timeScale = engine.TimeScale(speed) } }

// WithoutMonitoring takes no samples, evaluates no rules and tells nobody: for what is
// short-lived and watched by somebody else.
func WithoutMonitoring() Option { return func(a *App) { a.withoutMonitoring = true } }

// New builds an App and checks what only its parts can check. It opens nothing.
// Errors carry the position of the setting.
func New(cfg *config.Config, version string, log *slog.Logger, options ...Option) (*App, error) {
	a := &App{
		version: version, cfg: cfg, log: log, registry: prometheus.NewRegistry(),
		traffic: sandbox.Traffic{Tag: proxy.WithDrillTraffic}, serveErrors: make(chan error, 2), gates: make(map[string]*admission.Gate),
	}
	for _, o := range options {
		o(a)
	}
	if err := a.timeScale.Validate(); err != nil {
		return nil, err
	}
	var err error
	if a.metrics, err = newMetrics(a.registry, version); err != nil {
		return nil, err
	}
	a.metrics.SetTimeScale(float64(a.timeScale))
	if a.modeMetrics, err = control.NewMetrics(a.registry); err != nil {
		return nil, err
	}
	if a.monitorMetrics, err = newMonitorMetrics(a.registry); err != nil {
		return nil, err
	}
	if a.drillMetrics, err = service.NewMetrics(a.registry); err != nil {
		return nil, err
	}
	if a.drillSpecs, err = drillSpecs(cfg); err != nil {
		return nil, err
	}
	if a.notifiers, err = newNotifiers(cfg, a.sandbox.slack); err != nil {
		return nil, err
	}
	if a.interactions, err = a.newInteractions(cfg); err != nil {
		return nil, err
	}
	if t := cfg.Admin.Token; !t.Empty() && api.CheckToken(t.Reveal()) != nil {
		return nil, cfg.At("admin.token", api.CheckToken(t.Reveal()))
	}
	p, err := planConfig(cfg, nil)
	if err != nil {
		return nil, err
	}
	p.data.Observer, p.data.Log = a.metrics, log.With("component", "proxy")
	a.setTransports(cfg, p.data.Pools)
	if a.proxy, err = proxy.New(p.data); err != nil {
		return nil, err
	}
	if err := a.addPools(p); err != nil {
		return nil, err
	}
	if a.sandbox.rules != nil {
		p.rules = a.sandbox.rules
	}
	if a.rules, err = rules.Scale(p.rules, a.timeScale, cfg.Rules.Interval); err != nil {
		return nil, err
	}
	a.allowedHosts.Store(hostNames(cfg))
	return a, nil
}

// addPools makes a plan's pools known, and gives new ones their metrics.
func (a *App) addPools(p configPlan) error {
	a.pools = nil
	for _, pool := range p.data.Pools {
		if err := a.metrics.AddPool(pool.Name, pool.SLO, pool.Gate); err != nil {
			return fmt.Errorf("metrics of pool %q: %w", pool.Name, err)
		}
		a.gates[pool.Name] = pool.Gate
		a.pools = append(a.pools, Pool{Name: pool.Name, SLO: pool.SLO, Gate: pool.Gate})
	}
	return nil
}

// Start opens the record and both listeners, watches and serves. When it fails,
// nothing is left open.
func (a *App) Start() error {
	if err := a.openStore(); err != nil {
		return err
	}
	a.startStoreWriters()
	if err := a.startServices(); err != nil {
		a.closeListeners()
		return errors.Join(err, a.stopDrills(context.Background()), a.stopMonitor(context.Background()), a.closeStore())
	}
	a.started = true
	for i, server := range []*http.Server{a.dataServer, a.adminServer} {
		a.serving.Go(func() error {
			err := server.Serve(a.listeners[i])
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			a.serveErrors <- err
			return err
		})
	}
	return nil
}

func (a *App) startServices() error {
	if !a.withoutMonitoring {
		if err := a.startMonitor(a.rules); err != nil {
			return err
		}
	}
	if a.drillsEnabled() {
		if err := a.startDrills(); err != nil {
			return err
		}
	}
	if err := a.listen(); err != nil {
		return err
	}
	return a.startInteractions(a.monitor)
}

// listen makes the servers and opens their listeners.
func (a *App) listen() error {
	if err := a.buildServers(); err != nil {
		return err
	}
	for i, address := range []string{a.cfg.Listen, a.cfg.Admin.Listen} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			return fmt.Errorf("%s: %w", [2]string{"listen", "admin.listen"}[i], err)
		}
		a.listeners[i] = l
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
func (a *App) Failed() <-chan error { return a.serveErrors }

// DataAddr returns the address of the data plane; call it after Start.
func (a *App) DataAddr() string { return a.listeners[0].Addr().String() }

// AdminAddr returns the address of the admin plane; call it after Start.
func (a *App) AdminAddr() string { return a.listeners[1].Addr().String() }

// Metrics returns what /metrics shows.
func (a *App) Metrics() prometheus.Gatherer { return a.registry }

// Pools returns the pools, in the order of the settings.
func (a *App) Pools() []Pool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.pools
}

func (a *App) ready() error {
	if a.draining.Load() {
		return errDraining
	}
	return nil
}

// drainGates turns away everybody who waits, and from now on everybody who comes.
func (a *App) drainGates(now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, g := range a.gates {
		g.Drain(now)
	}
}
