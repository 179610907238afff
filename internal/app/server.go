package app

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"time"

	"headgate/alerts/slack"
	"headgate/internal/config"
	"headgate/proxy"
	"headgate/web/api"
	"headgate/web/auth"
)

// Bounds of what a slow or greedy client can hold of a listener. There is no
// bound on whole requests and answers: long ones are normal here, and each
// piece of them has a deadline of its own.
const (
	readHeaderTimeout = 10 * time.Second
	keepAliveTimeout  = 2 * time.Minute
	maxHeaderBytes    = 64 << 10
)

func newServer(h http.Handler, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       keepAliveTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
}

// buildServers makes both servers.
func (a *App) buildServers() error {
	token, err := a.adminToken()
	if err != nil {
		return err
	}
	a.traffic.SetMarkToken(token.Reveal())
	c := api.AdminConfig{
		Token: token.Reveal(), Control: a.control, Status: a, Audit: auditReader{a.store}, AuditLog: a.auditor, Log: a.log.With("component", "web"),
		AnonymousRead: a.cfg.Admin.AnonymousRead,
	}
	c.Drills = a.drillAPI()
	if a.monitor != nil {
		words, err := slack.NewPlainTextRenderer(a.cfg.Admin.ExternalURL)
		if err != nil {
			return a.cfg.At("admin.external_url", err)
		}
		c.Incidents = incidentReader{a.store, words}
		c.Samples = a.monitor.samples
	}
	admin, err := api.NewAdmin(c)
	if err != nil {
		return a.cfg.At("admin.token", err)
	}
	a.auth = admin.Auth()
	people, err := a.newUI(admin)
	if err != nil {
		return err
	}
	ctx, cut := context.WithCancelCause(context.Background())
	a.cancelTasks = cut
	names := func() []string { return *a.allowedHosts.Load() }
	ops := api.Ops{Metrics: a.registry, Ready: a.ready, Pages: people}
	a.dataServer = newServer(api.HostGuard(a.traffic.Ingress(a.proxy), names, proxy.RejectHost), a.log.With("component", "data"))
	a.dataServer.BaseContext = func(net.Listener) context.Context { return ctx }
	a.adminServer = newServer(api.HostGuard(api.Handler(ops, admin), names, a.auth.RejectHost), a.log.With("component", "admin"))
	return nil
}

// hostNames are the names by which this headgate may be called, in lower case.
func hostNames(cfg *config.Config) *[]string {
	known := []string{"localhost"}
	if name, err := os.Hostname(); err == nil {
		known = append(known, strings.ToLower(name))
	}
	for _, address := range []string{cfg.Listen, cfg.Admin.Listen} {
		if host, _, err := net.SplitHostPort(address); err == nil && host != "" {
			known = append(known, strings.ToLower(host))
		}
	}
	for _, host := range cfg.Hosts {
		known = append(known, strings.ToLower(host))
	}
	return &known
}

// adminToken returns the token of the admin API: the one in the settings, or the one in the data directory, which is made
// at the first start.
func (a *App) adminToken() (config.Secret, error) {
	if t := a.cfg.Admin.Token; !t.Empty() {
		return t, nil
	}
	if a.ephemeral {
		a.log.Warn("the admin API has a random token: set admin.token to use it")
		return config.NewSecret(rand.Text()), nil
	}
	token, err := Token(a.cfg.DataDir)
	if !errors.Is(err, fs.ErrNotExist) {
		return token, err
	}
	made, err := auth.MakeToken(a.cfg.DataDir)
	return config.NewSecret(made), err
}

// Token reads the token from a data directory. The error is fs.ErrNotExist if there is none yet.
func Token(dir string) (config.Secret, error) {
	token, err := auth.ReadToken(dir)
	return config.NewSecret(token), err
}
