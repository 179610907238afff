package browser

import "github.com/chromedp/chromedp"

// controlsScript are what can be pressed, by what it says: in the page itself, or else in
// its frame.
const controlsScript = `(name) => ["main", "body"].flatMap((part) => [...document.querySelector(part).querySelectorAll("a[href], button, summary, input[type=checkbox]")])
	.filter((e) => [e, ...e.labels ?? []].some((l) => l.textContent.replace(/\s+/g, " ").trim() === name) && e.checkVisibility({ visibilityProperty: true }))`

// click presses the first control that says just this. It waits until that can be
// pressed: it is there, in view, not disabled and not covered by another one. If it
// leads to another page, or to this one anew, it waits until the old one has gone.
func (b *tab) click(name string) {
	b.Helper()
	b.waitFor("there is something to press that says "+name, `(() => {
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
	b.waitFor("the press of "+name+" counts", `!window.pressed && document.readyState === "complete"`)
}

// fill puts a text into the field with a name, as somebody types it.
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

// choose chooses an option of a field by its value.
func (b *tab) choose(field, value string) {
	b.Helper()
	b.waitFor("there is "+value+" to choose", `(() => {
		const e = document.querySelector("main select[name=" + CSS.escape(%s) + "]");
		if (!e || ![...e.options].some((o) => o.value === %s)) return false;
		e.value = %s;
		e.dispatchEvent(new Event("change", { bubbles: true }));
		return true;
	})()`, field, value, value)
}
