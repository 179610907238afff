package sqlite

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// newAuditEntry is an entry as the program makes one.
func newAuditEntry(kind control.AuditKind, pool string) control.AuditEntry {
	return control.AuditEntry{
		ID: uuid.Must(uuid.NewV7()).String(), Writer: "tester", At: time.Now().UTC().Truncate(time.Millisecond), Kind: kind, Action: "rollback",
		Result: control.Withheld, Pool: pool, Subject: "i-1", Actor: "engine", Via: control.ViaEngine, Reason: "a human decided",
		Inputs: map[string]string{"value": "3", "threshold": "1"},
	}
}

func mustAppendEntry(t testing.TB, s *Store, e control.AuditEntry) {
	t.Helper()
	if err := s.AppendAudit(t.Context(), e); err != nil {
		t.Fatal(err)
	}
}

// TestNote: an entry is kept as it is, once, also when it is noted again.
func TestNote(t *testing.T) {
	dir := t.TempDir()
	s := openTestStore(t, dir)
	e := newAuditEntry(control.KindDecision, "p")
	mustAppendEntry(t, s, e)
	again := e
	again.Reason = "another"
	mustAppendEntry(t, s, again)
	got, err := s.Audit(t.Context(), control.AuditQuery{})
	if diff := cmp.Diff(control.NewAuditPage(nil, []control.AuditEntry{e}, ""), got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	closeStore(t, s)
	read, err := ReadAudit(t.Context(), dir, control.AuditQuery{Kind: "decision"})
	if diff := cmp.Diff(got, read); diff != "" || err != nil {
		t.Errorf("read by a command: %v (-want +got):\n%s", err, diff)
	}
}

// TestNoteBounds: what is too long is cut, and what makes no sense is refused.
func TestNoteBounds(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	long := newAuditEntry(control.KindInteraction, strings.Repeat("p", 3000))
	long.Reason, long.Actor = strings.Repeat("r\x1b", 3000), strings.Repeat("é", 3000)
	long.Inputs = map[string]string{}
	for i := range 1000 {
		long.Inputs[fmt.Sprintf("%03d%s", i, strings.Repeat("n", 500))] = strings.Repeat("v", 3000)
	}
	mustAppendEntry(t, s, long)
	got, err := s.Audit(t.Context(), control.AuditQuery{})
	if err != nil || len(entriesOf(got)) != 1 {
		t.Fatal(got, err)
	}
	e := entriesOf(got)[0]
	if len(e.Pool) != maxName || len(e.Reason) != maxReason || len(e.Actor) > maxName || len(e.Inputs) != maxInputs || strings.Contains(e.Reason, "\x1b") {
		t.Errorf("kept %d, %d, %d bytes and %d inputs", len(e.Pool), len(e.Reason), len(e.Actor), len(e.Inputs))
	}
	for what, spoil := range map[string]func(*control.AuditEntry){
		"its ID":     func(e *control.AuditEntry) { e.ID = "a b" },
		"its kind":   func(e *control.AuditEntry) { e.Kind = "gossip" },
		"its result": func(e *control.AuditEntry) { e.Result = "" },
		"its origin": func(e *control.AuditEntry) { e.Via = "pigeon" },
	} {
		bad := newAuditEntry(control.KindInteraction, "p")
		spoil(&bad)
		if err := s.AppendAudit(t.Context(), bad); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: %v", what, err)
		}
	}
}

