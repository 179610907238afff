package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"headgate/runbooks/control"
)

// Orders carries out orders. *control.Controller does.
type Orders interface {
	// Do returns control.ErrNoPool or control.ErrUnexpected for an order that
	// was refused. With any error nothing was changed.
	Do(ctx context.Context, now time.Time, o control.Order) (control.Result, error)
}

// Statuses tells how headgate stands.
type Statuses interface{ Status(now time.Time) Status }

// Audit reads the record.
type Audit interface {
	// Changes returns what is recorded, newest first, or ErrUnknownKey.
	Changes(ctx context.Context, q ChangeQuery) (ChangePage, error)
}

// AdminConfig is what the admin API is made of. Incidents and Watch come
// together or not at all: without them there are no incidents and no silences. The
// other fields are required, but where they say so.
type AdminConfig struct {
	Token     string // see CheckToken
	Orders    Orders
	Statuses  Statuses
	Audit     Audit
	Incidents Incidents
	Watch     Watch
	Log       *slog.Logger

	Drills  *Drills // nil: there are no drills
	Actions Actions // nil: there are none

	Samples       Samples // nil: nothing is watched, there are no series
	AnonymousRead bool    // whoever reaches the listener may read without signing in
	Notes         Notes   // keeps logins and what was refused; nil: only the log tells
}

// Admin is the admin API. It serves any number of requests at once.
type Admin struct {
	door      *Door
	orders    Orders
	statuses  Statuses
	audit     Audit
	incidents Incidents // nil together with watch
	watch     Watch
	drills    *Drills       // nil: there are none
	actions   Actions       // nil: there are none
	samples   Samples       // nil: nothing is watched
	querying  chan struct{} // holds one for every query that is being answered
	log       *slog.Logger
	routes    *http.ServeMux
}

// NewAdmin returns the admin API, or an error if it could not be guarded.
func NewAdmin(c AdminConfig) (*Admin, error) {
	if err := CheckToken(c.Token); err != nil {
		return nil, fmt.Errorf("admin token: %w", err)
	}
	if c.Orders == nil || c.Statuses == nil || c.Audit == nil || c.Log == nil {
		return nil, errors.New("admin API: orders, statuses, audit and log must all be there")
	}
	if (c.Incidents == nil) != (c.Watch == nil) {
		return nil, errors.New("admin API: incidents and watch must both be there, or neither")
	}
	a := &Admin{
		door: newDoor(c), orders: pageOrders{c.Orders}, statuses: c.Statuses, audit: c.Audit, incidents: c.Incidents, watch: c.Watch, drills: c.Drills, actions: c.Actions,
		samples: c.Samples, querying: make(chan struct{}, seriesAtOnce), log: c.Log, routes: http.NewServeMux(),
	}
	a.route("/api/v1/status", methods{http.MethodGet: a.status})
	a.route("/api/v1/audit", methods{http.MethodGet: a.changes})
	a.route("/api/v1/mode", methods{http.MethodPut: a.putMode})
	a.route("/api/v1/pools/{pool}/mode", methods{http.MethodPut: a.putMode})
	a.route("/api/v1/incidents", methods{http.MethodGet: a.watched(a.listIncidents)})
	a.route("/api/v1/incidents/{id}", methods{http.MethodGet: a.watched(a.incident)})
	a.route("/api/v1/incidents/{id}/ack", methods{http.MethodPost: a.watched(a.ack)})
	a.route("/api/v1/silences", methods{http.MethodGet: a.watched(a.silences), http.MethodPost: a.watched(a.silence)})
	a.route("/api/v1/silences/{id}", methods{http.MethodDelete: a.watched(a.lift)})
	a.route("/api/v1/login-links", methods{http.MethodPost: a.link})
	a.route("/api/v1/series", methods{http.MethodGet: a.series})
	a.routeDrills()
	a.routeActions()
	a.routes.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		WriteProblem(w, Problem{Status: http.StatusNotFound,
			Detail: "There are status, mode, pools/{pool}/mode, audit, incidents, silences, series, actions, drills and runs, below /api/v1/."})
	})
	return a, nil
}

