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

// Bounds of a page of the audit, and the time it may take.
const (
	MaxPage       = 1000
	defaultPage   = 100
	maxParam      = 200
	recordTimeout = 3 * time.Second
	maxDuration   = 100 * 365 * 24 * time.Hour
)

// AuditReader reads the record.
type AuditReader interface {
	// Audit returns what is recorded, newest first, or control.ErrUnknownCursor.
	Audit(ctx context.Context, q control.AuditQuery) (control.AuditPage, error)
}

// AuditKinds returns the kinds of audit records, in a fixed order.
func AuditKinds() []string {
	kinds := []string{string(control.KindMode)}
	for _, k := range control.AuditKinds() {
		kinds = append(kinds, string(k))
	}
	return kinds
}

// Audit returns a page of the audit. Its error is a *Problem.
func (a *Admin) Audit(ctx context.Context, q control.AuditQuery) (control.AuditPage, error) {
	if err := checkKind(q.Kind); err != nil {
		return control.AuditPage{}, invalid(err)
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	page, err := a.audit.Audit(ctx, q)
	switch {
	case errors.Is(err, control.ErrUnknownCursor):
		return page, badCursor()
	case err != nil:
		a.log.Error("audit not read", "error", err)
		return page, &Problem{Type: TypeRecordUnavailable, Status: http.StatusServiceUnavailable,
			Detail: "The record cannot be read just now; the log says why. Modes can still be changed."}
	}
	return page, nil
}

func checkKind(k control.AuditKind) error {
	if k != "" && !slices.Contains(AuditKinds(), string(k)) {
		return fmt.Errorf("kind must be one of %s", strings.Join(AuditKinds(), ", "))
	}
	return nil
}

// parseAuditQuery reads the parameters of a page.
func parseAuditQuery(values url.Values, now time.Time) (control.AuditQuery, error) {
	q := control.AuditQuery{Pool: values.Get("pool"), After: values.Get("after"), Limit: defaultPage}
	if len(q.Pool) > maxParam || len(q.After) > maxParam {
		return q, fmt.Errorf("pool and after must have at most %d characters", maxParam)
	}
	q.Kind = control.AuditKind(values.Get("kind"))
	if err := checkKind(q.Kind); err != nil {
		return q, err
	}
	if s := values.Get("limit"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 || n > MaxPage {
			return q, fmt.Errorf("limit must be a number from 1 to %d", MaxPage)
		}
		q.Limit = n
	}
	return q, parseTimes(values, now, map[string]*time.Time{"since": &q.Since})
}
