package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"headgate/runbooks/control"
)

// Bounds of what a decision rests on, as it is kept.
const (
	maxInputs    = 40  // how many
	maxInputName = 64  // bytes
	maxInput     = 500 // bytes of a value
)

var auditEntryTable = table{name: "audit_entries", key: []string{"id"}, columns: []string{
	"id", "at_ms", "kind", "action", "ending", "pool", "subject", "actor", "via", "reason", "inputs",
}}

// AppendAudit implements control.AuditPage. When it returns nil, the entry survives loss of
// power. Texts that are too long to keep are cut, and of many inputs the first by
// name are kept.
func (s *Store) AppendAudit(ctx context.Context, e control.AuditEntry) error {
	values, err := auditEntryValues(e)
	if err != nil {
		return fmt.Errorf("record an entry of the audit: %w", err)
	}
	return s.writeTx(ctx, "record an entry of the audit", func(ctx context.Context, tx *sql.Tx) error {
		// Another process may have made the entry: its own name is kept, not ours.
		_, err := tx.ExecContext(ctx, insertAuditEntry, append(values, cleanName(e.Writer), e.ID)...)
		return err
	})
}

// insertAuditEntry leaves an entry that is there alone, without asking the trigger.
const insertAuditEntry = `
INSERT INTO audit_entries (id, at_ms, kind, action, ending, pool, subject, actor, via, reason, inputs, writer)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM audit_entries WHERE id = ?)`

// auditEntryValues refuses what could not be read back. Only a mistake in the program
// makes such an entry.
func auditEntryValues(e control.AuditEntry) ([]any, error) {
	switch {
	case !validID(e.ID):
		return nil, fmt.Errorf("its ID must be 1 to %d letters, digits and dashes", maxID)
	case !slices.Contains(control.AuditKinds(), e.Kind):
		return nil, fmt.Errorf("no such kind: %.40q", e.Kind)
	case !slices.Contains(control.AuditResults(), e.Result):
		return nil, fmt.Errorf("no such ending: %.40q", e.Result)
	case !slices.Contains(control.Vias(), e.Via):
		return nil, fmt.Errorf("no such way: %.40q", e.Via)
	}
	return []any{
		e.ID, min(max(e.At.UnixMilli(), 0), maxTime), string(e.Kind), cleanName(e.Action), string(e.Result), cleanName(e.Pool), cleanName(e.Subject),
		cleanName(e.Actor), string(e.Via), clean(e.Reason, maxReason), encodeInputs(e.Inputs),
	}, nil
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
	if err != nil { // a map of texts always can be written
		return "{}"
	}
	return string(text)
}

// inputs reads what encodeInputs has written.
func (f *rowDecoder) inputs(column string, v any) map[string]string {
	var raw map[string]string
	dec := json.NewDecoder(strings.NewReader(f.raw(column, v)))
	if err := dec.Decode(&raw); err != nil || dec.More() || len(raw) > maxInputs {
		f.fail(column)
		return nil
	}
	if len(raw) == 0 {
		return nil
	}
	inputs := make(map[string]string, len(raw))
	for name, value := range raw {
		inputs[f.text(column, name, maxInputName)] = f.text(column, value, maxInput)
	}
	return inputs
}

func decodeAuditEntry(v []any) (control.AuditEntry, error) {
	f := rowDecoder{table: auditEntryTable.name}
	e := control.AuditEntry{
		ID: f.id("id", v[0]), At: f.time("at_ms", v[1]), Kind: control.AuditKind(f.word("kind", v[2])), Action: f.text("action", v[3], maxName),
		Result: control.AuditResult(f.word("ending", v[4])), Pool: f.text("pool", v[5], maxName), Subject: f.text("subject", v[6], maxName),
		Actor: f.text("actor", v[7], maxName), Via: control.Via(f.word("via", v[8])), Reason: f.text("reason", v[9], maxReason),
		Inputs: f.inputs("inputs", v[10]), Writer: f.text("writer", v[11], maxName),
	}
	return e, f.err
}
