package api

import (
	"cmp"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"headgate/runbooks/control"
	"headgate/web/auth"
)

// FormHeader carries the form token of a session, in writes to the API that rest
// on its cookie.
const FormHeader = "Headgate-Form-Token"

// Notes takes what is to be kept for the audit. It does not wait.
type Notes interface{ Note(control.Entry) }

// Door lets people and programs in, and keeps count of who is turned away. It may
// be used by any number of requests at once.
type Door struct {
	guard     guard
	attempts  attempts
	sites     *http.CrossOriginProtection
	sessions  auth.Store
	anonymous bool
	notes     Notes // nil: nobody keeps them
	log       *slog.Logger
}

func newDoor(c AdminConfig) *Door {
	return &Door{
		guard: newGuard(c.Token), sites: http.NewCrossOriginProtection(), anonymous: c.AnonymousRead, notes: c.Notes, log: c.Log,
	}
}

// Anonymous says whether whoever is here may read without signing in.
func (d *Door) Anonymous() bool { return d.anonymous }

// Session returns the session of a request, if it has one. A request that only
// refreshes what a page shows does not keep it from going idle.
func (d *Door) Session(r *http.Request, refresh bool) (auth.Session, bool) {
	secret, ok := readCookie(r)
	switch {
	case !ok:
		return auth.Session{}, false
	case refresh:
		return d.sessions.Peek(time.Now(), secret)
	default:
		return d.sessions.Use(time.Now(), secret)
	}
}

// SignIn begins a session for whoever has the token, and sets its cookie. After too
// many wrong tokens it returns how long to wait; the right one is taken all the same.
func (d *Door) SignIn(w http.ResponseWriter, r *http.Request, token, actor string) (ok bool, wait time.Duration) {
	if !d.guard.is(token) {
		return false, d.turnAway(r, "login", "a wrong token")
	}
	secret, opened := d.sessions.Open(time.Now(), cmp.Or(actor, "page"))
	d.let(w, r, secret, opened, "with the token")
	return true, 0
}

// Enter begins a session for whoever has the code of a link, and sets its cookie.
// The code is used up. After too many wrong ones it returns how long to wait.
func (d *Door) Enter(w http.ResponseWriter, r *http.Request, code string) (ok bool, wait time.Duration) {
	secret, opened, ok := d.sessions.Enter(time.Now(), code)
	if !ok {
		return false, d.turnAway(r, "login", "a login link that is used up, over or none")
	}
	d.let(w, r, secret, opened, "with a link")
	return true, 0
}

func (d *Door) let(w http.ResponseWriter, r *http.Request, secret string, opened auth.Session, how string) {
	writeCookie(w, r, secret, int(auth.LongestTime/time.Second))
	d.log.Info("signed in", "actor", opened.Actor, "remote", r.RemoteAddr)
	d.note(r, control.Entry{Action: "login", Ending: control.Done, Actor: opened.Actor, Reason: how})
}

// SignOut ends the session of a request, and takes its cookie away.
func (d *Door) SignOut(w http.ResponseWriter, r *http.Request) {
	secret, ok := readCookie(r)
	if ok {
		if s, there := d.sessions.Peek(time.Now(), secret); there {
			d.note(r, control.Entry{Action: "logout", Ending: control.Done, Actor: s.Actor})
		}
		d.sessions.Close(secret)
	}
	writeCookie(w, r, "", -1)
}

// Link returns the code of a link that lets somebody in once, and how long it does.
func (d *Door) Link(actor string) (code string, until time.Time) {
	return d.sessions.Link(time.Now(), actor)
}

// Check returns an error if a write comes from a page of another site, and records
// that it was refused.
func (d *Door) Check(r *http.Request) error {
	err := d.sites.Check(r)
	if err != nil {
		d.turnAway(r, "write", "a request from another site")
	}
	return err
}

// Stale records that a write was refused for its form token.
func (d *Door) Stale(r *http.Request) {
	d.turnAway(r, "write", "a form token that is not the session's")
}

// Foreign records that a request was refused for the host that it named.
func (d *Door) Foreign(r *http.Request) {
	d.turnAway(r, "request", "a request for the host "+strconv.QuoteToASCII(cut(r.Host)))
}

// turnAway counts an attempt, and returns how long to wait if there were too many.
// Only those within the limit are logged and recorded: whoever makes many of them
// must not fill the record.
func (d *Door) turnAway(r *http.Request, action, what string) (wait time.Duration) {
	wait, withheld := d.attempts.attempt(time.Now(), r.RemoteAddr)
	if wait > 0 {
		return wait
	}
	d.log.Warn(what+" was refused", "method", r.Method, "path", cut(r.URL.Path), "origin", cut(r.Header.Get("Origin")),
		"site", cut(r.Header.Get("Sec-Fetch-Site")), "remote", r.RemoteAddr, "withheld", withheld)
	d.note(r, control.Entry{
		Action: action, Ending: control.Refused, Actor: "unknown", Reason: what,
		Inputs: map[string]string{"method": r.Method, "path": printable(cut(r.URL.Path)), "remote": r.RemoteAddr, "withheld": strconv.Itoa(withheld)},
	})
	return 0
}

func (d *Door) note(r *http.Request, e control.Entry) {
	if d.notes == nil {
		return
	}
	e.At, e.Kind, e.Via = time.Now(), control.KindAccess, control.ViaPage
	if strings.HasPrefix(r.URL.Path, "/api/") {
		e.Via = control.ViaAPI
	}
	d.notes.Note(e)
}

// reads says whether a method changes nothing.
func reads(method string) bool { return method == http.MethodGet || method == http.MethodHead }
