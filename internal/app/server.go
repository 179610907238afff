package app

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"slices"
	"strings"
	"time"

	"headgate/alerts/slack"
	"headgate/internal/config"
	"headgate/proxy"
	"headgate/web/api"
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
	ops := api.Ops{Metrics: a.registry, Ready: a.ready, Pages: people}
	a.dataServer = newServer(a.requireAllowedHost(a.traffic.Ingress(a.proxy), proxy.RejectHost), a.log.With("component", "data"))
	a.dataServer.BaseContext = func(net.Listener) context.Context { return ctx }
	a.adminServer = newServer(a.requireAllowedHost(api.Handler(ops, admin), a.rejectAdminHost), a.log.With("component", "admin"))
	return nil
}

// requireAllowedHost lets only requests through whose Host is one of ours, so that a web
// page cannot reach a listener by a name of its own (DNS rebinding).
func (a *App) requireAllowedHost(next http.Handler, deny http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isHTTP10WithoutHost(r) && !isAllowedHost(r.Host, *a.allowedHosts.Load()) {
			// net/http reads on for what a stranger has announced, but not for ever.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readHeaderTimeout))
			deny(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isHTTP10WithoutHost tells whether a request names no host because it is HTTP/1.0, as the
// checks of some load balancers are. No browser sends such, so no page is behind
// it.
func isHTTP10WithoutHost(r *http.Request) bool { return r.Host == "" && !r.ProtoAtLeast(1, 1) }

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

// isAllowedHost accepts known names and IP addresses: a page that was loaded from
// an address cannot be another's.
func isAllowedHost(hostport string, known []string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return slices.Contains(known, host)
}

// rejectAdminHost refuses, and lets the audit know: a page somewhere may be trying its
// luck with the browser of somebody who has signed in.
func (a *App) rejectAdminHost(w http.ResponseWriter, r *http.Request) {
	a.auth.RejectHost(r)
	api.WriteProblem(w, api.Problem{Status: http.StatusMisdirectedRequest, Detail: "Unknown host name. If it is a name of this server, add it to hosts in the settings."})
}
