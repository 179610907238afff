package app

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"headgate/alerts/slack"
	"headgate/internal/config"
	"headgate/proxy"
	"headgate/web/api"
	"headgate/web/auth"
	"headgate/web/ui"
)

// Bounds of what a slow or greedy client can hold of a listener. Whole requests and answers have no bound: long ones are
// normal here, and each piece of them has a deadline of its own.
const (
	readHeaderTimeout = 10 * time.Second
	keepAliveTimeout  = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

// servers are the data plane and the admin plane. The methods of a nil *servers do nothing.
type servers struct {
	data, admin server
	auth        *api.Auth
	cancelTasks context.CancelCauseFunc // ends the tasks in flight
	group       errgroup.Group
	failed      chan error // holds one error of each server
}

// server is an HTTP server with its listener.
type server struct {
	http     *http.Server
	listener net.Listener
}

func listen(setting, address string, h http.Handler, log *slog.Logger) (server, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return server{}, fmt.Errorf("%s: %w", setting, err)
	}
	return server{listener: l, http: newServer(h, log)}, nil
}

func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       keepAliveTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// startServers builds both planes and opens their listeners. Connections wait there until serve is called.
func (a *App) startServers() error {
	cfg := a.current.config()
	admin, pages, err := a.adminPlane(cfg)
	if err != nil {
		return err
	}
	s := &servers{auth: admin.Auth(), failed: make(chan error, 2)}
	a.servers = s
	ops := api.Ops{Metrics: a.metrics.registry, Ready: a.ready, Pages: pages}
	data := api.HostGuard(a.traffic.Ingress(a.proxy), a.current.allowedHosts, proxy.RejectHost)
	if s.data, err = listen("listen", cfg.Listen, data, a.log.With("component", "data")); err != nil {
		return err
	}
	people := api.HostGuard(api.Handler(ops, admin), a.current.allowedHosts, s.auth.RejectHost)
	if s.admin, err = listen("admin.listen", cfg.Admin.Listen, people, a.log.With("component", "admin")); err != nil {
		return err
	}
	tasks, cancel := context.WithCancelCause(context.Background())
	s.cancelTasks, s.data.http.BaseContext = cancel, func(net.Listener) context.Context { return tasks }
	return nil
}

// adminPlane builds the admin API and the pages.
func (a *App) adminPlane(cfg *config.Config) (*api.Admin, *ui.Pages, error) {
	token, err := a.adminToken(cfg)
	if err != nil {
		return nil, nil, err
	}
	a.traffic.SetMarkToken(token)
	c := api.AdminConfig{
		Token: token, Control: a.record.control, Status: a, Audit: a.record.store, AuditLog: a.record.audit,
		Drills: a.drillAPI(), Log: a.log.With("component", "web"), AnonymousRead: cfg.Admin.AnonymousRead,
	}
	u := ui.Config{Control: a.record.control, Facts: a.poolFacts, SLO: a.record.store.SLO, Log: a.log.With("component", "pages")}
	if a.monitor != nil {
		renderer, err := slack.NewPlainTextRenderer(cfg.Admin.ExternalURL)
		if err != nil {
			return nil, nil, cfg.At("admin.external_url", err)
		}
		c.Incidents, c.Samples, u.Samples = incidentReader{a.record.store, renderer}, a.monitor.samples, a.monitor.samples
	}
	admin, err := api.NewAdmin(c)
	if err != nil {
		return nil, nil, cfg.At("admin.token", err)
	}
	u.Admin = admin
	pages, err := ui.New(u)
	return admin, pages, err
}

// adminToken returns the token of the admin API: the one in the settings, or the one in the data directory, which is made
// at the first start.
func (a *App) adminToken(cfg *config.Config) (string, error) {
	if t := cfg.Admin.Token; !t.Empty() {
		return t.Reveal(), nil
	}
	if a.ephemeral {
		a.log.Warn("admin token is random and not shown: set admin.token to use the admin API")
		return rand.Text(), nil
	}
	if token, err := auth.ReadToken(cfg.DataDir); !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	return auth.MakeToken(cfg.DataDir)
}

// checkAdminToken checks the token in the settings, if there is one.
func checkAdminToken(cfg *config.Config) error {
	if t := cfg.Admin.Token; !t.Empty() {
		return cfg.At("admin.token", auth.CheckToken(t.Reveal()))
	}
	return nil
}

// LoginPath returns the path of a one-time login link, below the URL of the admin listener. It works once,
// within a few minutes. Call it after Start.
func (a *App) LoginPath(actor string) string {
	code, _ := a.servers.auth.CreateLink(actor)
	return api.LoginLinkPath(code)
}

// serve accepts connections until the servers are stopped.
func (s *servers) serve() {
	for _, plane := range []server{s.data, s.admin} {
		s.group.Go(func() error {
			err := plane.http.Serve(plane.listener)
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			s.failed <- err
			return err
		})
	}
}

// serving reports whether both listeners are open.
func (s *servers) serving() bool { return s != nil && s.admin.listener != nil }

// close closes listeners that do not serve yet.
func (s *servers) close() error {
	if s == nil {
		return nil
	}
	for _, plane := range []server{s.data, s.admin} {
		if plane.listener != nil {
			_ = plane.listener.Close()
		}
	}
	return nil
}

// stopData closes the data plane. Tasks in flight get the drain time; what is left is cut off.
func (s *servers) stopData(ctx context.Context, drainTime time.Duration, log *slog.Logger) (err error) {
	drain, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	if down := s.data.http.Shutdown(drain); errors.Is(down, context.DeadlineExceeded) {
		log.Warn("drain time is over, cutting off the tasks in flight", "drain", drainTime)
	} else {
		err = down
	}
	s.cancelTasks(proxy.ErrDrainTimeout)
	return errors.Join(err, s.data.shutdown(ctx))
}

// stopAdmin closes the admin plane, and waits until both servers have ended.
func (s *servers) stopAdmin(ctx context.Context) error {
	return errors.Join(s.admin.shutdown(ctx), s.group.Wait())
}

// shutdown closes a server after cancelGrace at most.
func (s server) shutdown(ctx context.Context) error {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
	defer cancel()
	if s.http.Shutdown(grace) != nil {
		return s.http.Close()
	}
	return nil
}
