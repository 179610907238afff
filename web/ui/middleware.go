package ui

import (
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headgate/runbooks/control"
	"headgate/web/api"
	"headgate/web/auth"
)

// refreshHeader marks a request by which a page refreshes itself.
const refreshHeader = "Headgate-Refresh"

// maxForm bounds what a form can send, in bytes.
const maxForm = 64 << 10

// viewer is whoever asks.
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

// handler serves a viewer.
type handler func(http.ResponseWriter, *http.Request, viewer)

// public serves everybody.
func (p *Pages) public(path, method string, h handler) {
	p.routes.HandleFunc(method+" "+path, func(w http.ResponseWriter, r *http.Request) { h(w, r, p.viewer(r)) })
}

// requireRead serves who may read.
func (p *Pages) requireRead(path string, h handler) {
	p.public(path, http.MethodGet, func(w http.ResponseWriter, r *http.Request, v viewer) {
		if !v.SignedIn && !p.auth.AnonymousRead() {
			redirectToLogin(w, r)
			return
		}
		h(w, r, v)
	})
}

// requireSession serves a page with nothing but an order to give.
func (p *Pages) requireSession(path string, h handler) {
	p.public(path, http.MethodGet, func(w http.ResponseWriter, r *http.Request, v viewer) {
		if !v.SignedIn {
			redirectToLogin(w, r)
			return
		}
		h(w, r, v)
	})
}

// requireForm serves a form that a page of ours showed to this session.
func (p *Pages) requireForm(path string, h handler) {
	p.public(path, http.MethodPost, func(w http.ResponseWriter, r *http.Request, v viewer) {
		if !p.checkForm(w, r, v) {
			return
		}
		if !v.SignedIn {
			p.showError(w, r, v, errorPage{http.StatusUnauthorized, "You are not signed in",
				"Your session is over, or headgate was started again. Nothing was changed.", "Sign in, and do it again."})
			return
		}
		if !v.ValidFormToken(r.PostFormValue("form")) {
			p.auth.RejectCSRF(r)
			p.showError(w, r, v, errorPage{http.StatusForbidden, "This form is out of date",
				"It was shown to another session, perhaps before you signed in again. Nothing was changed.",
				"Go back, load the page again, and send the form again."})
			return
		}
		h(w, r, v)
	})
}

// checkForm says whether a form may be looked at: it comes from no other site, whole and
// in time. If not, it answers.
func (p *Pages) checkForm(w http.ResponseWriter, r *http.Request, v viewer) bool {
	if p.auth.CheckOrigin(r) != nil {
		p.showError(w, r, v, errorPage{http.StatusForbidden, "This came from another site",
			"Only headgate's own pages may send requests. Nothing was changed, and the attempt is in the audit.",
			"If it was you: open headgate itself and use its buttons."})
		return false
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		status := http.StatusBadRequest
		var large *http.MaxBytesError
		if errors.As(err, &large) {
			status = http.StatusRequestEntityTooLarge
		}
		p.showError(w, r, v, errorPage{status, "The form did not arrive whole", "Nothing was changed.", "Go back and send it again."})
		return false
	}
	// Once it has passed, the server would take the browser for gone.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // not every writer has one
	return true
}

// redirectToLogin sends whoever is not signed in to where that is done. A script gets a
// status that it can tell apart.
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

func (p *Pages) showLogin(w http.ResponseWriter, r *http.Request, v viewer) {
	q := r.URL.Query()
	if v.SignedIn && q.Get("code") == "" {
		http.Redirect(w, r, localPath(q.Get("next")), http.StatusSeeOther)
		return
	}
	p.show(w, r, v, http.StatusOK, page{Title: "Sign in", Body: loginView{Code: q.Get("code"), Next: localPath(q.Get("next"))}}, "login")
}

func (p *Pages) login(w http.ResponseWriter, r *http.Request, v viewer) {
	if !p.checkForm(w, r, v) {
		return
	}
	form := loginView{Code: r.PostFormValue("code"), Next: localPath(r.PostFormValue("next")), Name: strings.TrimSpace(r.PostFormValue("name"))}
	if bad := checkActorName(form.Name); bad != "" {
		form.Wrong = bad
		p.showLoginError(w, r, v, form, http.StatusBadRequest)
		return
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
	switch {
	case ok:
		http.Redirect(w, r, form.Next, http.StatusSeeOther)
	case wait > 0:
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		form.Wrong += " Too many attempts from your address: further wrong tokens are rejected without a record. The right token is still accepted."
		p.showLoginError(w, r, v, form, http.StatusTooManyRequests)
	default:
		p.showLoginError(w, r, v, form, http.StatusForbidden)
	}
}

func (p *Pages) showLoginError(w http.ResponseWriter, r *http.Request, v viewer, form loginView, status int) {
	p.show(w, r, v, status, page{Title: "Sign in", Body: form}, "login")
}

// checkActorName says what is wrong with a name, empty if nothing is. It goes into the
// record.
func checkActorName(name string) string {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return "The name must be one line of printable text."
	}
	if utf8.RuneCountInString(name) > api.MaxActor {
		return "The name must have at most " + strconv.Itoa(api.MaxActor) + " characters."
	}
	return ""
}

func (p *Pages) logout(w http.ResponseWriter, r *http.Request, _ viewer) {
	p.auth.SignOut(w, r)
	http.Redirect(w, r, "/login", http.StatusSeeOther)
}
