package ui

import (
	"bytes"
	"html/template"
	"net/http"
	"slices"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/extension"

	"headgate/runbooks"
	"headgate/web/api"
)

// runbookView is one page that says what to do.
type runbookView struct {
	Name  string
	Text  template.HTML
	Modes []string // modes that the page speaks of
	Open  []api.Incident
}

// runbookRow is a page in the list of them.
type runbookRow struct{ Name, Title, Summary string }

func (p *Pages) runbooks(w http.ResponseWriter, r *http.Request, v viewer) error {
	var all []runbookRow
	for _, name := range runbooks.PageNames() {
		text, _ := runbooks.Page(name) // it was named just now
		all = append(all, runbookRow{name, pageTitle(text), firstSentence(text)})
	}
	return p.show(w, r, v, http.StatusOK, page{Title: "Runbooks", NavPath: "/runbooks", Body: all}, "runbooks")
}

func (p *Pages) runbook(w http.ResponseWriter, r *http.Request, v viewer) error {
	name := r.PathValue("name")
	text, ok := runbooks.Page(name)
	if !ok {
		return errorPage{http.StatusNotFound, "There is no such runbook", "Custom rules must name an existing page.", "Choose one of the list of runbooks."}
	}
	html, err := render(text)
	if err != nil {
		p.log.Error("a runbook cannot be rendered", "name", name, "error", err)
		return errorPage{http.StatusInternalServerError, "This page cannot be shown", "The log says why.", "Read it with: curl " + r.URL.Path}
	}
	view := runbookView{Name: name, Text: html, Modes: modesIn(text)}
	if v.SignedIn || p.auth.AnonymousRead() {
		view.Open = slices.DeleteFunc(p.admin.Status().IncidentsOpen, func(i api.Incident) bool { return i.Runbook != name })
	}
	return p.show(w, r, v, http.StatusOK, page{Title: pageTitle(text), NavPath: "/runbooks", Body: view}, "runbook")
}

// render makes HTML of Markdown. Raw HTML in it is left out.
func render(text string) (template.HTML, error) {
	var b bytes.Buffer
	md := goldmark.New(goldmark.WithExtensions(extension.Table))
	if err := md.Convert([]byte(pageBody(text)), &b); err != nil {
		return "", err
	}
	return template.HTML(b.String()), nil
}

// pageTitle is the first line of a page, which is its title.
func pageTitle(text string) string {
	line, _, _ := strings.Cut(text, "\n")
	return strings.TrimSpace(strings.TrimPrefix(line, "#"))
}

func pageBody(text string) string {
	_, rest, _ := strings.Cut(text, "\n")
	return rest
}

// firstSentence is the first one below the first heading.
func firstSentence(text string) string {
	for part := range strings.SplitSeq(pageBody(text), "\n\n") {
		part = strings.TrimSpace(part)
		if part == "" || strings.HasPrefix(part, "#") || strings.HasPrefix(part, "```") {
			continue
		}
		part = strings.NewReplacer("\n", " ", "`", "").Replace(part)
		if sentence, _, more := strings.Cut(part, ". "); more {
			return sentence + "."
		}
		return part
	}
	return ""
}

// modesIn returns the modes that a page recommends.
func modesIn(text string) []string {
	text = strings.Join(strings.Fields(text), " ") // a command may be broken over two lines
	var all []string
	for _, o := range [][2]string{{"headgate rollback", "passthrough"}, {"headgate restore", api.ModeRestore}, {"headgate observe", "observe"}} {
		if strings.Contains(text, o[0]) {
			all = append(all, o[1])
		}
	}
	return all
}
