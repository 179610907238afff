package api

import (
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

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"headgate/runbooks"
	"headgate/runbooks/control"
	"headgate/web/auth"
)

// AdminConfig has the parts of the admin API. All fields are required unless marked as optional.
type AdminConfig struct {
	Token     string // see auth.CheckToken
	Control   *control.Service
	Status    StatusSource
	Audit     AuditReader
	Incidents IncidentReader // nil if Control has no rules engine
	Log       *slog.Logger

	Drills        *DrillPorts       // nil: there are no drills
	Samples       SampleReader      // nil: there are no series
	AnonymousRead bool              // all clients that reach the listener may read without signing in
	AuditLog      control.AuditSink // records logins and refused attempts; nil: only the log does
}

// Admin is the admin API. It serves any number of requests at once.
type Admin struct {
	config     AdminConfig
	auth       *Auth
	querySlots chan struct{} // holds one for every query that is being answered
	routes     *http.ServeMux
}

// NewAdmin returns the admin API, or an error if it could not be guarded.
func NewAdmin(c AdminConfig) (*Admin, error) {
	if err := auth.CheckToken(c.Token); err != nil {
		return nil, fmt.Errorf("admin token: %w", err)
	}
	if c.Control == nil || c.Status == nil || c.Audit == nil || c.Log == nil {
		return nil, errors.New("admin API: control, status, audit and log are required")
	}
	if (c.Incidents == nil) != (c.Control.Engine() == nil) {
		return nil, errors.New("admin API: incidents and a rules engine go together")
	}
	a := &Admin{config: c, auth: newAuth(c), querySlots: make(chan struct{}, maxConcurrentQueries), routes: http.NewServeMux()}
	a.route(nil, map[string]methodHandlers{
		"status":            {http.MethodGet: a.read(func(*http.Request) (any, error) { return a.Status(), nil })},
		"audit":             {http.MethodGet: page(a, parseAuditQuery, a.Audit, "since", "pool", "kind", "after", "limit")},
		"mode":              {http.MethodPut: write(a, a.putMode)},
		"pools/{pool}/mode": {http.MethodPut: write(a, a.putMode)},
		"login-links":       {http.MethodPost: a.read(a.createLoginLink)},
		"series":            {http.MethodGet: a.handle(a.series, "query", "from", "to", "step")},
		"actions":           {http.MethodGet: a.read(func(*http.Request) (any, error) { return ActionList{Items: actions()}, nil })},
		"actions/{name}":    {http.MethodPost: write(a, a.doAction)},
	})
	a.routeIncidents()
	a.routeDrills()
	a.routes.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		WriteProblem(w, Problem{Status: http.StatusNotFound,
			Detail: "There are status, mode, pools/{pool}/mode, audit, incidents, silences, series, actions, drills and runs, below /api/v1/."})
	})
	return a, nil
}

// methodHandlers says what serves a path.
type methodHandlers map[string]http.HandlerFunc

// route serves paths below /api/v1. With an error of check, which may be nil, every request is answered with that.
func (a *Admin) route(check func() error, all map[string]methodHandlers) {
	for path, by := range all {
		h := by.handler()
		a.routes.HandleFunc("/api/v1/"+path, func(w http.ResponseWriter, r *http.Request) {
			if check != nil && by[r.Method] != nil {
				if err := check(); err != nil {
					WriteProblem(w, *ControlProblem(err))
					return
				}
			}
			h(w, r)
		})
	}
}

// handler serves each method as it says, and the others with 405; GET serves
// HEAD too.
func (by methodHandlers) handler() http.HandlerFunc {
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

// Auth returns what lets people in here, for the pages.
func (a *Admin) Auth() *Auth { return a.auth }

// ServeHTTP lets nothing through that a page of another site sent, and nothing
// without the token or a session. Anonymous clients may only read.
func (a *Admin) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if a.auth.CheckOrigin(r) != nil {
		WriteProblem(w, Problem{Type: TypeCrossSite, Status: http.StatusForbidden,
			Detail: "A page of another site must not send requests here."})
		return
	}
	if a.auth.token.authorizes(r) {
		a.routes.ServeHTTP(w, r)
		return
	}
	if r.Header.Get("Authorization") != "" {
		a.writeUnauthorized(w, r)
		return
	}
	s, ok := a.auth.Session(r, false)
	switch {
	case ok && !isSafe(r.Method) && !s.ValidFormToken(r.Header.Get(FormHeader)):
		a.auth.RejectCSRF(r)
		WriteProblem(w, Problem{Type: TypeBadFormToken, Status: http.StatusForbidden,
			Detail: "A write with a session's cookie needs its form token as " + FormHeader + "."})
	case ok:
		in := r.Clone(r.Context())
		in.Header.Set(ActorHeader, s.Actor)
		a.routes.ServeHTTP(w, in)
	case a.auth.anonymousRead && isSafe(r.Method):
		a.routes.ServeHTTP(w, r)
	default:
		a.writeUnauthorized(w, r)
	}
}

