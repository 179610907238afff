package ui_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"headgate/engine/tsdb"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// newFullFixture is a fixture with something on every page, and the paths of its pages.
func newFullFixture(t *testing.T, text string) (*fixture, []string) {
	t.Helper()
	p := healthyPool("default")
	p.ModeBy, p.ModeReason, p.Refused1m, p.Overdue, p.DrainS = text, text, 5, 2, 31
	r := newFixture(t, fixtureOptions{pools: []control.PoolStatus{p, healthyPool("b")}, drills: drillsWithText(t, text)})
	now := time.Now()
	r.series.lines = func(_ string, from, to time.Time, step time.Duration) []tsdb.Series {
		l := tsdb.Series{Labels: map[string]string{"reason": text}}
		for at := from; !at.After(to); at = at.Add(step) {
			l.Points = append(l.Points, tsdb.Point{At: at, V: 40 + 30*float64(at.Unix()%7)/7})
		}
		return []tsdb.Series{l}
	}
	r.record.page = control.NewAuditPage([]control.ModeChange{{ID: "1", At: now.Add(-10 * time.Minute), Pool: text, Action: control.Rollback, From: admission.Enforce, To: admission.PassThrough,
		Actor: text, Via: control.ViaAPI, Reason: text, Running: 4, Queued: 20, Dropped: 1}}, []control.AuditEntry{{ID: "2", At: now, Kind: control.KindInteraction, Action: text, Result: control.Refused, Pool: text, Subject: "abc",
		Actor: text, Via: control.ViaSlack, Reason: text, Inputs: map[string]string{text: text}}}, "key "+text)
	id := r.openIncident("queue_age", "a")
	i := r.engine.Incidents()[0]
	i.ID, i.Key.Rule, i.Key.Pool, i.Summary, i.Impact, i.Unit, i.Runbook, i.AckedBy = "older", text, text, text, text, text, text, text
	i.Ended = now
	r.incidents.Add(i)
	return r, []string{"/", "/?last=15m", "/pools/default", "/mode?to=passthrough", "/mode?to=restore&pool=b", "/incidents", "/incidents/" + id, "/incidents/older",
		"/audit", "/runbooks", "/runbooks/queue_age", "/nothing", "/incidents/none", "/pools/none",
		"/drills", "/drills?drill=burst&day=2026-03-02", "/drills?verdict=missed&drill=none", "/drills/runs/" + runID(1), "/drills/runs/" + runID(2), "/drills/runs/none",
		"/drills/definitions", "/drills/start?drill=burst", "/drills/start?drill=live", "/drills/start?drill=none", "/drills/runs/" + runID(2) + "/abort",
		"/drills/freeze?do=freeze", "/drills/freeze?do=unfreeze"}
}

// TestEveryPageIsValidHTML: what holds on every page.
func TestEveryPageIsValidHTML(t *testing.T) {
	r, paths := newFullFixture(t, "some words")
	for _, path := range append(paths, "/login", "/login?code=ABC") {
		b := r.signedIn()
		if strings.HasPrefix(path, "/login") {
			b = r.browser()
		}
		page := b.get(path)
		t.Run(path, func(t *testing.T) {
			page.T = t
			assertStrictHeaders(page)
			assertNothingInline(page)
			assertStructure(page)
			assertDistinctLandmarks(page)
			assertLabelledFields(page)
			if size := len(page.body); size > 100<<10 {
				t.Errorf("%d bytes", size)
			}
		})
	}
}

