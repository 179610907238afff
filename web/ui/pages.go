package ui

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"headgate/runbooks/control"
	"headgate/web/api"
	"headgate/web/auth"
)

// Config is what Pages are made of.
type Config struct {
	Admin   *api.Admin // the API, and who may use it
	Control *control.Service
	// Facts returns the limits and the objective of a pool, false if there is none of that name.
	Facts func(pool string) (PoolFacts, bool)
	// SLO returns how many tasks of a pool were good and bad since a time. It obeys its context.
	SLO     func(ctx context.Context, pool string, since time.Time) (good, bad int64, err error)
	Samples api.SampleReader // nil: nothing is watched, there are no charts
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
	for path, h := range map[string]handler{
		"/static/{file}": serveStatic, "/login": p.showLogin, "/runbooks": p.runbooks, "/runbooks/{name}": p.runbook,
	} {
		p.public(path, http.MethodGet, h)
	}
	for path, h := range map[string]handler{
		"/{$}": p.overview, "/pools/{pool}": p.pool, "/incidents": p.incidents, "/incidents/{id}": p.incident, "/audit": p.audit,
		drillsPath: p.history, drillsPath + "/definitions": p.definitions, drillsPath + "/runs/{id}": p.run,
	} {
		p.requireRead(path, h)
	}
	for path, h := range map[string]handler{
		"/mode": p.confirmMode, "/pause": p.confirmPause, drillsPath + "/start": p.confirmStart, drillsPath + "/freeze": p.confirmFreeze,
		drillsPath + "/runs/{id}/abort": p.confirmAbort,
	} {
		p.requireSession(path, h)
	}
	p.public("/login", http.MethodPost, p.login)
	for path, h := range map[string]handler{
		"/logout": p.logout, "/mode": p.changeMode, "/pause": p.pause, "/incidents/{id}/ack": p.ack, "/silences": p.createSilence,
		"/silences/{id}/lift": p.liftSilence, drillsPath + "/start": p.start, drillsPath + "/freeze": p.freeze,
		drillsPath + "/runs/{id}/abort": p.abort,
	} {
		p.requireForm(path, h)
	}
	p.routes.HandleFunc("/", p.showing(p.notFound))
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

// notFound shows the error page for unknown paths, and for methods that a path does not support.
func (p *Pages) notFound(_ http.ResponseWriter, r *http.Request, _ viewer) error {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return errorPage{http.StatusMethodNotAllowed, "That cannot be done here",
			"This address accepts no requests, or only those of a page's buttons.", "Go back, load the page again, and use its buttons."}
	}
	return errorPage{http.StatusNotFound, "There is no such page",
		"This address does not exist, or no longer exists.", "Start at the overview, or with the links above."}
}

// refreshHeader marks a request by which a page refreshes itself.
const refreshHeader = "Headgate-Refresh"

// maxForm bounds what a form can send, in bytes.
const maxForm = 64 << 10

// viewer is the person who requests a page: signed in, or one who may only read.
type viewer struct {
	auth.Session
	SignedIn bool
}

// actor is the viewer as the sender of an action.
func (v viewer) actor() control.Actor { return control.Actor{Name: v.Actor, Via: control.ViaPage} }

func (p *Pages) viewer(r *http.Request) viewer {
	s, ok := p.auth.Session(r, r.Header.Get(refreshHeader) != "")
	return viewer{s, ok}
}

// handler serves a viewer. Its error is shown as a page: an errorPage, or one of the API or of control.Service.
type handler func(http.ResponseWriter, *http.Request, viewer) error

// public serves all clients.
func (p *Pages) public(path, method string, h handler) {
	p.routes.HandleFunc(method+" "+path, p.showing(h))
}

// showing serves with h, and shows its error.
func (p *Pages) showing(h handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := p.viewer(r)
		if err := h(w, r, v); err != nil {
			p.showErrorPage(w, r, v, err)
		}
	}
}

// requireRead registers a page for viewers who are signed in, and for anonymous ones if admin.anonymous_read is set.
func (p *Pages) requireRead(path string, h handler) { p.requireLogin(path, h, p.auth.AnonymousRead()) }

// requireSession registers a page that only leads to an action, for viewers who are signed in.
func (p *Pages) requireSession(path string, h handler) { p.requireLogin(path, h, false) }

// requireLogin registers a page. It redirects viewers who are not signed in to the login page, unless anonymous is set.
func (p *Pages) requireLogin(path string, h handler, anonymous bool) {
	p.public(path, http.MethodGet, func(w http.ResponseWriter, r *http.Request, v viewer) error {
		if !v.SignedIn && !anonymous {
			redirectToLogin(w, r)
			return nil
		}
		return h(w, r, v)
	})
}