// writeUnauthorized answers a request without the right token. One without any is
// answered with 401 and does not count: it guesses nothing.
func (a *Admin) writeUnauthorized(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate", `Bearer realm="headgate"`)
	const how = "Send the token from HEADGATE_TOKEN or from headgate.token in the data directory as Authorization: Bearer TOKEN."
	if r.Header.Get("Authorization") == "" {
		WriteProblem(w, Problem{Type: TypeBadToken, Status: http.StatusUnauthorized, Detail: "There is no token. " + how})
		return
	}
	if wait := a.auth.reject(r, "login", "a wrong token"); wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		w.Header().Set("Connection", "close")
		WriteProblem(w, Problem{Type: TypeBadToken, Status: http.StatusTooManyRequests, Detail: "Too many wrong tokens. The right one is still accepted."})
		return
	}
	WriteProblem(w, Problem{Type: TypeBadToken, Status: http.StatusUnauthorized, Detail: "The token is not the right one. " + how})
}

// truncateForLog bounds what a stranger can put into the log.
func truncateForLog(s string) string { return s[:min(len(s), 200)] }

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

// Status is the reply to GET /api/v1/status.
type Status struct {
	Version       string               `json:"version"`
	Pools         []control.PoolStatus `json:"pools"`
	IncidentsOpen []Incident           `json:"incidents_open"` // newest first; filled in by Admin
}

// StatusSource knows the version and the pools.
type StatusSource interface{ Status(now time.Time) Status }

// Status returns the state of all pools, and the open incidents.
func (a *Admin) Status() Status {
	s := a.config.Status.Status(time.Now())
	if s.Pools == nil {
		s.Pools = []control.PoolStatus{}
	}
	s.IncidentsOpen, _ = a.openIncidents(IncidentQuery{Limit: MaxPage})
	return s
}

// maxScrapes is how many scrapes are answered at one time; further ones get 503.
const maxScrapes = 8

// Ops is what the open endpoints show.
type Ops struct {
	Metrics prometheus.Gatherer
	// Ready returns nil while new work can be taken. Refusing work by policy is
	// taking it in this sense: a gate that holds is not a broken one.
	Ready func() error
	// Pages answers for what is not here, and for runbooks to those who want HTML.
	// Nil: there are no pages.
	Pages http.Handler
}

// Handler serves /metrics, /healthz, /readyz and /runbooks/{name}: what to do is no
// secret, and the person on call may have no token at hand.
func (o Ops) Handler() http.Handler {
	mux := http.NewServeMux()
	get := func(path string, h http.HandlerFunc) {
		mux.HandleFunc(path, methodHandlers{http.MethodGet: h}.handler())
	}
	get("/metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes,
		EnableOpenMetrics:   true,
	}).ServeHTTP)
	get("/healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") })
	get("/readyz", o.ready)
	get("/runbooks/{name}", o.runbook)
	if o.Pages != nil {
		mux.Handle("/", o.Pages)
		return mux
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		WriteProblem(w, Problem{Status: http.StatusNotFound, Detail: "Here are /metrics, /healthz, /readyz, /runbooks/{name} and /api/v1/."})
	})
	return mux
}

func (o Ops) ready(w http.ResponseWriter, _ *http.Request) {
	if err := o.Ready(); err != nil {
		writeText(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	writeText(w, http.StatusOK, "ready")
}

// runbook shows a page as it was written, or as HTML to a client that asks for it.
func (o Ops) runbook(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if o.Pages != nil && strings.Contains(r.Header.Get("Accept"), "text/html") {
		o.Pages.ServeHTTP(w, r)
		return
	}
	page, ok := runbooks.Page(r.PathValue("name"))
	if !ok {
		WriteProblem(w, Problem{Status: http.StatusNotFound, Detail: "There are pages for " + strings.Join(runbooks.PageNames(), ", ") + "."})
		return
	}
	writeText(w, http.StatusOK, strings.TrimRight(page, "\n"))
}

func writeText(w http.ResponseWriter, status int, line string) {
	writeHeader(w, status, "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(line + "\n")) // the prober may have gone
}
