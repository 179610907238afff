package api

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"mime"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headgate/internal/format"
	"headgate/runbooks/control"
)

const (
	maxBody     = 64 << 10
	bodyTimeout = 5 * time.Second // for the whole body to come; see Handler
)

// decodeObject reads a request body that is one flat JSON object. fields has a
// *string, a *bool or a *float64 for every key that is known.
func decodeObject(w http.ResponseWriter, r *http.Request, fields map[string]any) error {
	if err := requireJSON(r); err != nil {
		return err
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	if err == nil {
		// Once it has passed, the server would take the client for gone.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // not every writer has one
	}
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return badRequest(http.StatusRequestEntityTooLarge, fmt.Sprintf("The body must have at most %d bytes.", maxBody))
	case err != nil:
		return badRequest(http.StatusBadRequest, "The body was incomplete or timed out.")
	}
	if err := parseObject(body, fields); err != nil {
		return badRequest(http.StatusBadRequest, "The body "+err.Error()+".")
	}
	return nil
}

// requireJSON refuses what browsers send without asking first, and encodings.
func requireJSON(r *http.Request) error {
	media, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	charset, given := params["charset"]
	if err != nil || media != "application/json" || given && !strings.EqualFold(charset, "utf-8") {
		return badRequest(http.StatusUnsupportedMediaType, "The Content-Type must be application/json.")
	}
	if e := r.Header.Get("Content-Encoding"); e != "" && e != "identity" {
		return badRequest(http.StatusUnsupportedMediaType, "The body must come without a Content-Encoding.")
	}
	return nil
}

func badRequest(status int, detail string) *Problem {
	return &Problem{Type: TypeBadRequest, Status: status, Detail: detail}
}

func notFound(problem, detail string) *Problem {
	return &Problem{Type: problem, Status: http.StatusNotFound, Detail: detail}
}

// invalid makes a problem of an error that is a sentence without its full stop.
func invalid(err error) error { return badRequest(http.StatusBadRequest, err.Error()+".") }

// fieldsOf returns pointers to the fields of the struct that m points to, by their keys in JSON.
func fieldsOf(m any) map[string]any {
	fields, v := map[string]any{}, reflect.ValueOf(m).Elem()
	for n := range v.NumField() {
		key, _, _ := strings.Cut(v.Type().Field(n).Tag.Get("json"), ",")
		fields[key] = v.Field(n).Addr().Interface()
	}
	return fields
}

// parseObject is stricter than encoding/json: keys count as they are spelled,
// none may come twice, and null is not a value. Errors complete the sentence
// "The body …" and never quote a value.
func parseObject(body []byte, fields map[string]any) error {
	if !utf8.Valid(body) {
		return errors.New("must be UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if t, err := dec.Token(); err != nil || t != json.Delim('{') {
		return errors.New("must be a JSON object")
	}
	seen := map[string]bool{}
	for dec.More() {
		if err := parseMember(dec, fields, seen); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return malformed(dec)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("must end with the JSON object")
	}
	return nil
}

func parseMember(dec *json.Decoder, fields map[string]any, seen map[string]bool) error {
	t, err := dec.Token()
	key, ok := t.(string)
	if err != nil || !ok {
		return malformed(dec)
	}
	target, known := fields[key]
	switch {
	case !known:
		keys := slices.Sorted(maps.Keys(fields))
		return fmt.Errorf("has a key %s that is not known: there are %s", quoteName(key), strings.Join(keys, ", "))
	case seen[key]:
		return fmt.Errorf("has the key %q twice", key)
	}
	seen[key] = true
	var raw json.RawMessage
	if err := dec.Decode(&raw); err != nil {
		return malformed(dec)
	}
	if string(raw) == "null" || json.Unmarshal(raw, target) != nil {
		return fmt.Errorf("must have %s for %q", jsonTypeName(target), key)
	}
	return nil
}

func malformed(dec *json.Decoder) error {
	return fmt.Errorf("is not JSON from byte %d on", dec.InputOffset())
}

func jsonTypeName(target any) string {
	switch target.(type) {
	case *bool:
		return "true or false"
	case *float64:
		return "a number"
	}
	return "a string"
}

// quoteName shows a name from a request: printable, and of bounded length.
func quoteName(name string) string {
	const most = 64
	if len(name) > most {
		return fmt.Sprintf("%+q…", name[:most])
	}
	return fmt.Sprintf("%+q", name)
}

// CheckLine refuses text that would not stay in its place in a log, a table or a
// terminal.
func CheckLine(name, text string, most int) error {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("%s must be one line of printable text", name)
	}
	if n := utf8.RuneCountInString(text); n > most {
		return fmt.Errorf("%s must have at most %d characters, has %d", name, most, n)
	}
	return nil
}

// parseQuery returns the query parameters of a request, or a problem if one of
// them is not known or comes twice.
func parseQuery(r *http.Request, known ...string) (url.Values, error) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest(http.StatusBadRequest, "The query is malformed.")
	}
	for name, all := range values {
		if !slices.Contains(known, name) {
			return nil, badRequest(http.StatusBadRequest,
				fmt.Sprintf("The parameter %s is not known: there are %s.", quoteName(name), cmp.Or(strings.Join(known, ", "), "none")))
		}
		if len(all) > 1 {
			return nil, badRequest(http.StatusBadRequest, fmt.Sprintf("The parameter %s must be given once.", name))
		}
	}
	return values, nil
}