// requireForm serves a form that a page of ours showed to this session.
func (p *Pages) requireForm(path string, h handler) {
	p.public(path, http.MethodPost, func(w http.ResponseWriter, r *http.Request, v viewer) error {
		if err := p.checkForm(w, r); err != nil {
			return err
		}
		if !v.SignedIn {
			return errorPage{http.StatusUnauthorized, "You are not signed in",
				"Your session is over, or headgate was started again. Nothing was changed.", "Sign in, and do it again."}
		}
		if !v.ValidFormToken(r.PostFormValue("form")) {
			p.auth.RejectCSRF(r)
			return errorPage{http.StatusForbidden, "This form is out of date",
				"It was shown to another session, perhaps before you signed in again. Nothing was changed.",
				"Go back, load the page again, and send the form again."}
		}
		return h(w, r, v)
	})
}

// checkForm refuses a form of another site, and one that did not arrive complete and in time.
func (p *Pages) checkForm(w http.ResponseWriter, r *http.Request) error {
	if p.auth.CheckOrigin(r) != nil {
		return errorPage{http.StatusForbidden, "This came from another site",
			"Only headgate's own pages may send requests. Nothing was changed, and the attempt is in the audit.",
			"If it was you: open headgate itself and use its buttons."}
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		status := http.StatusBadRequest
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			status = http.StatusRequestEntityTooLarge
		}
		return errorPage{status, "The form did not arrive whole", "Nothing was changed.", "Go back and send it again."}
	}
	// Once it has passed, the server would take the browser for gone.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // not every writer has one
	return nil
}

// seeOther leads the browser to a page after an action, unless that had an error.
func seeOther(w http.ResponseWriter, r *http.Request, path string, err error) error {
	if err == nil {
		http.Redirect(w, r, path, http.StatusSeeOther)
	}
	return err
}

// redirectToLogin leads a person who is not signed in to the login page. The script that refreshes a page gets a status
// instead, by which it stops.
func redirectToLogin(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get(refreshHeader) != "" {
		http.Error(w, "signed out", http.StatusUnauthorized)
		return
	}
	http.Redirect(w, r, "/login?"+url.Values{"next": {r.URL.RequestURI()}}.Encode(), http.StatusSeeOther)
}

// localPath returns a path below this site, "/" if the one given may lead elsewhere.
func localPath(path string) string {
	u, err := url.Parse(path)
	if err != nil || len(path) > 2000 || u.IsAbs() || u.Host != "" || u.User != nil || !strings.HasPrefix(path, "/") ||
		strings.HasPrefix(path, "//") || strings.ContainsFunc(path, func(r rune) bool { return r == '\\' || r < ' ' }) {
		return "/"
	}
	return path
}

// loginView is what the page for signing in shows.
type loginView struct {
	Code  string // of a link; empty: ask for the token
	Next  string // where to go then
	Name  string
	Wrong string // what was wrong the last time
}

func (p *Pages) showLogin(w http.ResponseWriter, r *http.Request, v viewer) error {
	q := r.URL.Query()
	if v.SignedIn && q.Get("code") == "" {
		return seeOther(w, r, localPath(q.Get("next")), nil)
	}
	return p.show(w, r, v, http.StatusOK, page{Title: "Sign in", Body: loginView{Code: q.Get("code"), Next: localPath(q.Get("next"))}}, "login")
}

func (p *Pages) login(w http.ResponseWriter, r *http.Request, v viewer) error {
	if err := p.checkForm(w, r); err != nil {
		return err
	}
	form := loginView{Code: r.PostFormValue("code"), Next: localPath(r.PostFormValue("next")), Name: strings.TrimSpace(r.PostFormValue("name"))}
	if err := api.CheckLine("The name", form.Name, api.MaxActor); err != nil { // it goes into the record
		form.Wrong = err.Error() + "."
		return p.show(w, r, v, http.StatusBadRequest, page{Title: "Sign in", Body: form}, "login")
	}
	var ok bool
	var wait time.Duration
	if form.Code != "" {
		ok, wait = p.auth.RedeemLink(w, r, form.Code)
		form.Code, form.Wrong = "", "This link has been used, or is more than ten minutes old. Create a new one with headgate login, or enter the token."
	} else {
		ok, wait = p.auth.SignIn(w, r, strings.TrimSpace(r.PostFormValue("token")), form.Name)
		form.Wrong = "That is not the token. It is admin.token in the settings, or in headgate.token in the data directory."
	}
	if ok {
		return seeOther(w, r, form.Next, nil)
	}
	status := http.StatusForbidden
	if wait > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		form.Wrong += " Too many attempts from your address: further wrong tokens are rejected without a record. The right token is still accepted."
		status = http.StatusTooManyRequests
	}
	return p.show(w, r, v, status, page{Title: "Sign in", Body: form}, "login")
}

func (p *Pages) logout(w http.ResponseWriter, r *http.Request, _ viewer) error {
	p.auth.SignOut(w, r)
	return seeOther(w, r, "/login", nil)
}
