package browser

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"headgate/e2e/harness"
	"headgate/e2e/rollbacktest"
)

// pagePaths are the pages of the navigation.
func pagePaths() map[string]string {
	return map[string]string{
		"overview": "/", "pool": "/pools/main", "rollback": "/mode?pool=main&to=passthrough", "pause": "/pause?pool=main&do=pause",
		"incidents": "/incidents", "history": "/drills", "definitions": "/drills/definitions", "start": "/drills/start?drill=burst",
		"freeze": "/drills/freeze?do=freeze", "audit": "/audit", "runbooks": "/runbooks", "runbook": "/runbooks/queue_age", "missing": "/nothing",
	}
}

// Every page is accessible and fits the screen: in light and dark, wide and on a phone, without
// data and with those of a year.
func TestEveryPage(t *testing.T) {
	t.Parallel()
	t.Run("empty", func(t *testing.T) {
		t.Parallel()
		h := options{}.start(t)
		b := h.tab(t)
		b.monitor.allowClientErrors()
		b.navigate("/login")
		b.checkLayout("empty-login")
		h.signIn(b, "Ana Lyst")
		for name, path := range pagePaths() {
			b.navigate(path)
			b.checkLayout("empty-" + name)
		}
	})
	t.Run("full", func(t *testing.T) {
		t.Parallel()
		h := options{seed: seedHistory, settings: seedSettings, rules: true}.start(t)
		h.makeTraffic(t)
		b := h.tab(t)
		b.monitor.allowClientErrors()
		h.signIn(b, "Ana Lyst")
		pages := pagePaths()
		b.navigate("/drills")
		pages["run"] = mustEval[string](b, `document.querySelector("table.runs a[href^='/drills/runs/']").getAttribute("href")`)
		b.navigate("/drills?verdict=failed")
		pages["run-failed"] = mustEval[string](b, `document.querySelector("table.runs a[href^='/drills/runs/']").getAttribute("href")`)
		open := h.awaitIncident(t)
		pages["incident"] = "/incidents/" + open
		for name, path := range pages {
			b.navigate(path)
			b.checkLayout("full-" + name)
		}
	})
}

const seedSettings = `drills:
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

// checkLayout checks that the page is accessible and fits on a phone, and takes pictures.
func (b *tab) checkLayout(name string) {
	b.Helper()
	b.waitFor("the page is whole", `document.readyState === "complete"`)
	b.emulateMedia("light", "")
	b.wantNoViolations(name + ", light")
	b.screenshot(name)
	b.emulateMedia("dark", "")
	b.wantNoViolations(name+", dark", "color-contrast")
	b.screenshot(name + "-dark")
	if keepScreenshots() {
		b.emulateMedia("light", "print")
		b.screenshot(name + "-print")
	}
	b.emulateMedia("light", "")
	b.phoneViewport()
	b.run(chromedp.Reload()) // or what was laid out for a wide page might count
	if wide := mustEval[[]string](b, overflowingElements); len(wide) > 0 {
		b.Errorf("%s is wider than a phone: %s", name, strings.Join(wide, "\n\t"))
	}
	b.screenshot(name + "-phone")
	b.wantNoViolations(name+", phone", "target-size", "scrollable-region-focusable")
	b.desktopViewport()
}

// overflowingElements are the elements that make the page scroll sideways.
const overflowingElements = `(() => {
	const most = document.documentElement.clientWidth;
	if (document.documentElement.scrollWidth <= most) return [];
	return [...document.body.querySelectorAll("*")].filter((e) => e.getBoundingClientRect().right > most + 1 && !e.closest(".scroll")).slice(0, 5).map((e) => e.outerHTML.slice(0, 160));
})()`

// wantNoViolations fails the test with the violations that axe-core finds.
func (b *tab) wantNoViolations(name string, rules ...string) {
	b.Helper()
	for _, v := range b.axeViolations(rules...) {
		b.Errorf("%s: %s", name, v)
	}
}

// makeTraffic sends tasks, changes the mode and back, and silences a rule.
func (h *instance) makeTraffic(t *testing.T) {
	t.Helper()
	c := rollbacktest.NewClients(h.URL)
	c.Start(30)
	if _, err := c.Wait(harness.Timeout); err != nil {
		t.Error(err)
	}
	for _, mode := range []string{"passthrough", "enforce"} {
		if _, err := h.SetMode(mode); err != nil {
			t.Error(err)
		}
	}
	harness.Post[any](t, h.Gate, "silences", `{"rule":"signal_missing","for":"1h","reason":"the test is loud"}`)
}
