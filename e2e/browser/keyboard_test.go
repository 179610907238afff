package browser

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// tabTo presses Tab until what has the focus says just this, and returns whether it
// ever did.
func (b *tab) tabTo(says string) {
	b.Helper()
	for range 200 {
		b.run(chromedp.KeyEvent(kb.Tab))
		if mustEval[string](b, focusedText) == says {
			return
		}
	}
	b.Fatalf("Tab never comes to %q", says)
}

// focusedText is what the element with the focus says.
const focusedText = `(document.activeElement.labels?.[0] ?? document.activeElement).textContent.replace(/\s+/g, " ").trim()`

// TestKeyboardIsEnough: somebody who has no mouse signs in, rolls back and restores.
func TestKeyboardIsEnough(t *testing.T) {
	t.Parallel()
	h := options{}.start(t)
	withAndWithoutScript(t, h, func(b *tab) {
		b.navigate("/")
		b.waitPath("/login")
		b.waitFor("the token is asked for", `document.activeElement.name === "token"`)
		b.run(chromedp.KeyEvent(h.token(b.T)), chromedp.KeyEvent(kb.Enter))
		b.waitPath("/")
		b.run(chromedp.KeyEvent(kb.Tab))
		if first := mustEval[string](b, focusedText); first != "Skip to the content" {
			b.Errorf("Tab begins at %q", first)
		}
		b.run(chromedp.KeyEvent(kb.Enter))
		b.waitFor("the way to the content is short", `location.hash === "#main"`)
		b.tabTo("Roll back main")
		b.run(chromedp.KeyEvent(kb.Enter))
		b.waitPath("/mode")
		b.waitFor("the reason is asked for", `document.activeElement.name === "reason"`)
		b.run(chromedp.KeyEvent("by keyboard"), chromedp.KeyEvent(kb.Tab))
		b.run(chromedp.KeyEvent(" "))
		b.waitPath("/")
		b.waitText("Pass-through")
		b.tabTo("Restore main")
		b.run(chromedp.KeyEvent(kb.Enter))
		b.waitPath("/mode")
		b.waitFor("the reason is asked for", `document.activeElement.name === "reason"`)
		b.run(chromedp.KeyEvent(kb.Enter))
		b.waitPath("/")
		b.waitText("Enforce")
	})
}

// TestYearIsWalked: a calendar of hundreds of days is one stop of Tab, arrows go from
// day to day, and Enter shows the runs of one.
func TestYearIsWalked(t *testing.T) {
	t.Parallel()
	h := options{seed: seedHistory}.start(t)
	b := h.tab(t)
	h.signIn(b, "Ana Lyst")
	b.navigate("/drills")
	b.checkTabOrder("/drills")
	if stops := mustEval[int](b, `[...document.querySelectorAll(".cal a")].filter((a) => a.tabIndex >= 0).length`); stops != 1 {
		t.Errorf("the calendar has %d stops", stops)
	}
	b.run(chromedp.Focus(chromedp.CSS(".cal a[tabindex='0']")))
	newest := mustEval[string](b, "document.activeElement.search")
	b.run(chromedp.KeyEvent(kb.ArrowLeft))
	before := mustEval[string](b, "document.activeElement.search")
	if before >= newest || !strings.HasPrefix(before, "?day=") {
		t.Errorf("left of %s is %s", newest, before)
	}
	b.run(chromedp.KeyEvent(kb.Enter))
	b.waitFor("the runs of that day are shown", `location.search === %s && document.querySelectorAll("table.runs tbody tr").length > 0`, before)
	day := strings.TrimPrefix(before, "?day=")
	if other := mustEval[[]string](b, `[...document.querySelectorAll("table.runs tbody tr")].map((r) => r.querySelector("time").dateTime.slice(0, 10))`); slices.ContainsFunc(other, func(d string) bool { return d != day }) {
		t.Errorf("on %s there are runs of %v", day, other)
	}
}

// TestEveryControlIsReached: with Tab, in the order in which they stand, and it can be
// seen where the focus is.
func TestEveryControlIsReached(t *testing.T) {
	t.Parallel()
	h := options{rules: true, settings: drillSettings}.start(t)
	incident := h.awaitIncident(t)
	b := h.tab(t)
	b.navigate("/login")
	b.checkTabOrder("/login")
	h.signIn(b, "Ana Lyst")
	for _, path := range []string{
		"/", "/mode?pool=main&to=passthrough", "/pause?pool=main&do=pause", "/incidents", "/incidents/" + incident, "/audit",
		"/drills", "/drills/definitions", "/drills/freeze?do=freeze", "/runbooks", "/runbooks/queue_age",
	} {
		b.navigate(path)
		b.checkTabOrder(path)
	}
}

// checkTabOrder goes through the page with Tab. The parts that refresh themselves keep the
// focus, or it would begin anew. A page that has got more controls meanwhile, such as
// a chart with its table, is gone through again.
func (b *tab) checkTabOrder(path string) {
	b.Helper()
	b.waitFor("the page is whole", `document.readyState === "complete"`)
	for range 5 {
		want := mustEval[[]string](b, numberControls)
		got, unseen := b.tabThrough(3*len(want) + 20) // dates have several parts
		switch {
		case slices.Equal(got, want) && len(unseen) == 0:
			return
		case slices.Equal(mustEval[[]string](b, numberControls), want):
			b.Errorf("%s: Tab comes to\n\t%s\nwant\n\t%s\nand the focus cannot be seen at %v", path, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"), unseen)
			return
		}
	}
	b.Errorf("%s: the controls change all the time", path)
}

// tabThrough returns what Tab comes to, from the beginning, in so many steps at most,
// and where the focus could not be seen.
func (b *tab) tabThrough(steps int) (got, unseen []string) {
	b.Helper()
	if err := b.eval(`document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0)`, nil); err != nil {
		b.Fatal(err)
	}
	// There and back: what is shown of the focus depends on whether keys are used.
	b.run(chromedp.Focus(chromedp.CSS(".skip")), chromedp.KeyEvent(kb.Tab), chromedp.KeyEvent(kb.Tab, chromedp.KeyModifiers(chromedp.ModifierShift)))
	for range steps {
		at := mustEval[struct {
			Name string
			Seen bool
		}](b, focusedElement)
		if at.Name == "" {
			break
		}
		if !slices.Contains(got, at.Name) {
			got = append(got, at.Name)
		}
		if !at.Seen {
			unseen = append(unseen, at.Name)
		}
		b.run(chromedp.KeyEvent(kb.Tab))
	}
	return got, unseen
}

// describeScript is what an element is called in a test.
const describeScript = `const described = (e) => e.tagName.toLowerCase() + " " + (e.getAttribute("aria-label") ?? e.name ?? "") + " " + (e.href ? e.getAttribute("href") + " " : "") + e.textContent.replace(/\s+/g, " ").trim().slice(0, 40);`

// numberControls are all controls that can be used, in order.
const numberControls = `(() => { ` + describeScript + `
	return [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary, [tabindex='0']")]
		.filter((e) => !e.disabled && e.tabIndex >= 0 && e.checkVisibility({ visibilityProperty: true })).map(described).filter((d, i, all) => all.indexOf(d) === i); })()`

// focusedElement is the element with the focus, and whether that can be seen.
const focusedElement = `(() => { ` + describeScript + `
	const e = document.activeElement;
	if (e === document.body || !e) return { Name: "", Seen: true };
	const s = getComputedStyle(e), r = e.getBoundingClientRect();
	return { Name: described(e), Seen: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0 && r.width > 0 && r.bottom > 0 && r.top < innerHeight };
})()`
