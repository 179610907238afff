package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
	"unicode/utf8"

	"headgate/runbooks/control"
)

// KindMode chooses the changes of mode, which are of no control.AuditKind.
const KindMode = "mode"

// AuditFilter chooses what of the audit is read. The zero value means the newest.
type AuditFilter struct {
	Since time.Time // only what is at or after it; zero: all
	Pool  string    // only what concerns this pool; empty: all
	Kind  string    // KindMode, or a control.AuditKind; empty: all
	After string    // go on after this key, which came with the page before
	Limit int       // at most so many: 0 means DefaultLimit, more than MaxLimit means MaxLimit
}

// AuditPage is a page of the audit: changes and entries in one order, by time and
// ID, newest first, kept apart by their form.
type AuditPage struct {
	Changes []control.ModeChange
	Entries []control.AuditEntry
	Next    string // the key of the next page; empty: this is the last
}

// Audit returns changes of mode and entries, newest first. ErrPageKey: After is not a
// key that came with a page.
func (s *Store) Audit(ctx context.Context, f AuditFilter) (AuditPage, error) {
	return read(ctx, s, "read the audit", func(ctx context.Context, conn *sql.Conn) (AuditPage, error) {
		return selectAuditPage(ctx, conn, f)
	})
}

// ReadAudit is Store.Audit for a command: it reads a data directory, whether or not a
// service runs there. ErrNoRecord: there is no record.
func ReadAudit(ctx context.Context, dir string, f AuditFilter) (AuditPage, error) {
	return readFromDir(ctx, dir, "read the audit", func(ctx context.Context, conn *sql.Conn) (AuditPage, error) {
		return selectAuditPage(ctx, conn, f)
	})
}

// selectAuditPage reads one more than a page from each table and keeps the newest: each
// statement is answered by one index alone, which a union would not be sure of.
func selectAuditPage(ctx context.Context, q queryer, f AuditFilter) (a AuditPage, err error) {
	if f.Kind == "" || f.Kind == KindMode {
		if a.Changes, err = selectModeChanges(ctx, q, ModeChangeFilter{Since: f.Since, Pool: f.Pool, After: f.After, Limit: f.Limit}); err != nil {
			return AuditPage{}, err
		}
	}
	if f.Kind != KindMode {
		text, args, err := f.entryStatement()
		if err != nil {
			return AuditPage{}, err
		}
		if a.Entries, err = query(ctx, q, auditEntryTable.name, decodeAuditEntry, text, args...); err != nil {
			return AuditPage{}, err
		}
	}
	return a.truncate(f.page()), nil
}

func (f AuditFilter) page() page { return page{since: f.Since, after: f.After, limit: f.Limit} }

func (f AuditFilter) entryStatement() (text string, args []any, err error) {
	text = auditEntryTable.selectSQL("writer") + "WHERE at_ms >= ?"
	args = []any{f.page().sinceMS()}
	if f.Pool != "" {
		text, args = text+" AND pool = ?", append(args, f.Pool)
	}
	if f.Kind != "" {
		text, args = text+" AND kind = ?", append(args, f.Kind)
	}
	return f.page().statement(text, "at_ms", args...)
}

// truncate keeps a page of what was read, and makes the key of the next one.
func (a AuditPage) truncate(p page) AuditPage {
	changeKey := func(c control.ModeChange) pageKey { return pageKey{c.At, c.ID} }
	entryKey := func(e control.AuditEntry) pageKey { return pageKey{e.At, e.ID} }
	var keys []pageKey
	for _, c := range a.Changes {
		keys = append(keys, changeKey(c))
	}
	for _, e := range a.Entries {
		keys = append(keys, entryKey(e))
	}
	if len(keys) <= p.size() {
		return a
	}
	slices.SortFunc(keys, func(x, y pageKey) int { return y.compare(x) })
	last := keys[p.size()-1]
	a.Changes = slices.DeleteFunc(a.Changes, func(c control.ModeChange) bool { return changeKey(c).compare(last) < 0 })
	a.Entries = slices.DeleteFunc(a.Entries, func(e control.AuditEntry) bool { return entryKey(e).compare(last) < 0 })
	a.Next = last.String()
	return a
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
