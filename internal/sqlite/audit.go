package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"

	"headgate/runbooks/control"
)

// Audit returns changes of mode and entries, newest first. control.ErrUnknownCursor: After is not a
// key that came with a page.
func (s *Store) Audit(ctx context.Context, q control.AuditQuery) (control.AuditPage, error) {
	return read(ctx, s, "read the audit", func(ctx context.Context, conn *sql.Conn) (control.AuditPage, error) {
		return selectAuditPage(ctx, conn, q)
	})
}

// ReadAudit is Store.Audit for a command: it reads a data directory, whether or not a
// service runs there. ErrNoRecord: there is no record.
func ReadAudit(ctx context.Context, dir string, q control.AuditQuery) (control.AuditPage, error) {
	return readFromDir(ctx, dir, "read the audit", func(ctx context.Context, conn *sql.Conn) (control.AuditPage, error) {
		return selectAuditPage(ctx, conn, q)
	})
}

// selectAuditPage reads one more than a page from each table and keeps the newest: each
// statement is answered by one index alone, which a union would not be sure of.
func selectAuditPage(ctx context.Context, conn queryer, q control.AuditQuery) (found control.AuditPage, err error) {
	p := page{since: q.Since, after: q.After, limit: q.Limit}
	var changes []control.ModeChange
	if q.Kind == "" || q.Kind == control.KindMode {
		if changes, err = selectAudited(ctx, conn, p, modeChangeTable, decodeModeChange, q.Pool, ""); err != nil {
			return found, err
		}
	}
	var entries []control.AuditEntry
	if q.Kind != control.KindMode {
		if entries, err = selectAudited(ctx, conn, p, auditEntryTable, decodeAuditEntry, q.Pool, q.Kind); err != nil {
			return found, err
		}
	}
	found = control.NewAuditPage(changes, entries, "")
	found.Items, found.Next = truncatePage(p, found.Items, func(r control.AuditRecord) pageKey { return pageKey{r.At(), r.ID()} })
	return found, nil
}

// selectAudited reads one more than a page from a table. Pool and kind are empty for all.
func selectAudited[T any](
	ctx context.Context, conn queryer, p page, from table, decode func(*row) T, pool string, kind control.AuditKind,
) ([]T, error) {
	text, args, err := p.auditStatement(from, pool, kind)
	if err != nil {
		return nil, err
	}
	return query(ctx, conn, from.name, decode, text, args...)
}

// auditStatement is answered by one index alone, in its order.
func (p page) auditStatement(from table, pool string, kind control.AuditKind) (text string, args []any, err error) {
	text, args = from.selectSQL("writer")+"WHERE at_ms >= ?", []any{p.sinceMS()}
	if pool != "" {
		text, args = text+" AND pool = ?", append(args, pool)
	}
	if kind != "" {
		text, args = text+" AND kind = ?", append(args, string(kind))
	}
	return p.statement(text, "at_ms", args...)
}

// Bounds of the inputs of a decision, as they are kept.
const (
	maxInputs    = 40  // how many
	maxInputName = 64  // bytes
	maxInput     = 500 // bytes of a value
)

var _ control.AuditStore = (*Store)(nil)

var auditEntryTable = table{name: "audit_entries", key: []string{"id"}, columns: []string{
	"id", "at_ms", "kind", "action", "ending", "pool", "subject", "actor", "via", "reason", "inputs",
}}

// AppendAudit implements control.AuditStore. When it returns nil, the entry survives loss of
// power. Texts that are too long to keep are cut, and of many inputs the first by
// name are kept.
func (s *Store) AppendAudit(ctx context.Context, e control.AuditEntry) error {
	const doing = "record an entry of the audit"
	if err := validateAuditEntry(e); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return s.writeTx(ctx, doing, func(ctx context.Context, w *txWriter) error {
		// Another process may have made the entry: its own name is kept, not ours.
		_, err := w.exec(ctx, auditEntryTable.insertOnceSQL(),
			e.ID, min(max(e.At.UnixMilli(), 0), maxTime), string(e.Kind), cleanName(e.Action), string(e.Result), cleanName(e.Pool), cleanName(e.Subject),
			cleanName(e.Actor), string(e.Via), clean(e.Reason, maxReason), encodeInputs(e.Inputs), cleanName(e.Writer), e.ID)
		return err
	})
}

// validateAuditEntry refuses what could not be read back. Only a mistake in the program
// makes such an entry.
func validateAuditEntry(e control.AuditEntry) error {
	switch {
	case !validID(e.ID):
		return fmt.Errorf("its ID must be 1 to %d letters, digits and dashes", maxID)
	case !slices.Contains(control.AuditKinds(), e.Kind):
		return fmt.Errorf("no such kind: %.40q", e.Kind)
	case !slices.Contains(control.AuditResults(), e.Result):
		return fmt.Errorf("no such result: %.40q", e.Result)
	case !slices.Contains(control.Vias(), e.Via):
		return fmt.Errorf("unknown origin of the entry: %.40q", e.Via)
	}
	return nil
}

// encodeInputs writes inputs as JSON, within their bounds.
func encodeInputs(inputs map[string]string) string {
	kept := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		if len(kept) < maxInputs {
			kept[clean(name, maxInputName)] = clean(inputs[name], maxInput)
		}
	}
	text, err := json.Marshal(kept)
	if err != nil { // a map of texts can always be written
		return "{}"
	}
	return string(text)
}

// inputs reads what encodeInputs has written.
func (r *row) inputs(column string) map[string]string {
	text := r.raw(column)
	var raw map[string]string
	if err := json.Unmarshal([]byte(text), &raw); err != nil || len(raw) > maxInputs || !utf8.ValidString(text) {
		r.fail(column)
	}
	inputs := make(map[string]string, len(raw))
	for name, value := range raw {
		if len(name) > maxInputName || len(value) > maxInput {
			r.fail(column)
		}
		inputs[clean(name, maxInputName)] = clean(value, maxInput)
	}
	if r.err != nil || len(inputs) == 0 {
		return nil
	}
	return inputs
}

func decodeAuditEntry(r *row) control.AuditEntry {
	return control.AuditEntry{
		ID: r.id("id"), At: r.time("at_ms"), Kind: control.AuditKind(r.word("kind")), Action: r.name("action"),
		Result: control.AuditResult(r.word("ending")), Pool: r.name("pool"), Subject: r.name("subject"),
		Actor: r.name("actor"), Via: control.Via(r.word("via")), Reason: r.text("reason", maxReason),
		Inputs: r.inputs("inputs"), Writer: r.name("writer"),
	}
}
