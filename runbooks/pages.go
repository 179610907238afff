package runbooks

import (
	"embed"
	"slices"
	"strings"
)

// pages are what people read when something is wrong, one for each kind of
// trouble, in Markdown.
//
//go:embed *.md
var pages embed.FS

// Page returns the page of that name, in Markdown, and whether there is one.
func Page(name string) (string, bool) {
	if strings.ContainsAny(name, "/\\.") {
		return "", false
	}
	text, err := pages.ReadFile(name + ".md")
	return string(text), err == nil
}

// PageNames returns the names of all pages, sorted.
func PageNames() []string {
	entries, err := pages.ReadDir(".")
	if err != nil { // it is in the program
		return nil
	}
	names := make([]string, 0, len(entries))
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".md"))
	}
	slices.Sort(names)
	return names
}
