package api

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"headgate/runbooks/control"
)

// The types of problems that a program may want to tell apart. The others have
// the type "about:blank": their status says all.
const (
	TypeUnknownPool       = "urn:headgate:problem:unknown_pool"    // 404, with Pools
	TypeModeConflict      = "urn:headgate:problem:other_mode"      // 409, with Current
	TypeBadToken          = "urn:headgate:problem:bad_token"       // 401 and 429
	TypeCrossSite         = "urn:headgate:problem:cross_site"      // 403
	TypeBadFormToken      = "urn:headgate:problem:stale_form"      // 403
	TypeBadRequest        = "urn:headgate:problem:bad_request"     // 400, 413, 415
	TypeRecordUnavailable = "urn:headgate:problem:record_unusable" // 503

	TypeMonitoringDisabled = "urn:headgate:problem:not_watching"     // 404: nothing is watched, there are no incidents
	TypeUnknownIncident    = "urn:headgate:problem:unknown_incident" // 404
	TypeUnknownSilence     = "urn:headgate:problem:unknown_silence"  // 404
	TypeUnknownRule        = "urn:headgate:problem:unknown_rule"     // 404
	TypeAlreadyAcked       = "urn:headgate:problem:already_acked"    // 409, with Acked
	TypeUnknownAction      = "urn:headgate:problem:unknown_action"   // 404

	TypeNoDrills     = "urn:headgate:problem:no_drills"     // 404: this headgate runs none
	TypeUnknownDrill = "urn:headgate:problem:unknown_drill" // 404, with DrillPorts
	TypeUnknownRun   = "urn:headgate:problem:unknown_run"   // 404
	TypeDrillsFrozen = "urn:headgate:problem:drills_frozen" // 409
	TypeDrillBusy    = "urn:headgate:problem:drill_busy"    // 409, with Run
	TypeDrillRefused = "urn:headgate:problem:drill_refused" // 409
)

// Problem is an error of the admin plane, as RFC 9457 wants it.
type Problem struct {
	Type   string `json:"type"`  // default: about:blank
	Title  string `json:"title"` // default: the status in words
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"` // what to do about it

	Pools   []string            `json:"pools,omitempty"`   // the pools that there are, when the one asked for is none
	Current []control.ModeState `json:"current,omitempty"` // how the pools stand that are in another mode than expected

	Acked *Acknowledgement `json:"acked,omitempty"` // who was first to take the incident on

	Drills []string `json:"drills,omitempty"` // IDs of the drills that there are, when the one asked for is none
	Run    string   `json:"run,omitempty"`    // ID of the run in progress
}

// Error returns the problem in one line.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return fmt.Sprintf("%d %s", p.Status, p.Title)
	}
	return p.Detail
}

// WriteProblem answers with a problem.
func WriteProblem(w http.ResponseWriter, p Problem) {
	if p.Type == "" {
		p.Type = "about:blank"
	}
	if p.Title == "" {
		p.Title = http.StatusText(p.Status)
	}
	writeJSON(w, p.Status, "application/problem+json", p)
}

// reply answers with v, or with err if it is not nil.
func (a *Admin) reply(w http.ResponseWriter, r *http.Request, v any, err error) {
	if err == nil {
		writeJSON(w, http.StatusOK, "application/json", v)
		return
	}
	p := ControlProblem(err)
	if p.Status == http.StatusInternalServerError {
		a.log.Error("action failed", "action", strings.TrimPrefix(r.URL.Path, "/api/v1/"), "error", err)
	}
	WriteProblem(w, *p)
}

// read serves a request without a body, with the parameters that it may have. An error of do is as ControlProblem takes
// it.
func (a *Admin) read(do func(r *http.Request, values url.Values) (any, error), params ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		values, err := parseQuery(r, params...)
		var v any
		if err == nil {
			v, err = do(r, values)
		}
		a.reply(w, r, v, err)
	}
}

// page serves a list of which the parameters make a query.
func page[Q, V any](a *Admin, parse func(url.Values, time.Time) (Q, error), do func(context.Context, Q) (V, error), params ...string) http.HandlerFunc {
	return a.read(func(r *http.Request, values url.Values) (any, error) {
		q, err := parse(values, time.Now())
		if err != nil {
			return nil, invalid(err)
		}
		return do(r.Context(), q)
	}, params...)
}

// write serves a request whose body is an object with the fields of T, and that has a sender.
func write[T any](a *Admin, do func(r *http.Request, by control.Actor, m T) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var m T
		var by control.Actor
		_, err := parseQuery(r)
		if err == nil {
			err = decodeObject(w, r, fieldsOf(&m))
		}
		if err == nil {
			by, err = actorOf(r)
		}
		var v any
		if err == nil {
			v, err = do(r, by, m)
		}
		a.reply(w, r, v, err)
	}
}

// require serves requests for which check has no error.
func require(check func() error, h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if err := check(); err != nil {
			WriteProblem(w, *ControlProblem(err))
			return
		}
		h(w, r)
	}
}

// writeJSON answers with v, which must be of a type that always marshals.
func writeJSON(w http.ResponseWriter, status int, contentType string, v any) {
	body, err := json.Marshal(v)
	if err != nil { // only a NaN or a type that cannot be marshalled gets here
		panic(err)
	}
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n')) // the caller may have gone
}
