package ui

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"headgate/engine/tsdb"
	"headgate/runbooks/control"
	"headgate/web/api"
)

// SampleReader reads samples. *tsdb.DB does.
type SampleReader interface {
	QueryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]tsdb.Series, error)
}

// Config is what Pages are made of.
type Config struct {
	Admin   *api.Admin // the API, and who may use it
	Control *control.Service
	// Facts returns the limits and the objective of a pool, false if there is none of that name.
	Facts func(pool string) (PoolFacts, bool)
	// SLO returns how many tasks of a pool were good and bad since a time. It obeys its context.
	SLO     func(ctx context.Context, pool string, since time.Time) (good, bad int64, err error)
	Samples SampleReader // nil: nothing is watched, there are no charts
	Log     *slog.Logger
}

// Pages serves any number of requests at once.
type Pages struct {
	admin   *api.Admin
	control *control.Service
	auth    *api.Auth
	facts   *factsCache
	charts  *chartCache // nil without SampleReader
	log     *slog.Logger
	routes  *http.ServeMux
}

// New returns the pages.
func New(c Config) (*Pages, error) {
	if c.Admin == nil || c.Control == nil || c.Facts == nil || c.SLO == nil || c.Log == nil {
		return nil, errors.New("pages: admin, control, facts, SLO and log are required")
	}
	p := &Pages{admin: c.Admin, control: c.Control, auth: c.Admin.Auth(), facts: &factsCache{limits: c.Facts, slo: c.SLO}, log: c.Log, routes: http.NewServeMux()}
	if c.Samples != nil {
		p.charts = &chartCache{samples: c.Samples, log: c.Log}
	}
	p.public("/static/{file}", http.MethodGet, serveStatic)
	p.public("/login", http.MethodGet, p.showLogin)
	p.public("/login", http.MethodPost, p.login)
	p.public("/runbooks", http.MethodGet, p.runbooks)
	p.public("/runbooks/{name}", http.MethodGet, p.runbook)
	p.requireRead("/{$}", p.overview)
	p.requireRead("/pools/{pool}", p.pool)
	p.requireRead("/incidents", p.incidents)
	p.requireRead("/incidents/{id}", p.incident)
	p.requireRead("/audit", p.audit)
	p.requireRead(drillsPath, p.history)
	p.requireRead(drillsPath+"/definitions", p.definitions)
	p.requireRead(drillsPath+"/runs/{id}", p.run)
	p.requireSession(drillsPath+"/runs/{id}/abort", p.confirmAbort)
	p.requireForm(drillsPath+"/runs/{id}/abort", p.abort)
	p.requireSession(drillsPath+"/start", p.confirmStart)
	p.requireForm(drillsPath+"/start", p.start)
	p.requireSession(drillsPath+"/freeze", p.confirmFreeze)
	p.requireForm(drillsPath+"/freeze", p.freeze)
	p.requireSession("/mode", p.confirmMode)
	p.requireForm("/mode", p.changeMode)
	p.requireSession("/pause", p.confirmPause)
	p.requireForm("/pause", p.pause)
	p.requireForm("/logout", p.logout)
	p.requireForm("/incidents/{id}/ack", p.ack)
	p.requireForm("/silences", p.createSilence)
	p.requireForm("/silences/{id}/lift", p.liftSilence)
	p.routes.HandleFunc("/", p.notFound)
	return p, nil
}

const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP serves the pages.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", contentSecurityPolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	p.routes.ServeHTTP(w, r)
}

// notFound answers for paths and methods that are none.
func (p *Pages) notFound(w http.ResponseWriter, r *http.Request) {
	v := p.viewer(r)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		p.showError(w, r, v, errorPage{http.StatusMethodNotAllowed, "That cannot be done here",
			"This address accepts no requests, or only those of a page's buttons.", "Go back, load the page again, and use its buttons."})
		return
	}
	p.showError(w, r, v, errorPage{http.StatusNotFound, "There is no such page",
		"This address does not exist, or no longer exists.", "Start at the overview, or with the links above."})
}
