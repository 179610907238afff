package ui

import (
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headgate/web/api"
)

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
		form.Code, form.Wrong = "", "This link has been used, or is more than ten minutes old. Ask for a new one with headgate login, or give the token."
	} else {
		ok, wait = p.auth.SignIn(w, r, strings.TrimSpace(r.PostFormValue("token")), form.Name)
		form.Wrong = "That is not the token. It is admin.token in the settings, or in headgate.token in the data directory."
	}
	switch {
	case ok:
		http.Redirect(w, r, form.Next, http.StatusSeeOther)
	case wait > 0:
		w.Header().Set("Retry-After", strconv.Itoa(int(wait/time.Second)+1))
		form.Wrong += " There were many attempts from your address: the next ones are not looked at closely. The right token is still taken."
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
