package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"headgate/e2e/harness"
)

var axe = sync.OnceValues(func() (string, error) {
	dir, err := harness.ModuleDir()
	if err != nil {
		return "", err
	}
	text, err := os.ReadFile(filepath.Join(dir, "browser", "node_modules", "axe-core", "axe.min.js"))
	if err != nil {
		return "", fmt.Errorf("axe-core is not installed (npm ci in e2e/browser): %w", err)
	}
	return string(text), nil
})

// violation is a violation that axe-core reports.
type violation struct {
	ID    string
	Help  string
	Nodes []string // the elements, each with what is wrong
}

func (v violation) String() string {
	return v.ID + ": " + v.Help + "\n\t" + strings.Join(v.Nodes, "\n\t")
}

// axeViolations returns the accessibility violations of the page as it is displayed now, of all
// rules or of the named ones.
func (b *tab) axeViolations(rules ...string) []violation {
	b.Helper()
	text, err := axe()
	if err != nil {
		b.Fatal(err)
	}
	if !mustEval[bool](b, "typeof axe === 'object'") {
		if err := b.eval(text+"\ntrue", nil); err != nil {
			b.Fatal(err)
		}
	}
	return mustEval[[]violation](b, `(async (rules) => {
		const found = await axe.run(document, { resultTypes: ["violations"], preload: false, ...(rules?.length ? { runOnly: rules } : {}) });
		return found.violations.map((v) => ({ id: v.id, help: v.help, nodes: v.nodes.slice(0, 5).map((n) => n.html.slice(0, 200) + " " + n.failureSummary.replace(/\s+/g, " ")) }));
	})(%s)`, rules)
}

// checkAccessible checks the page with axe-core, in light and in dark. It needs JavaScript.
func (b *tab) checkAccessible(name string) {
	b.Helper()
	if b.noScript {
		return
	}
	b.wantNoViolations(name + ", light")
	b.emulateMedia("dark", "")
	b.wantNoViolations(name+", dark", "color-contrast")
	b.emulateMedia("light", "")
}

// axe-core finds violations in a page that has some.
func TestAxeFinds(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(`<!doctype html><html lang="en"><link rel="icon" href="data:,"><title>x</title>
<style>@media (prefers-color-scheme: dark) { p { color: #777; background: #666 } }</style><main><h1>x</h1><p>some words</p><input></main>`))
	}))
	t.Cleanup(s.Close)
	b := openTab(t, s.URL)
	b.navigate("/")
	b.emulateMedia("light", "")
	if found := b.axeViolations(); len(found) != 1 || found[0].ID != "label" {
		t.Errorf("light: %v", found)
	}
	b.emulateMedia("dark", "")
	if found := b.axeViolations("color-contrast"); len(found) != 1 || found[0].ID != "color-contrast" {
		t.Errorf("dark: %v", found)
	}
}