// truncateDetail bounds a text of ours that may quote many names.
func truncateDetail(s string) string { return format.TruncateBytes(s, 2000) }

// ParseDuration reads a duration above 0 in Go's form, or as a number of days (2d). Errors complete the sentence "for …".
func ParseDuration(s string) (time.Duration, error) {
	d, err := parseSpan(s)
	if err != nil || d <= 0 {
		return 0, errors.New("must be a span such as 1h, 90m or 2d, above 0")
	}
	return d, nil
}

// ParseSince reads a time in the past: as in RFC 3339, or as the duration since then, in Go's form or as a number of days
// (7d). Errors complete the sentence "since …".
func ParseSince(s string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UTC(), nil
	}
	d, err := parseSpan(s)
	if err != nil || d < 0 {
		return time.Time{}, errors.New("must be a span such as 7d or 90m, at most 36500d, or a time such as 2026-01-31T12:00:00Z")
	}
	return now.Add(-d).UTC(), nil
}

// parseTimes reads the parameters that are times, as far as they are given.
func parseTimes(values url.Values, now time.Time, into map[string]*time.Time) error {
	for name, t := range into {
		if text := values.Get(name); text != "" {
			at, err := ParseSince(text, now)
			if err != nil {
				return fmt.Errorf("%s %w", name, err)
			}
			*t = at
		}
	}
	return nil
}

// parseFlag reads a parameter that is true or left out.
func parseFlag(values url.Values, name string) (bool, error) {
	switch values.Get(name) {
	case "true":
		return true, nil
	case "":
		return false, nil
	default:
		return false, fmt.Errorf("%s must be true, or be left out", name)
	}
}

func parseSpan(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		d = time.Duration(min(max(n, -1), int(maxDuration/(24*time.Hour))+1)) * 24 * time.Hour
	}
	if err == nil && d > maxDuration {
		err = errors.New("too long")
	}
	return d, err
}

// timeLayout is RFC 3339 to the millisecond; times are UTC.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

func formatTime(t time.Time) string { return t.UTC().Format(timeLayout) }

// Time is a time in a reply: null if it is zero.
type Time struct{ time.Time }

// MarshalJSON writes the time as all replies have it.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	return []byte(`"` + formatTime(t.Time) + `"`), nil
}

// finiteOrNull returns nil for what JSON cannot write.
func finiteOrNull(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

// The types of problems that a program may need to distinguish. The others have
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

	Pools   []string            `json:"pools,omitempty"`   // the existing pools, when the requested one is unknown
	Current []control.ModeState `json:"current,omitempty"` // the states of pools that are in another mode than expected

	Acked *Acknowledgement `json:"acked,omitempty"` // who acknowledged the incident first

	Drills []string `json:"drills,omitempty"` // IDs of the existing drills, when the requested one is unknown
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

// handle serves a request with the parameters that it may have. do returns the reply, nil after it has written one itself,
// or an error as ControlProblem takes it.
func (a *Admin) handle(
	do func(w http.ResponseWriter, r *http.Request, values url.Values) (any, error), params ...string,
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		values, err := parseQuery(r, params...)
		var v any
		if err == nil {
			v, err = do(w, r, values)
		}
		switch {
		case err != nil:
			p := ControlProblem(err)
			if p.Status == http.StatusInternalServerError {
				a.config.Log.Error("action failed", "action", strings.TrimPrefix(r.URL.Path, "/api/v1/"), "error", err)
			}
			WriteProblem(w, *p)
		case v != nil:
			writeJSON(w, http.StatusOK, "application/json", v)
		}
	}
}

// read serves a request without a body.
func (a *Admin) read(do func(r *http.Request) (any, error), params ...string) http.HandlerFunc {
	return a.handle(func(_ http.ResponseWriter, r *http.Request, _ url.Values) (any, error) { return do(r) }, params...)
}

// page serves a list of which the parameters make a query.
func page[Q, V any](
	a *Admin, parse func(url.Values, time.Time) (Q, error), do func(context.Context, Q) (V, error), params ...string,
) http.HandlerFunc {
	return a.handle(func(_ http.ResponseWriter, r *http.Request, values url.Values) (any, error) {
		q, err := parse(values, time.Now())
		if err != nil {
			return nil, invalid(err)
		}
		return do(r.Context(), q)
	}, params...)
}

// write serves a request whose body is an object with the fields of T, and that has a sender.
func write[T any](a *Admin, do func(r *http.Request, by control.Actor, m T) (any, error)) http.HandlerFunc {
	return a.handle(func(w http.ResponseWriter, r *http.Request, _ url.Values) (any, error) {
		var m T
		if err := decodeObject(w, r, fieldsOf(&m)); err != nil {
			return nil, err
		}
		by, err := actorOf(r)
		if err != nil {
			return nil, err
		}
		return do(r, by, m)
	})
}

// writeJSON answers with v, which must be of a type that always marshals.
func writeJSON(w http.ResponseWriter, status int, contentType string, v any) {
	body, err := json.Marshal(v)
	if err != nil { // only a NaN or a type that cannot be marshalled gets here
		panic(err)
	}
	writeHeader(w, status, contentType)
	_, _ = w.Write(append(body, '\n')) // the caller may have gone
}

// writeHeader begins a reply that no cache keeps and no browser takes for another type.
func writeHeader(w http.ResponseWriter, status int, contentType string) {
	h := w.Header()
	h.Set("Content-Type", contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	w.WriteHeader(status)
}
