package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"headgate/runbooks/control"
)

// ErrUnknownCursor says that a page was asked for after a key that is none.
var ErrUnknownCursor = errors.New("not a key of a page")

// Bounds of a page of the audit, and the time it may take.
const (
	MaxPage       = 1000
	defaultPage   = 100
	maxParam      = 200
	recordTimeout = 3 * time.Second
	maxDuration   = 100 * 365 * 24 * time.Hour
)

// KindMode is the kind of changes of mode in the audit; the others are those of
// control.AuditKinds.
const KindMode = "mode"

// AuditQuery asks for what the audit has.
type AuditQuery struct {
	Since time.Time // not before this; zero: from the first on
	Pool  string    // empty: of all pools
	Kind  string    // KindMode or a control.AuditKind; empty: of every kind
	After string    // the Next of the page before; empty: the first page
	Limit int       // at most so many, 1 to MaxPage
}

// AuditRecords is a page of the audit: both lists are newest first, and together
// they are one page.
type AuditRecords struct {
	Changes []control.ModeChange
	Entries []control.AuditEntry
	Next    string // the key of the next page, empty if there is none
}

func (a *Admin) listAudit(w http.ResponseWriter, r *http.Request) {
	values, p := parseQuery(r, "since", "pool", "kind", "after", "limit")
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	q, err := parseAuditQuery(values, time.Now())
	if err != nil {
		WriteProblem(w, *badRequest(http.StatusBadRequest, err.Error()+"."))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), recordTimeout)
	defer cancel()
	page, err := a.audit.Changes(ctx, q)
	switch {
	case errors.Is(err, ErrUnknownCursor):
		WriteProblem(w, *badRequest(http.StatusBadRequest, "after must be the next of an earlier page."))
	case err != nil:
		a.log.Error("the audit cannot be read", "error", err)
		WriteProblem(w, Problem{Type: TypeRecordUnavailable, Status: http.StatusServiceUnavailable,
			Detail: "The record cannot be read just now; the log says why. Modes can be changed nevertheless."})
	default:
		writeJSON(w, http.StatusOK, "application/json", AuditPageOf(page))
	}
}

func parseAuditQuery(values url.Values, now time.Time) (AuditQuery, error) {
	q := AuditQuery{Pool: values.Get("pool"), After: values.Get("after"), Limit: defaultPage}
	if len(q.Pool) > maxParam || len(q.After) > maxParam {
		return q, fmt.Errorf("pool and after must have at most %d characters", maxParam)
	}
	if q.Kind = values.Get("kind"); q.Kind != "" && !slices.Contains(AuditKinds(), q.Kind) {
		return q, fmt.Errorf("kind must be one of %s", strings.Join(AuditKinds(), ", "))
	}
	if s := values.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > MaxPage {
			return q, fmt.Errorf("limit must be a number from 1 to %d", MaxPage)
		}
		q.Limit = n
	}
	if s := values.Get("since"); s != "" {
		since, err := ParseSince(s, now)
		if err != nil {
			return q, fmt.Errorf("since %w", err)
		}
		q.Since = since
	}
	return q, nil
}

// ParseSince reads the start of a span: a time as RFC 3339 has it, or how long
// ago, as a duration in Go's form or a number of days (7d). Errors complete the
// sentence "since …".
func ParseSince(s string, now time.Time) (time.Time, error) {
	if t, err := time.Parse(time.RFC3339, s); err == nil {
		return t.UTC(), nil
	}
	d, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		d = time.Duration(min(max(n, -1), int(maxDuration/(24*time.Hour))+1)) * 24 * time.Hour
	}
	if err != nil || d < 0 || d > maxDuration {
		return time.Time{}, errors.New("must be a span such as 7d or 90m, at most 36500d, or a time such as 2026-01-31T12:00:00Z")
	}
	return now.Add(-d).UTC(), nil
}

// parseQuery returns the query parameters of a request, or a problem if one of
// them is not known or comes twice.
func parseQuery(r *http.Request, known ...string) (url.Values, *Problem) {
	values, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, badRequest(http.StatusBadRequest, "The query is malformed.")
	}
	for name, all := range values {
		if !slices.Contains(known, name) {
			return nil, badRequest(http.StatusBadRequest,
				fmt.Sprintf("The parameter %s is not known: there are %s.", quoteName(name), listOrNone(known)))
		}
		if len(all) > 1 {
			return nil, badRequest(http.StatusBadRequest, fmt.Sprintf("The parameter %s must come once.", name))
		}
	}
	return values, nil
}

func listOrNone(names []string) string {
	if len(names) == 0 {
		return "none"
	}
	return strings.Join(names, ", ")
}
