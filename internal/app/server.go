package app

import (
	"context"
	"encoding/json"
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
	"headgate/runbooks/control"
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

// servers makes both servers.
func (a *App) servers() error {
	token, err := a.adminToken()
	if err != nil {
		return err
	}
	a.live.key = markKey(token.Reveal())
	c := api.AdminConfig{
		Token: token.Reveal(), Orders: control.Modes{Registry: a.actions}, Statuses: a, Audit: audit{a.store}, Notes: a.auditor, Actions: a.actions, Log: a.log.With("component", "web"),
		AnonymousRead: a.cfg.Admin.AnonymousRead,
	}
	c.Drills = a.drillPorts()
	if a.watch != nil {
		words, err := slack.NewWording(a.cfg.Admin.ExternalURL)
		if err != nil {
			return a.cfg.At("admin.external_url", err)
		}
		c.Incidents = incidents{a.store, words}
		c.Watch = control.Watched{Engine: a.watch.engine, Registry: a.actions, Via: api.Via}
		c.Samples = a.watch.samples
	}
	admin, err := api.NewAdmin(c)
	if err != nil {
		return a.cfg.At("admin.token", err)
	}
	a.door = admin.Door()
	people, err := a.newPages(admin)
	if err != nil {
		return err
	}
	ctx, cut := context.WithCancelCause(context.Background())
	a.cut = cut
	ops := api.Ops{Metrics: a.registry, Ready: a.ready, Pages: people}
	a.data = newServer(a.hostGuard(a.came.count(a.live.door(a.proxy)), foreignData), a.log.With("component", "data"))
	a.data.BaseContext = func(net.Listener) context.Context { return ctx }
	a.admin = newServer(a.hostGuard(api.Handler(ops, admin), a.foreignAdmin), a.log.With("component", "admin"))
	return nil
}

// hostGuard lets only requests through whose Host is one of ours, so that a web
// page cannot reach a listener by a name of its own (DNS rebinding).
func (a *App) hostGuard(next http.Handler, deny http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !nameless(r) && !hostAllowed(r.Host, *a.hosts.Load()) {
			// net/http reads on for what a stranger has announced, but not for ever.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(readHeaderTimeout))
			deny(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// nameless tells whether a request names no host because it is HTTP/1.0, as the
// checks of some load balancers are. No browser sends such, so no page is behind
// it.
func nameless(r *http.Request) bool { return r.Host == "" && !r.ProtoAtLeast(1, 1) }

// knownHosts are the names by which this headgate may be called, in lower case.
func knownHosts(cfg *config.Config) *[]string {
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

// hostAllowed accepts known names and IP addresses: a page that was loaded from
// an address cannot be another's.
func hostAllowed(hostport string, known []string) bool {
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

const foreignHost = "This host name is not known here. Add it to hosts in the settings if it should be."

// foreignAdmin refuses, and lets the audit know: a page somewhere may be trying its
// luck with the browser of somebody who has signed in.
func (a *App) foreignAdmin(w http.ResponseWriter, r *http.Request) {
	a.door.Foreign(r)
	api.WriteProblem(w, api.Problem{Status: http.StatusMisdirectedRequest, Detail: foreignHost})
}

// foreignData says the same in OpenAI's shape.
func foreignData(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusMisdirectedRequest)
	// The client may have gone.
	_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{
		"message": foreignHost, "type": "invalid_request_error", "param": nil, "code": "unknown_host",
	}})
}