func assertStrictHeaders(a response) {
	a.Helper()
	for name, want := range map[string]string{
		"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
			"form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
		"X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store", "Content-Type": "text/html; charset=utf-8",
	} {
		if got := a.header.Get(name); got != want {
			a.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// assertNothingInline looks for what the policy of the page would forbid.
func assertNothingInline(a response) {
	a.Helper()
	walk(a.doc, func(n *html.Node) {
		if n.Type != html.ElementNode {
			return
		}
		if n.Data == "style" || n.Data == "script" && (attr(n, "src") == "" || n.FirstChild != nil) {
			a.Errorf("unexpected <%s> in the page", n.Data)
		}
		for _, at := range n.Attr {
			if at.Key == "style" || strings.HasPrefix(at.Key, "on") {
				a.Errorf("unexpected <%s %s> in the page", n.Data, at.Key)
			}
			if slices.Contains([]string{"src", "href", "action"}, at.Key) && !strings.HasPrefix(at.Val, "/") && !strings.HasPrefix(at.Val, "?") && !strings.HasPrefix(at.Val, "#") {
				a.Errorf("<%s> leads elsewhere: %q", n.Data, at.Val)
			}
		}
	})
}

// assertStructure checks landmarks, headings, tables and IDs.
func assertStructure(a response) {
	a.Helper()
	for _, tag := range []string{"main", "h1", "header", "footer", "title"} {
		if n := len(a.elements(tag)); n != 1 && tag != "title" || n == 0 {
			a.Errorf("%d × %s", n, tag)
		}
	}
	last := 0
	walk(a.doc, func(n *html.Node) {
		if n.Type != html.ElementNode || len(n.Data) != 2 || n.Data[0] != 'h' || n.Data[1] < '1' || n.Data[1] > '6' {
			return
		}
		level := int(n.Data[1] - '0')
		if level > last+1 {
			a.Errorf("h%d after h%d", level, last)
		}
		last = level
	})
	for _, table := range a.elements("table") {
		if table.FirstChild == nil || !contains(table, "caption") || !contains(table, "th") {
			a.Error("a table without a caption or headings")
		}
	}
	seen := map[string]bool{}
	walk(a.doc, func(n *html.Node) {
		if id := attr(n, "id"); id != "" && seen[id] {
			a.Errorf("two things have the ID %q", id)
		} else if id != "" {
			seen[id] = true
		}
	})
	walk(a.doc, func(n *html.Node) {
		for _, ref := range strings.Fields(attr(n, "aria-labelledby")) {
			if !seen[ref] {
				a.Errorf("<%s> is labelled by %q, which is not there", n.Data, ref)
			}
		}
	})
}

// assertDistinctLandmarks: who jumps from part to part has to hear which is which.
func assertDistinctLandmarks(a response) {
	a.Helper()
	named := map[string]string{}
	walk(a.doc, func(n *html.Node) {
		if id := attr(n, "id"); id != "" {
			part := response{doc: n}
			named[id] = part.text()
		}
	})
	seen := map[string]bool{}
	walk(a.doc, func(n *html.Node) {
		name := attr(n, "aria-label")
		if name == "" {
			name = named[attr(n, "aria-labelledby")]
		}
		if name == "" || n.Data != "section" && n.Data != "nav" && n.Data != "aside" && attr(n, "role") != "region" {
			return
		}
		if seen[name] {
			a.Errorf("two parts are called %q", name)
		}
		seen[name] = true
	})
}

func contains(n *html.Node, tag string) (found bool) {
	walk(n, func(c *html.Node) { found = found || c.Data == tag })
	return found
}

// assertLabelledFields: a screen reader can name every field.
func assertLabelledFields(a response) {
	a.Helper()
	labels := map[string]bool{}
	for _, l := range a.elements("label") {
		labels[attr(l, "for")] = true
	}
	for _, tag := range []string{"input", "select"} {
		for _, f := range a.elements(tag) {
			wrapped := f.Parent != nil && f.Parent.Data == "label"
			if attr(f, "type") != "hidden" && !labels[attr(f, "id")] && !wrapped {
				a.Errorf("<%s name=%q> has no label", tag, attr(f, "name"))
			}
		}
	}
	for _, tag := range []string{"button", "a"} {
		for _, n := range a.elements(tag) {
			text := response{doc: n}
			if text.text() == "" {
				a.Errorf("a %s without words", tag)
			}
		}
	}
}

// TestTextFromOutsideIsInert: on every page, in every field.
func TestTextFromOutsideIsInert(t *testing.T) {
	for _, evil := range []string{
		`<script>alert(1)</script>`, `"><img src=x onerror=alert(1)>`, `' onmouseover='alert(1)`, `</title><svg onload=alert(1)>`,
		`javascript:alert(1)`, `{{.Form}}`, `--><b>bold</b>`, "\u202eevil", `&lt;i&gt;`, `]]></style>`,
	} {
		r, paths := newFullFixture(t, evil)
		b := r.signedIn()
		b.submit(b.get("/mode?to=observe&pool=b"), "/mode", nil)
		for _, path := range paths {
			page := b.get(path)
			assertNothingInline(page)
			for _, tag := range []string{"img", "i", "iframe", "object"} {
				if len(page.elements(tag)) > 0 {
					t.Errorf("%s: %q has become a <%s>", path, evil, tag)
				}
			}
		}
		shown := b.get("/audit").text()
		if want := strings.Join(strings.Fields(evil), " "); !strings.Contains(shown, want) {
			t.Errorf("%q is not shown as it is:\n%s", evil, shown)
		}
	}
}

// TestNamesOfPeopleAreInert: the name that a person signs in with is on every page.
func TestNamesOfPeopleAreInert(t *testing.T) {
	r := newFixture(t, fixtureOptions{})
	b := r.browser()
	b.post("/login", map[string][]string{"token": {token}, "name": {`<b>ana</b>"'`}}).want(http.StatusSeeOther)
	page := b.get("/").want(http.StatusOK, `<b>ana</b>"'`)
	assertNothingInline(page)
}

func TestFilesAreServed(t *testing.T) {
	r := newFixture(t, fixtureOptions{})
	b := r.browser()
	page := b.get("/login")
	for _, tag := range []string{"link", "script"} {
		for _, n := range page.elements(tag) {
			path := attr(n, "href") + attr(n, "src")
			got := b.get(path)
			if got.status != http.StatusOK || !strings.Contains(got.header.Get("Cache-Control"), "immutable") || got.header.Get("X-Content-Type-Options") != "nosniff" {
				t.Errorf("%s: %d %v", path, got.status, got.header)
			}
			kind, _, _ := strings.Cut(got.header.Get("Content-Type"), ";")
			if !slices.Contains([]string{"text/css", "text/javascript", "image/svg+xml"}, kind) {
				t.Errorf("%s is %s", path, kind)
			}
		}
	}
	for _, path := range []string{"/static/none.css", "/static/..%2fpages.go", "/static/"} {
		if got := b.get(path); got.status != http.StatusNotFound {
			t.Errorf("%s: %d", path, got.status)
		}
	}
}
