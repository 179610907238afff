package browser

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"headgate/e2e/harness"
)

// Forms that a page of another origin sends, with the cookies of a session, change nothing.
func TestCrossSiteForms(t *testing.T) {
	t.Parallel()
	h := options{}.start(t)
	b := h.tab(t)
	h.signIn(b, "Ana Lyst")
	form := mustEval[string](b, `document.querySelector("form[action='/logout'] [name=form]").value`)
	orders := map[string]string{
		"Win a prize": "/mode", "Win a drill": "/drills/start", "Win a freeze": "/drills/freeze", "Win an end": "/drills/runs/none/abort", "Win a pause": "/pause",
	}
	// The worst case: it has even learned the form token.
	evil := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, `<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>Win</title><main>`)
		for name, path := range orders {
			_, _ = fmt.Fprintf(w, `<form method="post" action="%s%s"><input type="hidden" name="form" value="%s"><input type="hidden" name="to" value="passthrough">
<input type="hidden" name="pool" value="main"><input type="hidden" name="drill" value="burst"><input type="hidden" name="do" value="%s"><input type="hidden" name="reason" value="x">
<button>%s</button></form>`, h.Admin, path, form, map[bool]string{true: "pause", false: "freeze"}[path == "/pause"], name)
		}
	}))
	t.Cleanup(evil.Close)
	_, port, err := net.SplitHostPort(evil.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	for _, site := range []string{evil.URL, "http://localhost:" + port} { // another port, another host
		for name, path := range orders {
			b.navigate(site)
			b.click(name)
			b.waitPath(path)
			b.waitText("This came from another site", "Nothing was changed")
		}
	}
	if mode := h.Status(t)["main"].Mode; mode != "enforce" {
		t.Errorf("the mode is %s", mode)
	}
	runs := harness.Get[harness.List[any]](t, h.Gate, "runs").Items
	drills := harness.Get[struct{ Freeze struct{ Frozen bool } }](t, h.Gate, "drills")
	if len(runs) > 0 || drills.Freeze.Frozen {
		t.Errorf("%d drills have run, frozen %v", len(runs), drills.Freeze.Frozen)
	}
	h.awaitRefusal(t, "write", "a request from another site")
	for _, what := range b.monitor.drain() {
		if !strings.Contains(what, evil.URL) && !strings.Contains(what, "http://localhost:"+port) && !strings.Contains(what, "status of 403") {
			t.Error(what)
		}
	}
}

// A form of a page that was loaded before a new sign-in is rejected.
func TestFormOfOldSession(t *testing.T) {
	t.Parallel()
	h := options{}.start(t)
	b := h.tab(t)
	b.monitor.allowClientErrors()
	h.signIn(b, "Ana Lyst")
	b.navigate("/mode?pool=main&to=passthrough")
	other := b.sameSession()
	other.navigate("/")
	other.click("Sign out")
	other.waitPath("/login")
	h.signIn(other, "Ben")
	b.click("Roll back pool main")
	b.waitText("This form is out of date", "Nothing was changed")
	if mode := h.Status(t)["main"].Mode; mode != "enforce" {
		t.Errorf("the mode is %s", mode)
	}
	h.awaitRefusal(t, "write", "a form token that is not the session's")
}

// A sign-in link works once, and a preview of it does not use it up.
func TestSignInLink(t *testing.T) {
	t.Parallel()
	h := options{}.start(t)
	for name, scripted := range map[string]bool{"with a script": true, "without": false} {
		t.Run(name, func(t *testing.T) {
			done := h.Command(t, "login")
			link := strings.TrimSpace(done.Stdout)
			if done.ExitCode != 0 || !strings.HasPrefix(link, h.Admin) {
				t.Fatalf("exit code %d, %q, %s", done.ExitCode, link, done.Stderr)
			}
			b := h.tab(t)
			if !scripted {
				b.disableScript()
			}
			b.navigate(link)
			b.waitText("This link signs you in, once.")
			b.navigate(link)
			b.click("Sign in")
			b.waitPath("/")
			b.waitText("Sign out")

			thief := h.tab(t)
			thief.monitor.allowClientErrors()
			thief.navigate(link)
			thief.click("Sign in")
			thief.waitText("This link has been used")
			thief.navigate("/audit")
			thief.waitPath("/login")
			h.awaitRefusal(t, "login", "a login link that is used up, over or none")
		})
	}
}

// A foreign host name that resolves to the gate, as after DNS rebinding, is rejected.
func TestForeignHost(t *testing.T) {
	t.Parallel()
	h := options{}.start(t)
	b := h.tab(t)
	at, err := url.Parse(h.Admin)
	if err != nil {
		t.Fatal(err)
	}
	b.navigate("http://" + foreignHost + ":" + at.Port() + "/login")
	if mustEval[int](b, `document.querySelectorAll("form, input, a").length`) != 0 {
		t.Error("it lets people sign in under a foreign name")
	}
	h.awaitRefusal(t, "request", "a request for the host")
	b.monitor.drain() // all of it was asked of another origin
}

// awaitRefusal waits until the audit has a refusal with an action and a reason.
func (h *instance) awaitRefusal(t *testing.T, action, reason string) {
	t.Helper()
	harness.Eventually(t, "the audit has: "+reason, func() bool {
		for _, i := range h.AuditEntries(t, "access") {
			if i.Action == action && i.Result == "refused" && strings.HasPrefix(i.Reason, reason) {
				return true
			}
		}
		return false
	})
}
