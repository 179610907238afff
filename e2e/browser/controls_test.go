package browser

import "github.com/chromedp/chromedp"

// controlsScript returns the controls with a label: those of the content first, then those of
// the navigation.
const controlsScript = `(name) => ["main", "body"].flatMap((part) => [...document.querySelector(part).querySelectorAll("a[href], button, summary, input[type=checkbox]")])
	.filter((e) => [e, ...e.labels ?? []].some((l) => l.textContent.replace(/\s+/g, " ").trim() === name) && e.checkVisibility({ visibilityProperty: true }))`

// click clicks the first control with a label. It waits until the control can be clicked: it
// is in view, enabled and not covered. If it loads a page, click waits until that has begun.
func (b *tab) click(name string) {
	b.Helper()
	b.waitFor("there is a control "+name, `(() => {
		const e = (`+controlsScript+`)(%s)[0];
		if (!e || e.disabled || document.readyState !== "complete") return false;
		e.scrollIntoView({ block: "center" });
		const r = e.getClientRects()[0];
		const top = document.elementFromPoint(r.x + r.width / 2, r.y + r.height / 2);
		if (!e.contains(top)) return false;
		window.pressed = e.tagName === "BUTTON" && e.form !== null || e.tagName === "A" && !e.getAttribute("href").startsWith("#");
		e.click();
		return true;
	})()`, name)
	b.waitFor("the click on "+name+" takes effect", `!window.pressed && document.readyState === "complete"`)
}

// fill types a text into the field with a name.
func (b *tab) fill(field, text string) {
	b.Helper()
	b.waitFor("there is a field "+field, `(() => {
		const e = document.querySelector("main [name=" + CSS.escape(%s) + "]");
		if (!e || !e.checkVisibility()) return false;
		e.focus();
		e.select?.();
		return document.activeElement === e;
	})()`, field)
	b.run(chromedp.KeyEvent(text))
}

// choose selects an option of a field by its value.
func (b *tab) choose(field, value string) {
	b.Helper()
	b.waitFor("there is an option "+value, `(() => {
		const e = document.querySelector("main select[name=" + CSS.escape(%s) + "]");
		if (!e || ![...e.options].some((o) => o.value === %s)) return false;
		e.value = %s;
		e.dispatchEvent(new Event("change", { bubbles: true }));
		return true;
	})()`, field, value, value)
}
