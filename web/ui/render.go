package ui

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"math"
	"mime"
	"net/http"
	"path"
	"strings"
	"time"

	"headgate/internal/format"
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

// page is the data of the frame, and its content.
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
func (p *Pages) show(w http.ResponseWriter, r *http.Request, v viewer, status int, pg page, name string) error {
	pg.Viewer, pg.Path, pg.Assets = v, r.URL.RequestURI(), assetPaths
	var b bytes.Buffer
	if err := templates[name].ExecuteTemplate(&b, "frame", pg); err != nil {
		p.log.Error("a page cannot be shown", "page", name, "error", err)
		http.Error(w, "This page cannot be shown; the log says why.", http.StatusInternalServerError)
		return nil
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the viewer may have gone
	return nil
}

// errorPage is a page that says what happened and what to do.
type errorPage struct {
	Status int
	Title  string
	Detail string
	Hint   string
}

// Error returns what happened.
func (t errorPage) Error() string { return t.Title }

// showErrorPage shows an error: an errorPage, or one of the API or of control.Service.
func (p *Pages) showErrorPage(w http.ResponseWriter, r *http.Request, v viewer, err error) {
	var t errorPage
	problem, ok := problemOf(err)
	switch {
	case errors.As(err, &t):
	case ok:
		t = errorPageOf(problem)
	default:
		p.log.Error("the API did not answer a page", "path", r.URL.Path, "error", err)
		t = errorPage{http.StatusServiceUnavailable, "Request timed out",
			"headgate is busy or shutting down. The request may have been carried out.", "Check the overview, then try again."}
	}
	_ = p.show(w, r, v, t.Status, page{Title: t.Title, Body: t}, "error") // it has no error
}

// problemOf returns the problem of an error that a client caused; false for faults of the server, which are logged.
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

// errorTexts are title and hint of the problems of which a page says more than the API does.
var errorTexts = map[string]struct{ title, hint string }{
	api.TypeModeConflict:       {"The mode has changed meanwhile", "Check the current state, then decide again."},
	api.TypeAlreadyAcked:       {"Already acknowledged", "Contact the person who acknowledged it, or acknowledge it after that expires."},
	api.TypeUnknownPool:        {"There is no such pool", ""},
	api.TypeUnknownIncident:    {"There is no such incident", ""},
	api.TypeMonitoringDisabled: {"Monitoring is disabled", "Start headgate with monitoring to see incidents here."},
	api.TypeRecordUnavailable:  {"The record cannot be read", "Modes can still be changed, from the overview. See the runbook on journal_failing."},
	api.TypeUnknownDrill:       {"There is no such drill", "Choose one on the page of drills."},
	api.TypeUnknownRun:         {"There is no such run", "Choose one on the page of drills."},
	api.TypeDrillBusy:          {"Another drill is running", "Wait until it has ended, or abort it on its page."},
	api.TypeDrillsFrozen:       {"Drills are frozen", "Ask the person who froze them, or unfreeze them on the page of drills."},
	api.TypeDrillRefused:       {"The drill cannot run now", ""},
	api.TypeBadRequest:         {"That could not be understood", "Go back and change what it names."},
}

func errorPageOf(p *api.Problem) errorPage {
	t := errorTexts[p.Type]
	return errorPage{p.Status, cmp.Or(t.title, p.Title), p.Detail, cmp.Or(t.hint, "Go back, or start at the overview.")}
}

//go:embed static/*
var staticFiles embed.FS

// assets are the paths of the files that pages load. They change with the files, so
// that browsers may cache them indefinitely.
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

func serveStatic(w http.ResponseWriter, r *http.Request, _ viewer) error {
	name := r.PathValue("file")
	text, err := staticFiles.ReadFile("static/" + path.Base(name))
	if err != nil {
		http.Error(w, "There is no such file.", http.StatusNotFound)
		return nil
	}
	if r.URL.RawQuery != "" {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	w.Header().Set("Content-Type", mime.TypeByExtension(path.Ext(name)))
	_, _ = w.Write(text) // the viewer may have gone
	return nil
}

// templateFuncs are what templates use to say things.
var templateFuncs = template.FuncMap{
	"stamp": fullTime, "clock": clockTime, "secs": formatSeconds, "span": format.Text.Duration, "num": formatValue,
	"brief": formatShortSeconds, "amount": formatMeasure, "measure": measureName, "ofLimit": ofLimitText, "margin": marginText,
	"measured": measured, "limit": limitText, "held": hypothesisLabelOf, "evidence": evidenceText,
	"initial": format.Sentence, "clause": clauseSentence, "short": shortID, "verb": actionName, "level": levelLabelOf, "signed": signOfClass,
	"modeOf": modeLabelOf, "spell": func(v any) string { return humanize(fmt.Sprint(v)) },
	"sentence": func(s string) string { return strings.TrimRight(s, ".") + "." },
	"poolcard": func(p poolView, v viewer, w windowView) poolCard { return poolCard{p, v.SignedIn, w} },
}

// poolCard is a pool, as one part of a page.
type poolCard struct {
	Pool     poolView
	SignedIn bool
	Window   windowView
}

// dash stands for what is not known.
const dash = "–"

// aTime is a time.Time or an api.Time.
type aTime interface {
	IsZero() bool
	UTC() time.Time
}

// fullTime shows a time: a script replaces it with the viewer's zone, with UTC beside.
func fullTime(t aTime) template.HTML { return timeTag(t, "2 Jan 2006 15:04:05 UTC", "full") }

// clockTime shows the time of day.
func clockTime(t aTime) template.HTML { return timeTag(t, "15:04:05 UTC", "clock") }

// timeTag is a time that a script can convert; the text is UTC for browsers without scripts.
func timeTag(at aTime, layout, kind string) template.HTML {
	if at.IsZero() {
		return dash
	}
	t := at.UTC()
	// Only digits, letters of months and constants are put together here.
	return template.HTML(`<time datetime="` + t.Format("2006-01-02T15:04:05.000Z") + `" data-show="` + kind + `">` + t.Format(layout) + `</time>`)
}

// formatSeconds shows a number of seconds, which may be absent.
func formatSeconds(v any) string {
	s, ok := toFloat(v)
	if !ok {
		return dash
	}
	return format.Text.Seconds(s)
}

// formatValue shows a value with its unit.
func formatValue(v any, unit string) string {
	f, ok := toFloat(v)
	switch {
	case !ok:
		return dash
	case unit == "s":
		return formatSeconds(f)
	case unit == "ratio":
		return format.Text.Percent(f)
	default:
		return strings.TrimSpace(formatNumber(f) + " " + unit)
	}
}

func formatNumber(f float64) string {
	if f == math.Trunc(f) && math.Abs(f) < 1e15 {
		return format.Count(int64(f))
	}
	return format.Number(f)
}

// toFloat accepts the number types of the views; false for nil, NaN and infinities.
func toFloat(v any) (float64, bool) {
	var f float64
	switch x := v.(type) {
	case float64:
		f = x
	case *float64:
		if x == nil {
			return 0, false
		}
		f = *x
	case int:
		f = float64(x)
	case time.Duration:
		f = x.Seconds()
	default:
		return 0, false
	}
	return f, !math.IsNaN(f) && !math.IsInf(f, 0)
}

// modeLabel are how a mode is shown: as a sign, a word and what it means.
type modeLabel struct{ Mode, Sign, Text, Meaning string }

func modeLabelOf(mode string) modeLabel {
	switch mode {
	case "enforce":
		return modeLabel{mode, "●", "Enforce", "Work is refused when it could not be served in time."}
	case "observe":
		return modeLabel{mode, "◐", "Observe", "What would be refused is counted, and admitted."}
	case "passthrough":
		return modeLabel{mode, "○", "Pass-through", "Admission control is disabled: everything is admitted. Queue and workers stay."}
	default:
		return modeLabel{"other", "◌", mode, ""}
	}
}

// levelLabel are how the level of an incident is shown.
type levelLabel struct{ Level, Sign, Text string }

func levelLabelOf(of any, open bool) levelLabel {
	level := fmt.Sprint(of)
	switch {
	case !open:
		return levelLabel{"over", "✓", "Over"}
	case level == "page":
		return levelLabel{level, "▲", "Page"}
	case level == "warn":
		return levelLabel{level, "△", "Warning"}
	default:
		return levelLabel{"recovering", "↓", "Recovering"}
	}
}

// signOfClass is the sign of a verdict.
func signOfClass(class string) string {
	return cmp.Or(map[string]string{"ok": "✓", "warn": "△", "bad": "▲"}[class], "·")
}

// shortID is the beginning of an ID, enough to distinguish it from others.
func shortID(id string) string {
	if len(id) > 13 {
		return id[:13]
	}
	return id
}

// humanize makes a word of the API one for people: queue_age becomes queue age.
func humanize(word string) string { return strings.ReplaceAll(word, "_", " ") }
