package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// pageMonitor records what no page may do.
type pageMonitor struct {
	origin string

	mu         sync.Mutex
	violations []string
	allow4xx   bool // answers of status 400 and above are what the test wants
}

// onEvent handles an event of the browser.
func (w *pageMonitor) onEvent(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		// Chromium draws its own controls with pictures in data URLs. The page's
		// content security policy reports others.
		if !strings.HasPrefix(e.Request.URL, w.origin+"/") && !strings.HasPrefix(e.Request.URL, "data:") && e.Request.URL != "about:blank" {
			w.record("something is asked of another origin: %s", e.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		w.record("an exception: %s %v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		w.record("the console: %s %v", e.Type, e.Args)
	case *log.EventEntryAdded:
		w.onLogEntry(e.Entry)
	case *page.EventJavascriptDialogOpening:
		w.record("a dialog: %s", e.Message)
	case *inspector.EventTargetCrashed:
		w.record("the page has crashed")
	}
}

func (w *pageMonitor) onLogEntry(e *log.Entry) {
	w.mu.Lock()
	expected := e.Level != log.EntryLevelWarning && e.Level != log.EntryLevelError ||
		w.allow4xx && strings.Contains(e.Text, "the server responded with a status of 4")
	w.mu.Unlock()
	if !expected {
		w.record("the log of the browser: %s %s: %s (%s)", e.Source, e.Level, e.Text, e.URL)
	}
}

func (w *pageMonitor) record(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.violations) < 20 {
		w.violations = append(w.violations, fmt.Sprintf(format, args...))
	}
}

// allowClientErrors accepts answers of status 400 and above.
func (w *pageMonitor) allowClientErrors() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.allow4xx = true
}

// recorded returns all records.
func (w *pageMonitor) recorded() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.violations...)
}

// drain returns and removes all records.
func (w *pageMonitor) drain() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.violations
	w.violations = nil
	return all
}

func (w *pageMonitor) report(t *testing.T) {
	for _, what := range w.recorded() {
		t.Error(what)
	}
}

// The monitor records the violations of a page that has some.
func TestMonitorRecords(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(other.Close)
	policy := "default-src 'none'; script-src 'self' 'unsafe-inline'; img-src *"
	for name, c := range map[string]struct{ body, want string }{
		"another origin": {`<img src="` + other.URL + `/x.png" alt="">`, "another origin"},
		"the console":    {`<script>console.error("no")</script>`, "the console"},
		"an exception":   {`<script>nothing()</script>`, "an exception"},
		"the policy":     {`<p style="color: red">red</p>`, "Content Security Policy"},
		"missing":        {`<img src="/none.png" alt="">`, "404"},
	} {
		t.Run(name, func(t *testing.T) {
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path != "/" {
					http.NotFound(w, r)
					return
				}
				w.Header().Set("Content-Security-Policy", policy)
				w.Header().Set("Content-Type", "text/html")
				_, _ = w.Write([]byte(`<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>x</title>` + c.body))
			}))
			t.Cleanup(s.Close)
			b := openTab(t, s.URL)
			b.navigate("/")
			b.waitText()
			found := false
			for range 200 {
				for _, wrong := range b.monitor.drain() {
					found = found || strings.Contains(wrong, c.want)
				}
				if found {
					return
				}
				b.waitFor("time passes", "new Promise((done) => setTimeout(() => done(true), 10))")
			}
			t.Errorf("it has not noticed %s", c.want)
		})
	}
}
