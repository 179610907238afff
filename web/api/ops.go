package api

import (
	"net/http"
	"strings"

	"headgate/runbooks"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// maxScrapes is how many scrapes are answered at one time; further ones get 503.
const maxScrapes = 8

// Ops is what the open endpoints show.
type Ops struct {
	Metrics prometheus.Gatherer
	// Ready returns nil while new work can be taken. Refusing work by policy is
	// taking it in this sense: a gate that holds is not a broken one.
	Ready func() error
	// Pages answers for what is not here, and for runbooks to those who want HTML.
	// Nil: there are no pages.
	Pages http.Handler
}

// Handler serves /metrics, /healthz, /readyz and /runbooks/{name}: what to do is no
// secret, and whoever is paged may have no token at hand.
func (o Ops) Handler() http.Handler {
	mux := http.NewServeMux()
	get := func(path string, h http.HandlerFunc) {
		mux.HandleFunc(path, methodHandlers{http.MethodGet: h}.handler())
	}
	get("/metrics", promhttp.HandlerFor(o.Metrics, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes,
		EnableOpenMetrics:   true,
	}).ServeHTTP)
	get("/healthz", func(w http.ResponseWriter, _ *http.Request) { writeText(w, http.StatusOK, "ok") })
	get("/readyz", o.ready)
	get("/runbooks/{name}", o.runbook)
	if o.Pages != nil {
		mux.Handle("/", o.Pages)
		return mux
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		WriteProblem(w, Problem{Status: http.StatusNotFound, Detail: "Here are /metrics, /healthz, /readyz, /runbooks/{name} and /api/v1/."})
	})
	return mux
}

func (o Ops) ready(w http.ResponseWriter, _ *http.Request) {
	if err := o.Ready(); err != nil {
		writeText(w, http.StatusServiceUnavailable, err.Error())
		return
	}
	writeText(w, http.StatusOK, "ready")
}

// runbook shows a page as it was written, or as HTML to whoever asks for that.
func (o Ops) runbook(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Vary", "Accept")
	if o.Pages != nil && strings.Contains(r.Header.Get("Accept"), "text/html") {
		o.Pages.ServeHTTP(w, r)
		return
	}
	page, ok := runbooks.Page(r.PathValue("name"))
	if !ok {
		WriteProblem(w, Problem{Status: http.StatusNotFound, Detail: "There are pages for " + strings.Join(runbooks.PageNames(), ", ") + "."})
		return
	}
	writeText(w, http.StatusOK, strings.TrimRight(page, "\n"))
}

func writeText(w http.ResponseWriter, status int, line string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write([]byte(line + "\n")) // the prober may have gone
}
