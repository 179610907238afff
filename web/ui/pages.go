package ui

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"time"

	"headgate/engine/tsdb"
	"headgate/web/api"
)

// Facts tells of pools what their status does not.
type Facts interface {
	// Facts returns limits and objective of a pool, false if there is none of that
	// name. It obeys its context.
	Facts(ctx context.Context, now time.Time, pool string) (PoolFacts, bool)
}

// PoolFacts are limits and objective of a pool.
type PoolFacts struct {
	MaxAge    time.Duration // of the oldest waiting task, above which arrivals are refused; 0: none
	MaxDepth  int           // of the queue, above which arrivals are refused; 0: none
	Objective float64       // share of tasks that must make it
	Window    time.Duration // over which that is counted
	Good, Bad int64         // tasks of the window
	Counted   bool          // false: Good and Bad could not be read
}

// Series reads samples. *tsdb.DB does.
type Series interface {
	Between(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]tsdb.Line, error)
}

// Config is what Pages are made of.
type Config struct {
	Admin  *api.Admin // the API, and the door
	Facts  Facts
	Series Series // nil: nothing is watched, there are no charts
	Log    *slog.Logger
}

// Pages serves any number of requests at once.
type Pages struct {
	admin  *api.Admin
	door   *api.Door
	facts  Facts
	charts *chartRoom // nil without Series
	log    *slog.Logger
	routes *http.ServeMux
}

// New returns the pages.
func New(c Config) (*Pages, error) {
	if c.Admin == nil || c.Facts == nil || c.Log == nil {
		return nil, errors.New("pages: admin, facts and log must all be there")
	}
	p := &Pages{admin: c.Admin, door: c.Admin.Door(), facts: c.Facts, log: c.Log, routes: http.NewServeMux()}
	if c.Series != nil {
		p.charts = &chartRoom{series: c.Series, log: c.Log}
	}
	p.open("/static/{file}", http.MethodGet, static)
	p.open("/login", http.MethodGet, p.showLogin)
	p.open("/login", http.MethodPost, p.login)
	p.open("/runbooks", http.MethodGet, p.runbooks)
	p.open("/runbooks/{name}", http.MethodGet, p.runbook)
	p.read("/{$}", p.overview)
	p.read("/pools/{pool}", p.pool)
	p.read("/incidents", p.incidents)
	p.read("/incidents/{id}", p.incident)
	p.read("/audit", p.audit)
	p.read(drillsPath, p.history)
	p.read(drillsPath+"/definitions", p.definitions)
	p.read(drillsPath+"/runs/{id}", p.run)
	p.acts(drillsPath+"/runs/{id}/abort", p.confirmAbort)
	p.write(drillsPath+"/runs/{id}/abort", p.abort)
	p.acts(drillsPath+"/start", p.confirmStart)
	p.write(drillsPath+"/start", p.start)
	p.acts(drillsPath+"/freeze", p.confirmFreeze)
	p.write(drillsPath+"/freeze", p.freeze)
	p.acts("/mode", p.confirmMode)
	p.write("/mode", p.changeMode)
	p.acts("/pause", p.confirmPause)
	p.write("/pause", p.pause)
	p.write("/logout", p.logout)
	p.write("/incidents/{id}/ack", p.ack)
	p.write("/silences", p.silence)
	p.write("/silences/{id}/lift", p.lift)
	p.routes.HandleFunc("/", p.nothing)
	return p, nil
}

const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// ServeHTTP serves the pages.
func (p *Pages) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	p.routes.ServeHTTP(w, r)
}

// nothing answers for paths and methods that are none.
func (p *Pages) nothing(w http.ResponseWriter, r *http.Request) {
	v := p.viewer(r)
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		p.fail(w, r, v, trouble{http.StatusMethodNotAllowed, "That cannot be done here",
			"This address takes no orders, or only by the buttons of a page.", "Go back, load the page again, and use its buttons."})
		return
	}
	p.fail(w, r, v, trouble{http.StatusNotFound, "There is no such page",
		"Nothing is kept at this address, or what was there is gone.", "Begin at the overview, or with the links above."})
}
