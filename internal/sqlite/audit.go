package sqlite

import (
	"cmp"
	"context"
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
	return read(ctx, s, "read the audit", auditLoader(q))
}

// ReadAudit is Store.Audit for a command: it reads a data directory, whether or not a
// service runs there. ErrNoRecord: there is no record.
func ReadAudit(ctx context.Context, dir string, q control.AuditQuery) (control.AuditPage, error) {
	return readFromDir(ctx, dir, "read the audit", auditLoader(q))
}

// auditLoader reads one more than a page from each table and keeps the newest: each
// statement is answered by one index alone, which a union would not be sure of.
func auditLoader(q control.AuditQuery) func(*reader) control.AuditPage {
	return func(r *reader) control.AuditPage {
		p := newPage(r, q.Since, q.After, q.Limit)
		var changes []control.ModeChange
		if q.Kind == "" || q.Kind == control.KindMode {
			text, args := p.auditStatement(modeChangeTable, q.Pool, "")
			changes = query(r, modeChangeTable, decodeModeChange, text, args...)
		}
		var entries []control.AuditEntry
		if q.Kind != control.KindMode {
			text, args := p.auditStatement(auditEntryTable, q.Pool, q.Kind)
			entries = query(r, auditEntryTable, decodeAuditEntry, text, args...)
		}
		l := truncatePage(p, control.NewAuditPage(changes, entries, "").Items,
			func(r control.AuditRecord) pageKey { return pageKey{r.At(), r.ID()} })
		return control.AuditPage{Items: l.items, Next: l.next}
	}
}

// auditStatement is answered by one index alone, in its order. Pool and kind are empty for all.
func (p page) auditStatement(from table, pool string, kind control.AuditKind) (text string, args []any) {
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
	return s.writeTx(ctx, doing, func(w *txWriter) {
		// The entry keeps the name of the process that made it.
		w.exec(auditEntryTable.insertOnceSQL(),
			e.ID, min(max(e.At.UnixMilli(), 0), maxTime), string(e.Kind), cleanName(e.Action), string(e.Result), cleanName(e.Pool), cleanName(e.Subject),
			cleanName(e.Actor), string(e.Via), clean(e.Reason, maxReason), encodeInputs(e.Inputs), cleanName(e.Writer), e.ID)
	})
}

// validateAuditEntry refuses what could not be read back. Only a mistake in the program
// makes such an entry.
func validateAuditEntry(e control.AuditEntry) error {
	return cmp.Or(
		checkID("its ID", e.ID), checkOneOf("its kind", e.Kind, control.AuditKinds()),
		checkOneOf("its result", e.Result, control.AuditResults()), checkOneOf("its origin", e.Via, control.Vias()))
}

// encodeInputs writes inputs as JSON, within their bounds.
func encodeInputs(inputs map[string]string) string {
	kept := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		if len(kept) < maxInputs {
			kept[clean(name, maxInputName)] = clean(inputs[name], maxInput)
		}
	}
	text, _ := json.Marshal(kept) // a map of texts can always be written
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
