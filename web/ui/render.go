package ui

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"html/template"
	"mime"
	"net/http"
	"path"
	"strings"

	"headgate/web/api"
)

//go:embed templates/*.html
var templateFiles embed.FS

// templates has every page by its name, each with the frame around it.
var templates = parseTemplates()

func parseTemplates() map[string]*template.Template {
	frame := template.Must(template.New("frame").Funcs(templateFuncs).ParseFS(templateFiles, "templates/frame.html", "templates/parts.html", "templates/drillparts.html", "templates/year.html"))
	all := make(map[string]*template.Template)
	for _, name := range []string{"overview", "pool", "mode", "pause", "incidents", "incident", "audit", "runbooks", "runbook", "login", "error",
		"drills", "run", "definitions", "start", "drillask"} {
		all[name] = template.Must(template.Must(frame.Clone()).ParseFS(templateFiles, "templates/"+name+".html"))
	}
	return all
}

// page is what the frame needs to know, and what stands in it.
type page struct {
	Title   string
	NavPath string // the part of the navigation that this is in
	Refresh int    // seconds after which a script refreshes its parts; 0: never
	Body    any

	Viewer viewer
	Path   string // of this page, to come back to after signing in
	Assets assets
}

// nav is a part of the navigation.
type nav struct{ Name, Path string }

// Nav lists the parts of the navigation.
func (page) Nav() []nav {
	return []nav{{"Overview", "/"}, {"Incidents", "/incidents"}, {"Drills", drillsPath}, {"Audit", "/audit"}, {"Runbooks", "/runbooks"}}
}

// show renders a page.
func (p *Pages) show(w http.ResponseWriter, r *http.Request, v viewer, status int, pg page, name string) {
	pg.Viewer, pg.Path, pg.Assets = v, r.URL.RequestURI(), assetPaths
	var b bytes.Buffer
	if err := templates[name].ExecuteTemplate(&b, "frame", pg); err != nil {
		p.log.Error("a page cannot be shown", "page", name, "error", err)
		http.Error(w, "This page cannot be shown; the log says why.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the viewer may have gone
}

// errorPage is a page that says what happened and what to do.
type errorPage struct {
	Status int
	Title  string
	Detail string
	Hint   string
}

func (p *Pages) showError(w http.ResponseWriter, r *http.Request, v viewer, t errorPage) {
	p.show(w, r, v, t.Status, page{Title: t.Title, Body: t}, "error")
}

// showAPIError shows an error of the API or of control.Service.
func (p *Pages) showAPIError(w http.ResponseWriter, r *http.Request, v viewer, err error) {
	problem, ok := problemOf(err)
	if !ok {
		p.log.Error("the API did not answer a page", "path", r.URL.Path, "error", err)
		p.showError(w, r, v, errorPage{http.StatusServiceUnavailable, "Request timed out",
			"headgate is busy or shutting down. The request may have been carried out.", "Check the overview, then try again."})
		return
	}
	p.showError(w, r, v, errorPage{problem.Status, titleOf(problem), problem.Detail, hintOf(problem)})
}

func problemOf(err error) (*api.Problem, bool) {
	var p *api.Problem
	if errors.As(err, &p) {
		return p, true
	}
	if err == nil {
		return nil, false
	}
	p = api.ControlProblem(err)
	return p, p.Status < http.StatusInternalServerError
}

func titleOf(p *api.Problem) string {
	switch p.Type {
	case api.TypeModeConflict:
		return "The mode has changed meanwhile"
	case api.TypeAlreadyAcked:
		return "Already acknowledged"
	case api.TypeUnknownPool:
		return "There is no such pool"
	case api.TypeUnknownIncident:
		return "There is no such incident"
	case api.TypeMonitoringDisabled:
		return "Monitoring is disabled"
	case api.TypeRecordUnavailable:
		return "The record cannot be read"
	case api.TypeUnknownDrill:
		return "There is no such drill"
	case api.TypeUnknownRun:
		return "There is no such run"
	case api.TypeDrillBusy:
		return "Another drill is running"
	case api.TypeDrillsFrozen:
		return "Drills are frozen"
	case api.TypeDrillRefused:
		return "The drill cannot run now"
	case api.TypeBadRequest:
		return "That could not be understood"
	default:
		return p.Title
	}
}

func hintOf(p *api.Problem) string {
	switch p.Type {
	case api.TypeModeConflict:
		return "Check the current state, then decide again."
	case api.TypeAlreadyAcked:
		return "Contact the person who acknowledged it, or acknowledge it after that expires."
	case api.TypeMonitoringDisabled:
		return "Start headgate with monitoring to see incidents here."
	case api.TypeRecordUnavailable:
		return "Modes can still be changed, from the overview. See the runbook on journal_failing."
	case api.TypeUnknownDrill, api.TypeUnknownRun:
		return "Choose one on the page of drills."
	case api.TypeDrillBusy:
		return "Wait until it has ended, or abort it on its page."
	case api.TypeDrillsFrozen:
		return "Ask the person who froze them, or unfreeze them on the page of drills."
	case api.TypeBadRequest:
		return "Go back and change what it names."
	default:
		return "Go back, or start at the overview."
	}
}

// upperFirst makes a word begin with a capital letter.
func upperFirst(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:]
}

//go:embed static/*
var staticFiles embed.FS

// assets are the paths of the files that pages load. They change with the files, so
// that browsers may keep them for ever.
type assets struct{ Style, Script, Icon string }

var assetPaths = assets{assetPath("style.css"), assetPath("page.js"), assetPath("icon.svg")}

func assetPath(name string) string {
	text, err := staticFiles.ReadFile("static/" + name)
	if err != nil { // it is in the program
		panic(err)
	}
	sum := sha256.Sum256(text)
	return "/static/" + name + "?v=" + hex.EncodeToString(sum[:8])
}

func serveStatic(w http.ResponseWriter, r *http.Request, _ viewer) {
	name := r.PathValue("file")
	text, err := staticFiles.ReadFile("static/" + path.Base(name))
	if err != nil {
		http.Error(w, "There is no such file.", http.StatusNotFound)
		return
	}
	if r.URL.RawQuery != "" {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	_, _ = w.Write(text) // the viewer may have gone
}
