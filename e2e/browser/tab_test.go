package browser

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"headgate/internal/testkit"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
)

// timeout limits the wait for what a page must show.
var timeout = testkit.Timeout(time.Minute)

// tab is a page with its monitor.
type tab struct {
	*testing.T
	ctx      context.Context
	origin   string // of the gate, without a slash at the end
	noScript bool   // without JavaScript
	monitor  *pageMonitor
}

// openTab opens an empty page with its own cookies. At the end of the test its monitor must have
// no records.
func openTab(t *testing.T, origin string) *tab {
	t.Helper()
	p, err := chromium()
	if err != nil {
		t.Fatal(err)
	}
	return newTab(t, p.ctx, origin, chromedp.WithNewBrowserContext())
}

// sameSession opens an empty page with the same cookies.
func (b *tab) sameSession() *tab { b.Helper(); return newTab(b.T, b.ctx, b.origin) }

func newTab(t *testing.T, parent context.Context, origin string, options ...chromedp.ContextOption) *tab {
	t.Helper()
	w := &pageMonitor{origin: origin}
	ctx, cancel := chromedp.NewContext(parent, append(options, chromedp.WithListener(w.onEvent))...)
	b := &tab{T: t, ctx: ctx, origin: origin, monitor: w}
	t.Cleanup(func() {
		if t.Failed() {
			b.logState()
		}
		cancel()
		w.report(t)
	})
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	b.desktopViewport()
	return b
}

// run runs actions that must succeed.
func (b *tab) run(steps ...chromedp.Action[chromedp.Void]) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		b.Fatal(err)
	}
}

// setViewport sets the size of the window.
func (b *tab) setViewport(width, height int64, phone bool) {
	b.Helper()
	p := emulation.SetDeviceMetricsOverrideParams{Width: width, Height: height, DeviceScaleFactor: 1, Mobile: phone}
	if _, err := chromedp.Call(b.ctx, emulation.SetDeviceMetricsOverride, p); err != nil {
		b.Fatal(err)
	}
}

func (b *tab) desktopViewport() { b.setViewport(1280, 900, false) }
func (b *tab) phoneViewport()   { b.setViewport(390, 844, true) }

// emulateMedia sets the colour scheme, light or dark, and the medium, screen or print.
func (b *tab) emulateMedia(scheme, medium string) {
	b.Helper()
	p := emulation.SetEmulatedMediaParams{Media: medium, Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme}, {Name: "prefers-reduced-motion", Value: "reduce"}}}
	if _, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, p); err != nil {
		b.Fatal(err)
	}
}

// disableScript disables JavaScript for pages that are loaded from now on.
func (b *tab) disableScript() {
	b.Helper()
	b.noScript = true
	if _, err := chromedp.Call(b.ctx, emulation.SetScriptExecutionDisabled, emulation.SetScriptExecutionDisabledParams{Value: true}); err != nil {
		b.Fatal(err)
	}
}

// navigate loads a page of the gate. A path that begins with http is taken as it is.
func (b *tab) navigate(path string) {
	b.Helper()
	if !strings.HasPrefix(path, "http") {
		path = b.origin + path
	}
	b.run(chromedp.Navigate(path))
}

// eval evaluates an expression in the page and decodes the value. It may fail because another
// page is being loaded.
func (b *tab) eval(expression string, out any) error {
	ctx, cancel := context.WithTimeout(b.ctx, timeout)
	defer cancel()
	yes := true
	got, err := chromedp.Call(ctx, runtime.Evaluate, runtime.EvaluateParams{
		Expression: expression, ReturnByValue: &yes, AwaitPromise: &yes, UserGesture: &yes})
	switch {
	case err != nil:
		return err
	case got.ExceptionDetails != nil:
		return fmt.Errorf("%s: %v", got.ExceptionDetails.Text, got.ExceptionDetails.Exception)
	case out == nil:
		return nil
	}
	return json.Unmarshal([]byte(got.Result.Value), out)
}

// mustEval evaluates an expression that must not fail.
func mustEval[T any](b *tab, expression string, args ...any) (value T) {
	b.Helper()
	if err := b.eval(formatScript(expression, args...), &value); err != nil {
		b.Fatal(err)
	}
	return value
}

// waitFor waits until an expression is true in the page.
func (b *tab) waitFor(what, expression string, args ...any) {
	b.Helper()
	text, last := formatScript(expression, args...), error(nil)
	for end := time.Now().Add(timeout); ; time.Sleep(20 * time.Millisecond) {
		var holds bool
		if last = b.eval(text, &holds); last == nil && holds {
			return
		}
		if time.Now().After(end) || b.ctx.Err() != nil {
			b.Fatalf("waited %v, and this did not happen: %s (%v)", timeout, what, last)
		}
	}
}

// formatScript formats values into an expression, as JSON.
func formatScript(expression string, args ...any) string {
	for n, a := range args {
		text, err := json.Marshal(a)
		if err != nil {
			panic(err) // of a value in a test
		}
		args[n] = string(text)
	}
	return fmt.Sprintf(expression, args...)
}

// hasText reports whether the page shows a text.
func (b *tab) hasText(text string) bool {
	var yes bool
	err := b.eval(formatScript(`document.body.innerText.replace(/\s+/g, " ").toLowerCase().includes(%s.toLowerCase())`, text), &yes)
	return err == nil && yes // an error means that the page is being loaded
}

// waitText waits until the page shows texts.
func (b *tab) waitText(texts ...string) {
	b.Helper()
	for _, t := range texts {
		b.waitFor("the page says "+t, `document.readyState === "complete" && document.body.innerText.replace(/\s+/g, " ").toLowerCase().includes(%s.toLowerCase())`, t)
	}
}

// reloadUntilText waits until the page shows texts. Without JavaScript, when the page does not
// refresh, it reloads it.
func (b *tab) reloadUntilText(texts ...string) {
	b.Helper()
	for _, t := range texts {
		for end := time.Now().Add(timeout); b.noScript && !b.hasText(t) && time.Now().Before(end); {
			b.navigate(b.pathAndQuery())
		}
		b.waitText(t)
	}
}

// waitPath waits until the page of a path is loaded, with any query.
func (b *tab) waitPath(path string) {
	b.Helper()
	b.waitFor("the page is "+path, `document.readyState === "complete" && location.pathname === %s`, path)
}

// pathAndQuery is the path and the query of the page.
func (b *tab) pathAndQuery() string {
	b.Helper()
	return mustEval[string](b, "location.pathname + location.search")
}

// logState logs the page at which a test failed, and takes a picture.
func (b *tab) logState() {
	var where string
	if err := b.eval(`location.href + "\n" + document.body.innerText.slice(0, 1500)`, &where); err == nil {
		b.Logf("the page: %s", where)
	}
	if got, err := chromedp.Call(b.ctx, page.CaptureScreenshot, page.CaptureScreenshotParams{}); err == nil {
		b.saveImage("failed-"+strings.ReplaceAll(b.Name(), "/", "-"), got.Data)
	}
}
