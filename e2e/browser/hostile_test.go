package browser

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"

	"headgate/e2e/harness"
	"headgate/e2e/seed"
	"headgate/internal/sqlite"
	"headgate/runbooks/drill"
)

// hostileTexts are texts that would have an effect if a page did not escape them.
func hostileTexts() []string {
	return []string{
		`<script>alert(1)</script>`, `"><img src=/evil.png onerror=alert(2)>`, `' autofocus onfocus='alert(3)' x='`,
		`</title></script><svg onload=alert(4)>`, `javascript:alert(5)`, `</textarea><iframe srcdoc="<script>alert(6)</script>">`,
	}
}

// Text from outside is escaped, in every field that a user can fill, on every page, and in
// downloads.
func TestHostileTextIsEscaped(t *testing.T) {
	t.Parallel()
	evil := strings.Join(hostileTexts(), " ")
	h := options{seed: seedHostile, settings: hostileSettings(evil), rules: true}.start(t)
	h.awaitIncident(t)
	b := h.tab(t)
	h.signIn(b, hostileTexts()[0]+hostileTexts()[1])
	b.navigate("/mode?pool=main&to=observe")
	b.fill("reason", evil)
	b.click("Only observe pool main")
	b.waitPath("/")
	harness.Post[any](t, h.Gate, "silences", fmt.Sprintf(`{"rule":%q,"for":"1h","reason":%q}`, firingRule, evil))
	harness.Eventually(t, "it is recorded", func() bool { return len(h.Audit(t)) > 1 })
	b.navigate("/drills")
	run := mustEval[string](b, `document.querySelector("table.runs a[href^='/drills/runs/']").getAttribute("href")`)
	b.navigate("/incidents?rule=evil")
	incident := mustEval[string](b, `document.querySelector("table a[href^='/incidents/']").getAttribute("href")`)
	for _, path := range []string{
		"/", "/pools/main", "/mode?pool=main&to=passthrough", "/incidents", "/audit", "/drills", "/drills/definitions", "/drills/start?drill=evil", run, incident,
	} {
		b.navigate(path)
		if !strings.HasPrefix(path, "/mode") && path != "/pools/main" && !b.hasText("<script>alert(1)</script>") {
			t.Errorf("%s does not show it as it is", path)
		}
		if made := mustEval[[]string](b, injectedElements); len(made) > 0 {
			t.Errorf("%s: text has become %v", path, made)
		}
	}
	b.navigate("/drills")
	b.checkDownloads()
	b.monitor.allowClientErrors()
	for _, path := range []string{
		"/login?next=", "/login?code=", "/?done=", "/?last=", "/incidents?rule=", "/audit?kind=", "/drills?drill=", "/drills?since=",
		"/runbooks/", "/pools/", "/drills/runs/", "/mode?pool=main&to=", "/pause?do=pause&pool=",
	} {
		b.navigate(path + url.PathEscape(evil))
		if made := mustEval[[]string](b, injectedElements); len(made) > 0 {
			t.Errorf("%s: text has become %v", path, made)
		}
	}
}

// checkDownloads checks the downloads of the page, JSON and CSV: no browser may render them as a
// page.
func (b *tab) checkDownloads() {
	b.Helper()
	files := mustEval[[]struct{ Kind, Sniff, Text string }](b, `Promise.all([...document.querySelectorAll("#runs .cardhead a, #runs a[href*=csv], #runs a[href*=json]")].map(async (a) => {
		const reply = await fetch(a.href);
		return { kind: reply.headers.get("Content-Type"), sniff: reply.headers.get("X-Content-Type-Options"), text: await reply.text() };
	}))`)
	if len(files) < 2 {
		b.Errorf("%d files are offered", len(files))
	}
	for _, f := range files {
		if !strings.HasPrefix(f.Kind, "application/json") && !strings.HasPrefix(f.Kind, "text/csv") || f.Sniff != "nosniff" || !strings.Contains(f.Text, "alert(1)") {
			b.Errorf("a file is %s, %s: %.200s", f.Kind, f.Sniff, f.Text)
		}
		if strings.HasPrefix(f.Kind, "application/json") && strings.Contains(f.Text, "<script>") {
			b.Errorf("the JSON has a bare <: %.200s", f.Text)
		}
	}
}

// injectedElements are elements and attributes that the pages never have.
const injectedElements = `[...document.querySelectorAll("*")].filter((e) => ["IMG", "IFRAME", "OBJECT", "EMBED", "TEXTAREA"].includes(e.tagName)
	|| e.tagName === "SCRIPT" && !e.src || [...e.attributes].some((a) => a.name.startsWith("on") || a.name === "srcdoc" || a.value.trim().toLowerCase().startsWith("javascript:") && ["href", "src", "action", "formaction"].includes(a.name)))
	.map((e) => e.outerHTML.slice(0, 200))`

// hostileSettings defines a drill with such texts.
func hostileSettings(evil string) string {
	return fmt.Sprintf(`drills:
  - id: evil
    name: %q
    note: %q
    owner: %q
    schedule: "30 4 * * 1"
    scenario: {duration: 60s, arrivals: {rate: 0.5}, service: "fixed:5s"}
    expect: [late_share <= 50%%]
    abort_if: [error_share >= 90%%]
    recovery: 5m
`, hostileTexts()[0]+hostileTexts()[1], evil, hostileTexts()[0]+hostileTexts()[2])
}

// seedHostile writes such texts into every text field of the record.
func seedHostile(t *testing.T, dir string) {
	t.Helper()
	evil := strings.Join(hostileTexts(), " ")
	withStore(t, dir, func(s *sqlite.Store) error {
		if _, err := seed.Fill(t.Context(), hostileStore{s.Drills(), evil}, time.Now(), 30, 1); err != nil {
			return err
		}
		return insertIncidents(t, s, 3, evil, hostileTexts()[0], "evil")
	})
}

// hostileStore puts a text into all fields of runs.
type hostileStore struct {
	drill.Store
	text string
}

func (d hostileStore) Claim(ctx context.Context, now time.Time, r drill.Run, lease time.Duration) (int64, error) {
	return d.Store.Claim(ctx, now, d.replaceTexts(r), lease)
}

func (d hostileStore) Save(ctx context.Context, now time.Time, r drill.Run) error {
	return d.Store.Save(ctx, now, d.replaceTexts(r))
}

func (d hostileStore) RecordNotRun(ctx context.Context, r drill.Run) error {
	return d.Store.RecordNotRun(ctx, d.replaceTexts(r))
}

func (d hostileStore) replaceTexts(r drill.Run) drill.Run {
	name := hostileTexts()[0] + hostileTexts()[1]
	r.Name, r.Spec.Name, r.Actor, r.Reason, r.Version = name, name, name, d.text, name
	r.Spec.Note, r.Spec.Owner = d.text, d.text
	for i := range r.Phases {
		r.Phases[i].Note = d.text
	}
	for i := range r.Hypotheses {
		h := &r.Hypotheses[i]
		h.Evidence, h.Reason = d.text, d.text
	}
	for i := range r.Reverts {
		r.Reverts[i].What, r.Reverts[i].Note = d.text, d.text
	}
	r.Messages = append(r.Messages, drill.Message{Incident: name, Kind: "post", Level: "page", Channel: name, Text: d.text, FirstAttempt: r.Started, Accepted: r.Started})
	return r
}
