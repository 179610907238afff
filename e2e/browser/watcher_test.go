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

// watcher notes what no page may do.
type watcher struct {
	origin string

	mu      sync.Mutex
	wrong   []string
	refused bool // answers of status 400 and above are what the test wants
}

// hear takes an event of the browser.
func (w *watcher) hear(event any) {
	switch e := event.(type) {
	case *network.EventRequestWillBeSent:
		// Chromium draws its own controls with pictures in data URLs. The policy of the
		// page would tell of others.
		if !strings.HasPrefix(e.Request.URL, w.origin+"/") && !strings.HasPrefix(e.Request.URL, "data:") && e.Request.URL != "about:blank" {
			w.note("something is asked of another origin: %s", e.Request.URL)
		}
	case *runtime.EventExceptionThrown:
		w.note("an exception: %s %v", e.ExceptionDetails.Text, e.ExceptionDetails.Exception)
	case *runtime.EventConsoleAPICalled:
		w.note("the console: %s %v", e.Type, e.Args)
	case *log.EventEntryAdded:
		w.entry(e.Entry)
	case *page.EventJavascriptDialogOpening:
		w.note("a dialog: %s", e.Message)
	case *inspector.EventTargetCrashed:
		w.note("the page has crashed")
	}
}

func (w *watcher) entry(e *log.Entry) {
	w.mu.Lock()
	expected := e.Level != log.EntryLevelWarning && e.Level != log.EntryLevelError ||
		w.refused && strings.Contains(e.Text, "the server responded with a status of 4")
	w.mu.Unlock()
	if !expected {
		w.note("the log of the browser: %s %s: %s (%s)", e.Source, e.Level, e.Text, e.URL)
	}
}

func (w *watcher) note(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.wrong) < 20 {
		w.wrong = append(w.wrong, fmt.Sprintf(format, args...))
	}
}

// refusing says that answers of status 400 and above are what the test wants.
func (w *watcher) refusing() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused = true
}

// noted returns all that was wrong.
func (w *watcher) noted() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.wrong...)
}

// take returns all that was wrong, and forgets it.
func (w *watcher) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.wrong
	w.wrong = nil
	return all
}

func (w *watcher) report(t *testing.T) {
	for _, what := range w.noted() {
		t.Error(what)
	}
}