// methods says what serves a path.
type methods map[string]http.HandlerFunc

// route serves a path by some methods.
func (a *Admin) route(path string, by methods) { a.routes.HandleFunc(path, by.handler()) }

// handler serves each method as it says, and the others with 405; GET serves
// HEAD too.
func (by methods) handler() http.HandlerFunc {
	if get := by[http.MethodGet]; get != nil {
		by[http.MethodHead] = get
	}
	allow := strings.Join(slices.Sorted(maps.Keys(by)), ", ")
	return func(w http.ResponseWriter, r *http.Request) {
		h := by[r.Method]
		if h == nil {
			w.Header().Set("Allow", allow)
			WriteProblem(w, Problem{Status: http.StatusMethodNotAllowed, Detail: "The method must be " + allow + "."})
			return
		}
		h(w, r)
	}
}

// Door returns what lets people in here, for the pages.
func (a *Admin) Door() *Door { return a.door }

// ServeHTTP lets nothing through that a page of another site sent, and nothing
// without the token or a session. Whoever may read anonymously may only read.
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.door.Check(r) != nil {
		WriteProblem(w, Problem{Type: TypeCrossSite, Status: http.StatusForbidden,
			Detail: "A page of another site must not give orders here."})
		return
	}
	if a.door.guard.lets(r) {
		a.routes.ServeHTTP(w, r)
		return
	}
	if r.Header.Get("Authorization") != "" {
		a.refuseToken(w, r)
		return
	}
	s, ok := a.door.Session(r, false)
	switch {
	case ok && !reads(r.Method) && !s.Owns(r.Header.Get(FormHeader)):
		a.door.Stale(r)
		WriteProblem(w, Problem{Type: TypeStaleForm, Status: http.StatusForbidden,
			Detail: "A write with a session's cookie needs its form token as " + FormHeader + "."})
	case ok:
		in := r.Clone(r.Context())
		in.Header.Set(ActorHeader, s.Actor)
		a.routes.ServeHTTP(w, in)
	case a.door.anonymous && reads(r.Method):
		a.routes.ServeHTTP(w, r)
	default:
		a.refuseToken(w, r)
	}
}

// refuseToken answers a request without the right token. One without any is
// told so and does not count: it guesses nothing.
func (a *Admin) refuseToken(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="headgate"`)
	const how = "Send the token from HEADGATE_TOKEN or from headgate.token in the data directory as Authorization: Bearer TOKEN."
	if r.Header.Get("Authorization") == "" {
		WriteProblem(w, Problem{Type: TypeBadToken, Status: http.StatusUnauthorized, Detail: "There is no token. " + how})
		return
	}
	if wait := a.door.turnAway(r, "login", "a wrong token"); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		w.Header().Set("Connection", "close")
		WriteProblem(w, Problem{Type: TypeBadToken, Status: http.StatusTooManyRequests, Detail: "Too many wrong tokens. The right one is still taken."})
		return
	}
	WriteProblem(w, Problem{Type: TypeBadToken, Status: http.StatusUnauthorized, Detail: "The token is not the right one. " + how})
}

// cut bounds what a stranger can put into the log.
func cut(s string) string { return s[:min(len(s), 200)] }

// Handler serves the open endpoints and the admin API from one listener.
func Handler(ops Ops, admin http.Handler) http.Handler {
	open := ops.Handler()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ContentLength != 0 {
			// The server reads what a handler has left of a body before it answers,
			// and would wait for it for as long as the client likes.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // not every writer has one
		}
		switch {
		case path.Clean(r.URL.Path) != r.URL.Path:
			// The muxes would redirect, and pools/../mode is every pool's: a write
			// must mean what it says.
			WriteProblem(w, Problem{Status: http.StatusNotFound, Detail: "The path must have no empty parts and no dots for parts."})
		case r.URL.Path == "/api" || strings.HasPrefix(r.URL.Path, "/api/"):
			admin.ServeHTTP(w, r)
		default:
			open.ServeHTTP(w, r)
		}
	})
}
