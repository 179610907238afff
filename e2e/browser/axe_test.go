package browser

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

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

// violation is what axe-core finds fault with.
type violation struct {
	ID    string
	Help  string
	Nodes []string // the elements, each with what is wrong
}

func (v violation) String() string {
	return v.ID + ": " + v.Help + "\n\t" + strings.Join(v.Nodes, "\n\t")
}

// usable looks for what keeps people from using the page as it looks now. Naming
// rules asks for those alone.
func (b *tab) usable(rules ...string) []violation {
	b.Helper()
	text, err := axe()
	if err != nil {
		b.Fatal(err)
	}
	if !get[bool](b, "typeof axe === 'object'") {
		if err := b.ask(text+"\ntrue", nil); err != nil {
			b.Fatal(err)
		}
	}
	return get[[]violation](b, `(async (rules) => {
		const found = await axe.run(document, { resultTypes: ["violations"], preload: false, ...(rules?.length ? { runOnly: rules } : {}) });
		return found.violations.map((v) => ({ id: v.id, help: v.help, nodes: v.nodes.slice(0, 5).map((n) => n.html.slice(0, 200) + " " + n.failureSummary.replace(/\s+/g, " ")) }));
	})(%s)`, rules)
}
