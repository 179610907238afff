package browser

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"headgate/e2e/rollback/rig"
)

// tour is the pages that everybody can find.
func tour() map[string]string {
	return map[string]string{
		"overview": "/", "pool": "/pools/main", "rollback": "/mode?pool=main&to=passthrough", "pause": "/pause?pool=main&do=pause",
		"incidents": "/incidents", "history": "/drills", "definitions": "/drills/definitions", "start": "/drills/start?drill=burst",
		"freeze": "/drills/freeze?do=freeze", "audit": "/audit", "runbooks": "/runbooks", "runbook": "/runbooks/queue_age", "missing": "/nothing",
	}
}

// TestEveryPageIsUsable: by everybody, in light and dark, on a wide screen and on a
// phone, while there is nothing to show and while there is a year.
func TestEveryPageIsUsable(t *testing.T) {
	t.Parallel()
	t.Run("empty", func(t *testing.T) {
		t.Parallel()
		h := plan{}.build(t)
		b := h.tab(t)
		b.watch.refusing()
		b.visit("/login")
		b.holds("empty-login")
		h.signIn(b, "Ana Lyst")
		for name, path := range tour() {
			b.visit(path)
			b.holds("empty-" + name)
		}
	})
	t.Run("full", func(t *testing.T) {
		t.Parallel()
		h := plan{seed: aYear, top: yearTop, rules: true}.build(t)
		h.work(t)
		b := h.tab(t)
		b.watch.refusing()
		h.signIn(b, "Ana Lyst")
		pages := tour()
		b.visit("/drills")
		pages["run"] = get[string](b, `document.querySelector("table.runs a[href^='/drills/runs/']").getAttribute("href")`)
		b.visit("/drills?verdict=failed")
		pages["run-failed"] = get[string](b, `document.querySelector("table.runs a[href^='/drills/runs/']").getAttribute("href")`)
		open := h.awaitIncident(t)
		pages["incident"] = "/incidents/" + open
		for name, path := range pages {
			b.visit(path)
			b.holds("full-" + name)
		}
	})
}

const yearTop = `drills:
  - id: weekly-burst
    name: Weekly burst
    note: the burst of every week
    owner: the team of the gate
    schedule: "30 4 * * 1"
    zone: Europe/Berlin
    scenario: {duration: 60s, arrivals: {rate: 0.5}, service: "fixed:5s"}
    expect: [late_share <= 50%]
    abort_if: [error_share >= 90%]
    recovery: 5m
`

// holds looks at the page as it is: whether everybody can use it, and whether it
// fits on a phone. It keeps pictures.
func (b *tab) holds(name string) {
	b.Helper()
	b.until("the page is whole", `document.readyState === "complete"`)
	b.look("light", "")
	b.faultless(name + ", light")
	b.shot(name)
	b.look("dark", "")
	b.faultless(name+", dark", "color-contrast")
	b.shot(name + "-dark")
	if pictured() {
		b.look("light", "print")
		b.shot(name + "-print")
	}
	b.look("light", "")
	b.phone()
	b.do(chromedp.Reload()) // or what was laid out for a wide page might count
	if wide := get[[]string](b, tooWide); len(wide) > 0 {
		b.Errorf("%s is wider than a phone: %s", name, strings.Join(wide, "\n\t"))
	}
	b.shot(name + "-phone")
	b.faultless(name+", phone", "target-size", "scrollable-region-focusable")
	b.wide()
}

// tooWide are the elements that stick out of the window, if the page has to be
// scrolled sideways.
const tooWide = `(() => {
	const most = document.documentElement.clientWidth;
	if (document.documentElement.scrollWidth <= most) return [];
	return [...document.body.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > most + 1 && !e.closest(".scroll")).slice(0, 5).map((e) => e.outerHTML.slice(0, 160));
})()`

// faultless fails with what axe-core finds.
func (b *tab) faultless(name string, rules ...string) {
	b.Helper()
	for _, v := range b.usable(rules...) {
		b.Errorf("%s: %s", name, v)
	}
}

// work is some traffic, a change of mode and back, and a silence.
func (h *house) work(t *testing.T) {
	t.Helper()
	c := rig.NewCrowd(h.URL)
	c.Join(30)
	if _, err := c.Ended(time.Minute); err != nil {
		t.Error(err)
	}
	for _, mode := range []string{"passthrough", "enforce"} {
		if _, err := h.Order(mode); err != nil {
			t.Error(err)
		}
	}
	if err := h.Call(http.MethodPost, "silences", `{"rule":"signal_missing","for":"1h","reason":"the test is loud"}`, new(any)); err != nil {
		t.Error(err)
	}
}
