package ui_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"headgate/runbooks/control"
	"headgate/web/api"
)

func TestSignInWithTheToken(t *testing.T) {
	r := newFixture(t, fixtureOptions{})
	b := r.browser()
	sent := b.get("/incidents?open=true")
	if sent.status != http.StatusSeeOther || sent.header.Get("Location") != "/login?next=%2Fincidents%3Fopen%3Dtrue" {
		t.Fatalf("%d to %q", sent.status, sent.header.Get("Location"))
	}
	form := b.get(sent.header.Get("Location")).want(http.StatusOK, "Sign in to headgate", "Token", "Your name")
	wrong := b.submit(form, "/login", url.Values{"token": {"something else"}, "name": {"ana"}}).want(http.StatusForbidden, "That is not the token")
	if e := r.auditLog.last(); e.Action != "login" || e.Result != control.Refused {
		t.Errorf("a wrong token is recorded as %+v", e)
	}
	done := b.submit(wrong, "/login", url.Values{"token": {" " + token + "\n"}, "name": {" ana "}})
	if done.status != http.StatusSeeOther || done.header.Get("Location") != "/incidents?open=true" {
		t.Fatalf("%d to %q", done.status, done.header.Get("Location"))
	}
	if strings.Contains(done.header.Get("Set-Cookie"), token) {
		t.Error("the cookie holds the token")
	}
	if e := r.auditLog.last(); e.Action != "login" || e.Result != control.Done || e.Actor != "ana" {
		t.Errorf("a login is recorded as %+v", e)
	}
	page := b.get("/").want(http.StatusOK, "ana", "Sign out")
	if again := b.get("/login?next=/audit"); again.status != http.StatusSeeOther || again.header.Get("Location") != "/audit" {
		t.Errorf("signed in already: %d", again.status)
	}
	b.submit(page, "/logout", nil).want(http.StatusSeeOther)
	if out := b.get("/"); out.status != http.StatusSeeOther {
		t.Errorf("after signing out: %d", out.status)
	}
}

// TestLinkIsNotUsedUpByLooking: programs that show previews look at links too.
func TestLinkIsNotUsedUpByLooking(t *testing.T) {
	r := newFixture(t, fixtureOptions{})
	code, _ := r.admin.Auth().CreateLink("ana@ops1")
	b := r.browser()
	var page response
	for range 3 {
		page = b.get(api.LoginLinkPath(code)).want(http.StatusOK, "This link signs you in, once").wantWithout("Token")
	}
	b.submit(page, "/login", nil).want(http.StatusSeeOther)
	b.get("/").want(http.StatusOK, "ana@ops1")
	r.browser().submit(page, "/login", nil).want(http.StatusForbidden, "This link has been used", "Token")
	if e := r.auditLog.last(); e.Action != "login" || e.Result != control.Refused || strings.Contains(e.Reason, code) {
		t.Errorf("a replayed link is recorded as %+v", e)
	}
}

func TestLoginRateLimit(t *testing.T) {
	b := newFixture(t, fixtureOptions{}).browser()
	var last response
	for range 15 {
		last = b.post("/login", url.Values{"token": {"a wrong one"}})
	}
	last.want(http.StatusTooManyRequests, "many attempts", "The right token is still accepted")
	if last.header.Get("Retry-After") == "" {
		t.Error("without Retry-After")
	}
	b.post("/login", url.Values{"token": {token}}).want(http.StatusSeeOther)
}

// TestNextStaysHere: signing in leads nowhere else.
func TestNextStaysHere(t *testing.T) {
	for next, want := range map[string]string{
		"/audit?since=7d": "/audit?since=7d", "": "/", "audit": "/", "//evil.example": "/", "/\\evil.example": "/", "\\\\evil": "/",
		"https://evil.example/": "/", "javascript:alert(1)": "/", "/\n/evil.example": "/", "/%zz": "/", "/" + strings.Repeat("a", 3000): "/",
	} {
		b := newFixture(t, fixtureOptions{}).browser()
		if got := b.post("/login", url.Values{"token": {token}, "next": {next}}); got.header.Get("Location") != want {
			t.Errorf("next %.40q leads to %q, want %q", next, got.header.Get("Location"), want)
		}
	}
}

func TestNamesMustFitTheRecord(t *testing.T) {
	b := newFixture(t, fixtureOptions{}).browser()
	for _, name := range []string{strings.Repeat("x", 101), "two\nlines", "\xff"} {
		b.post("/login", url.Values{"token": {token}, "name": {name}}).want(http.StatusBadRequest, "The name must")
	}
}

func TestLoginFromAnotherSiteIsRefused(t *testing.T) {
	b := newFixture(t, fixtureOptions{}).browser()
	req := b.request(http.MethodPost, "/login", strings.NewReader(url.Values{"token": {token}}.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	if got := b.do(req).want(http.StatusForbidden, "This came from another site"); got.header.Get("Set-Cookie") != "" {
		t.Error("it signs in")
	}
}

// TestExpiredSessionOnRefresh: a script is not sent to a page for people.
func TestExpiredSessionOnRefresh(t *testing.T) {
	b := newFixture(t, fixtureOptions{}).browser()
	req := b.request(http.MethodGet, "/", nil)
	req.Header.Set("Headgate-Refresh", "1")
	b.do(req).want(http.StatusUnauthorized, "signed out")
}

func TestAnonymousSeesAndDoesNothing(t *testing.T) {
	r := newFixture(t, fixtureOptions{anonymous: true})
	id := r.openIncident("queue_age", "a")
	b := r.browser()
	for _, path := range []string{"/", "/pools/default", "/incidents", "/incidents/" + id, "/audit", "/runbooks/queue_age"} {
		page := b.get(path).want(http.StatusOK, "Sign in")
		for _, form := range page.elements("form") {
			if attr(form, "method") == "post" {
				t.Errorf("%s has a form that goes to %s", path, attr(form, "action"))
			}
		}
	}
	if got := b.get("/mode?to=passthrough"); got.status != http.StatusSeeOther {
		t.Errorf("the page for an order: %d", got.status)
	}
	b.post("/mode", url.Values{"to": {"passthrough"}}).want(http.StatusUnauthorized, "You are not signed in")
	b.post("/incidents/"+id+"/ack", nil).want(http.StatusUnauthorized)
	if len(r.Record.ModeChanges()) != 0 {
		t.Error("an order was carried out")
	}
}
