package browser

import (
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/kb"
)

// tabTo presses Tab until a control with a label has the focus.
func (b *tab) tabTo(label string) {
	b.Helper()
	for range 200 {
		b.run(chromedp.KeyEvent(kb.Tab))
		if mustEval[string](b, focusedText) == label {
			return
		}
	}
	b.Fatalf("Tab never reaches %q", label)
}

// focusedText is the label or the text of the element with the focus.
const focusedText = `(document.activeElement.labels?.[0] ?? document.activeElement).textContent.replace(/\s+/g, " ").trim()`

// Sign-in, rollback and restore work with the keyboard alone.
func TestKeyboardOnly(t *testing.T) {
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

// The calendar is a single Tab stop; arrows go from day to day, and Enter shows the runs of one.
func TestCalendarByKeyboard(t *testing.T) {
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

// Tab reaches every control in order, and the focus is visible.
func TestTabReachesEveryControl(t *testing.T) {
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

// checkTabOrder goes through the page with Tab. Parts that refresh keep the focus. It goes
// through a page again if that got more controls meanwhile, such as a chart with its table.
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
			b.Errorf("%s: Tab reaches\n\t%s\nwant\n\t%s\nand the focus cannot be seen at %v", path, strings.Join(got, "\n\t"), strings.Join(want, "\n\t"), unseen)
			return
		}
	}
	b.Errorf("%s: the controls keep changing", path)
}

// tabThrough returns the controls that Tab reaches from the start, in a number of steps at most,
// and those at which the focus was not visible.
func (b *tab) tabThrough(steps int) (got, unseen []string) {
	b.Helper()
	if err := b.eval(`document.activeElement.blur(); getSelection().removeAllRanges(); scrollTo(0, 0)`, nil); err != nil {
		b.Fatal(err)
	}
	// There and back: browsers show the focus only after the keyboard was used.
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

// describeScript describes an element.
const describeScript = `const described = (e) => e.tagName.toLowerCase() + " " + (e.getAttribute("aria-label") ?? e.name ?? "") + " " + (e.href ? e.getAttribute("href") + " " : "") + e.textContent.replace(/\s+/g, " ").trim().slice(0, 40);`

// numberControls are all enabled controls in order.
const numberControls = `(() => { ` + describeScript + `
	return [...document.querySelectorAll("a[href], button, input:not([type=hidden]), select, summary, [tabindex='0']")]
		.filter((e) => !e.disabled && e.tabIndex >= 0 && e.checkVisibility({ visibilityProperty: true })).map(described).filter((d, i, all) => all.indexOf(d) === i); })()`

// focusedElement is the element with the focus, and whether the focus is visible.
const focusedElement = `(() => { ` + describeScript + `
	const e = document.activeElement;
	if (e === document.body || !e) return { Name: "", Seen: true };
	const s = getComputedStyle(e), r = e.getBoundingClientRect();
	return { Name: described(e), Seen: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) > 0 && r.width > 0 && r.bottom > 0 && r.top < innerHeight };
})()`
