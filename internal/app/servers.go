package app

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"time"

	"headgate/alerts/slack"
	"headgate/internal/config"
	"headgate/internal/lifecycle"
	"headgate/proxy"
	"headgate/web/api"
	"headgate/web/auth"
	"headgate/web/ui"
)

// servers are the data plane and the admin plane. Either is nil until its listener is open.
type servers struct {
	data, admin *lifecycle.Server
	auth        *api.Auth
	failed      chan error // holds one error of each server
}

// startServers builds both planes and opens their listeners. Connections wait there until serve is called.
func (a *App) startServers() error {
	cfg := a.config()
	admin, pages, err := a.adminPlane(cfg)
	if err != nil {
		return err
	}
	a.servers.auth = admin.Auth()
	hosts := func() []string { return a.current.Load().hosts }
	ops := api.Ops{Metrics: a.metrics.registry, Ready: a.ready, Pages: pages}
	data := api.HostGuard(a.traffic.Ingress(a.proxy), hosts, proxy.RejectHost)
	a.servers.data, err = lifecycle.Listen("listen", cfg.Listen, data, a.opts.component("data"))
	if err != nil {
		return err
	}
	a.servers.data.SetTimeouts(cfg.ClientTimeouts.Header, cfg.ClientTimeouts.Idle)
	people := api.HostGuard(api.Handler(ops, admin), hosts, a.servers.auth.RejectHost)
	a.servers.admin, err = lifecycle.Listen("admin.listen", cfg.Admin.Listen, people, a.opts.component("admin"))
	return err
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
		Drills: a.drillAPI(), Log: a.opts.component("web"), AnonymousRead: cfg.Admin.AnonymousRead,
	}
	u := ui.Config{Control: a.record.control, Facts: a.poolFacts, SLO: a.record.store.SLO, Log: a.opts.component("pages")}
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
	if a.opts.ephemeral {
		a.opts.log.Warn("admin token is random and not shown: set admin.token to use the admin API")
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
	s.failed = make(chan error, 2)
	s.data.Serve(s.failed)
	s.admin.Serve(s.failed)
}

// close closes listeners that do not serve yet.
func (s *servers) close() error { return errors.Join(s.data.Close(), s.admin.Close()) }

// stopData closes the data plane. Tasks in flight get the drain time; what is left is cut off.
func (s *servers) stopData(ctx context.Context, drainTime time.Duration, log *slog.Logger) error {
	drain, cancel := context.WithTimeout(ctx, drainTime)
	defer cancel()
	err := s.data.Drain(drain)
	if errors.Is(err, context.DeadlineExceeded) {
		log.Warn("drain time is over, cutting off the tasks in flight", "drain", drainTime)
		err = nil
	}
	s.data.Cancel(proxy.ErrDrainTimeout)
	return errors.Join(err, stopServer(ctx, s.data))
}

// stopServer stops a server within cancelGrace.
func stopServer(ctx context.Context, s *lifecycle.Server) error {
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelGrace)
	defer cancel()
	return s.Stop(grace)
}
