package browser

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
)

// pageMonitor notes what no page may do.
type pageMonitor struct {
	origin string

	mu         sync.Mutex
	violations []string
	allow4xx   bool // answers of status 400 and above are what the test wants
}

// onEvent takes an event of the browser.
func (w *pageMonitor) onEvent(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		// Chromium draws its own controls with pictures in data URLs. The policy of the
		// page would tell of others.
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

// allowClientErrors says that answers of status 400 and above are what the test wants.
func (w *pageMonitor) allowClientErrors() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.allow4xx = true
}

// recorded returns all that was wrong.
func (w *pageMonitor) recorded() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.violations...)
}

// drain returns all that was wrong, and forgets it.
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