// TestAuditPages: changes and entries are one list, newest first, each once,
// whatever the size of a page.
func TestAuditPages(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	for i := range 40 {
		id, when, pool := fmt.Sprintf("id-%03d", i), at.Add(time.Duration(i/7)*time.Second), []string{"a", "b"}[i%2]
		if i%3 == 0 {
			c := newModeChange(pool, admission.Observe)
			c.ID, c.At = id, when
			mustRecord(t, s, 0, c)
			continue
		}
		e := newAuditEntry(control.AuditKinds()[i%2], pool)
		e.ID, e.At = id, when
		mustAppendEntry(t, s, e)
	}
	for _, tt := range []struct {
		filter control.AuditQuery
		want   int
	}{
		{control.AuditQuery{Limit: 1}, 40}, {control.AuditQuery{Limit: 7}, 40}, {control.AuditQuery{}, 40}, {control.AuditQuery{Limit: 40}, 40},
		{control.AuditQuery{Limit: 3, Pool: "a"}, 20}, {control.AuditQuery{Limit: 3, Kind: control.KindMode}, 14}, {control.AuditQuery{Limit: 3, Kind: "press"}, 13},
		{control.AuditQuery{Limit: 3, Kind: "drill"}, 0}, {control.AuditQuery{Limit: 2, Since: at.Add(5 * time.Second)}, 5},
	} {
		if seen := pageAudit(t, s, tt.filter); seen != tt.want {
			t.Errorf("%+v: %d, want %d", tt.filter, seen, tt.want)
		}
	}
	if _, err := s.Audit(t.Context(), control.AuditQuery{After: "nonsense"}); !errors.Is(err, control.ErrUnknownCursor) {
		t.Errorf("%v, want ErrKey", err)
	}
}

func pageAudit(t *testing.T, s *Store, f control.AuditQuery) (seen int) {
	t.Helper()
	had := map[string]bool{}
	for last := "~"; ; {
		a, err := s.Audit(t.Context(), f)
		if err != nil {
			t.Fatal(err)
		}
		lowest := last
		ids := []string{}
		for _, r := range a.Items {
			ids = append(ids, r.ID())
		}
		for _, id := range ids {
			if had[id] || id >= last {
				t.Fatalf("%+v: %s comes after %s", f, id, last)
			}
			had[id], lowest = true, min(lowest, id)
		}
		if len(ids) > (page{limit: f.Limit}).size() || a.Next != "" && len(ids) != (page{limit: f.Limit}).size() {
			t.Fatalf("%+v: a page of %d, next %q", f, len(ids), a.Next)
		}
		if seen, last = seen+len(ids), lowest; a.Next == "" {
			return seen
		}
		f.After = a.Next
	}
}

// TestEntriesAppendOnly: as with changes, entries can be added and nothing else.
func TestEntriesAppendOnly(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	e := newAuditEntry(control.KindAccess, "p")
	mustAppendEntry(t, s, e)
	for _, statement := range []string{
		"UPDATE audit_entries SET actor = 'mallory'", "DELETE FROM audit_entries",
		"INSERT OR REPLACE INTO audit_entries SELECT id, at_ms, kind, action, ending, pool, subject, 'mallory', via, reason, inputs, writer FROM audit_entries",
	} {
		if _, err := s.writer.ExecContext(context.Background(), statement); err == nil {
			t.Errorf("passed: %s", statement)
		}
	}
	if got, err := s.Audit(t.Context(), control.AuditQuery{}); err != nil || cmp.Diff([]control.AuditEntry{e}, entriesOf(got)) != "" {
		t.Errorf("the audit became %+v, %v", got, err)
	}
}

// FuzzEntryRow: any row is an entry within its bounds, or ErrCorrupt.
func FuzzEntryRow(f *testing.F) {
	f.Add("id", "press", `{"a":"b"}`, "x", int64(5))
	f.Add("", "Press", `{"a":1}`, "\x00", int64(-5))
	f.Add("a", "b", `{"a":"b"} {`, "\xff", int64(1)<<62)
	f.Fuzz(func(t *testing.T, id, word, inputs, text string, at int64) {
		r := auditEntryTable.rowOf(id, at, word, text, word, text, text, text, word, text, inputs, text)
		e, err := decodeAuditEntry(r), r.err
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		if err == nil && (len(e.Inputs) > maxInputs || e.ID == "" || strings.ContainsAny(e.Reason, "\x00\x1b\n")) {
			t.Errorf("%+v", e)
		}
	})
}
