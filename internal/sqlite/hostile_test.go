package sqlite

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"headgate/runbooks/control"
)

// hostileModes are rows of modes that headgate never writes.
var hostileModes = []string{
	"('p', 'off', 'enforce', 1, 'a', 'r', 'c', 'w')",
	"('p', 'PASSTHROUGH', 'enforce', 1, 'a', 'r', 'c', 'w')",
	"('p', 2, 'enforce', 1, 'a', 'r', 'c', 'w')",
	"('p', x'656e666f726365', 'enforce', 1, 'a', 'r', 'c', 'w')",
	"('p', 'enforce', '', 1, 'a', 'r', 'c', 'w')",
	"('p', 'enforce', 'enforce', -1, 'a', 'r', 'c', 'w')",
	"('p', 'enforce', 'enforce', 'yesterday', 'a', 'r', 'c', 'w')",
	"('p', 'enforce', 'enforce', 1.5, 'a', 'r', 'c', 'w')",
	"('p', 'enforce', 'enforce', 9223372036854775807, 'a', 'r', 'c', 'w')",
	"('p', 'enforce', 'enforce', 1, x'00', 'r', 'c', 'w')",
	"('p', 'enforce', 'enforce', 1, CAST(x'ff' AS TEXT), 'r', 'c', 'w')",
	"('p', 'enforce', 'enforce', 1, 'a', '" + strings.Repeat("r", maxReason+1) + "', 'c', 'w')",
	"('" + strings.Repeat("p", maxName+1) + "', 'enforce', 'enforce', 1, 'a', 'r', 'c', 'w')",
	"('p', 'enforce', 'enforce', 1, 'a', CAST(zeroblob(60000) AS TEXT), 'c', 'w')",
}

// TestHostileModes: a value that makes no sense is never guessed at.
func TestHostileModes(t *testing.T) {
	for _, row := range hostileModes {
		dir, path := newRecordDir(t)
		execSQL(t, path, "INSERT INTO modes VALUES "+row)
		s := openTestStore(t, dir)
		got, err := s.ModeStates(t.Context())
		if !errors.Is(err, ErrCorrupt) || got != nil {
			t.Errorf("%.90s: %v, %v, want ErrCorrupt", row, got, err)
			continue
		}
		wantContains(t, err.Error(), "modes.")
		if strings.Contains(err.Error(), "yesterday") || len(err.Error()) > 400 {
			t.Errorf("the message repeats what is there: %s", err)
		}
	}
}

// TestHostileChanges: the same for the audit, whose bad rows may be anywhere.
func TestHostileChanges(t *testing.T) {
	good := map[string]string{
		"id": "'i'", "at_ms": "5", "pool": "'p'", "action": "'mode'", "from_mode": "'enforce'", "to_mode": "'observe'", "before": "'enforce'",
		"actor": "'a'", "via": "'api'", "reason": "'r'", "running": "0", "queued": "0", "dropped": "0", "request": "0", "writer": "'w'",
	}
	bad := map[string][]string{
		"id": {"''", "'a.b'", "x'61'", "printf('%065d', 1)"}, "at_ms": {"-1", "'x'", "1e300"}, "pool": {"x'70'"}, "action": {"''", "'explode'", "7"},
		"from_mode": {"''", "'x'"}, "to_mode": {"'x'", "1"}, "before": {"'x'"}, "actor": {"CAST(x'fe' AS TEXT)"}, "via": {"''", "'telepathy'"},
		"reason": {"printf('%02001d', 1)"}, "running": {"-1", "4294967296", "'many'", "0.5"}, "queued": {"-1"}, "dropped": {"x''"},
		"request": {"-1", "9007199254740992"}, "writer": {"3.5e300 || x'ff'"},
	}
	for column, values := range bad {
		for _, value := range values {
			dir, path := newRecordDir(t)
			var names, row []string
			for name, v := range good {
				if name == column {
					v = value
				}
				names, row = append(names, name), append(row, v)
			}
			execSQL(t, path, "INSERT INTO mode_changes ("+strings.Join(names, ", ")+") VALUES ("+strings.Join(row, ", ")+")")
			_, _, err := ReadModeChanges(t.Context(), dir, control.AuditQuery{})
			if !errors.Is(err, ErrCorrupt) {
				t.Errorf("%s = %s: %v, want ErrCorrupt", column, value, err)
				continue
			}
			wantContains(t, err.Error(), "mode_changes."+column)
		}
	}
}

// TestHostileSize: values and rows beyond what is ever written are not loaded.
func TestHostileSize(t *testing.T) {
	dir, path := newRecordDir(t)
	execSQL(t, path,
		"INSERT INTO mode_requests VALUES (1, 1, '', 'rollback', '', '', 0, 'a', CAST(zeroblob(5000000) AS TEXT), 'w')",
		"INSERT INTO modes VALUES ('huge', 'enforce', 'enforce', 1, 'a', CAST(zeroblob(5000000) AS TEXT), 'c', 'w')")
	s := openTestStore(t, dir)
	if _, err := s.ModeStates(t.Context()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("standings: %v, want ErrCorrupt", err)
	}
	if _, err := s.QueuedRequests(t.Context(), 0); !errors.Is(err, ErrCorrupt) {
		t.Errorf("requests: %v, want ErrCorrupt", err)
	}
}

// TestHostileProgress: a mark that makes no sense hides no requests.
func TestHostileProgress(t *testing.T) {
	for _, value := range []string{"'all'", "-1", "9223372036854775807", "x'00'", "0.5"} {
		dir, path := newRecordDir(t)
		execSQL(t, path, "INSERT INTO progress VALUES ('mode_requests', "+value+", 'w')")
		s := openTestStore(t, dir)
		if got, err := s.QueuedRequests(t.Context(), 0); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: %v, %v, want ErrCorrupt", value, got, err)
		}
		if _, err := QueueRequest(t.Context(), dir, control.ModeRequest{Action: control.Rollback}); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: leave: %v, want ErrCorrupt", value, err)
		}
	}
}

// TestHostileNumbers: numbers that leave no room for more are refused.
func TestHostileNumbers(t *testing.T) {
	dir, path := newRecordDir(t)
	execSQL(t, path, "INSERT INTO mode_requests VALUES (9007199254740992, 1, '', 'rollback', '', '', 0, 'a', 'r', 'w')")
	s := openTestStore(t, dir)
	if got, err := s.QueuedRequests(t.Context(), 0); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v, %v, want ErrCorrupt", got, err)
	}
	if _, err := QueueRequest(t.Context(), dir, control.ModeRequest{Action: control.Rollback}); !errors.Is(err, ErrCorrupt) {
		t.Errorf("leave: %v, want ErrCorrupt", err)
	}
	if got, err := s.QueuedRequests(t.Context(), math.MaxInt64); err != nil || len(got) != 0 {
		t.Errorf("after the highest: %v, %v", got, err)
	}
	execSQL(t, path, "DELETE FROM mode_requests", "INSERT INTO mode_requests VALUES (-3, 1, '', 'rollback', '', '', 0, 'a', 'r', 'w')")
	if got, err := s.QueuedRequests(t.Context(), -100); err != nil || len(got) != 0 {
		t.Errorf("a number below one: %v, %v", got, err)
	}
}

// TestManyPools: more pools than can ever have been are not loaded.
func TestManyPools(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	if _, err := s.writer.ExecContext(t.Context(), `INSERT INTO modes WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 10001)
		SELECT 'p' || i, 'enforce', 'enforce', 1, 'a', 'r', 'c', 'w' FROM n`); err != nil {
		t.Fatal(err)
	}
	if got, err := s.ModeStates(t.Context()); !errors.Is(err, ErrCorrupt) || got != nil {
		t.Errorf("%d standings, %v, want ErrCorrupt", len(got), err)
	}
}

// FuzzRows: reading a row with any content is an error or gives values that are
// valid for display.
func FuzzRows(f *testing.F) {
	s, err := Ephemeral(f.Context(), testOptions(""))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { closeStore(f, s) })
	f.Add("default", "passthrough", "anna", "queue age pages", int64(1772359200000), 1.5, []byte("x"), uint16(0))
	f.Add("", "rollback", "\x1b[2J", "\u202e", int64(-1), math.NaN(), []byte{0xff}, uint16(0x1234))
	f.Add(strings.Repeat("p", 300), "mode", "a\nb", strings.Repeat("é", 2000), int64(math.MaxInt64), math.Inf(1), []byte{}, uint16(0xffff))
	f.Fuzz(func(t *testing.T, pool, word, actor, reason string, number int64, float float64, blob []byte, mix uint16) {
		values := []any{pool, word, actor, reason, number, float, blob, "enforce", "rollback", int64(1)}
		pick := func(i int) any { // values wander between columns as mix says
			if mix>>(i%16)&1 == 0 {
				return map[int]any{0: pool, 1: word, 2: "enforce", 3: number, 4: actor, 5: reason}[i%6]
			}
			return values[(i+int(mix))%len(values)]
		}
		insert := func(text string, columns int) {
			args := make([]any, columns)
			for i := range args {
				args[i] = pick(i)
			}
			_, _ = s.writer.ExecContext(t.Context(), text, args...) // what SQLite itself refuses is no test
		}
		for _, table := range []string{"modes", "mode_requests", "progress"} {
			if _, err := s.writer.ExecContext(t.Context(), "DELETE FROM "+table); err != nil {
				t.Fatal(err)
			}
		}
		insert("INSERT INTO modes VALUES (?, ?, ?, ?, ?, ?, 'c', 'w')", 6)
		insert("INSERT INTO mode_requests (at_ms, pool, action, mode, expected, drop_overdue, actor, reason, writer) VALUES (?, ?, ?, ?, ?, ?, ?, ?, 'w')", 8)
		standings, err := s.ModeStates(t.Context())
		if err != nil && !errors.Is(err, ErrCorrupt) {
			t.Fatal(err)
		}
		for _, st := range standings {
			wantClean(t, st.Pool, st.Actor, st.Reason, st.Mode.String(), st.RestoreMode.String())
		}
		requests, err := s.QueuedRequests(t.Context(), 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range requests {
			wantClean(t, r.Mode.Pool, r.Mode.Actor, r.Mode.Reason, r.Mode.Mode.String())
			if r.Mode.Action != "" && !slices.Contains(requestActions, r.Mode.Action) {
				t.Fatalf("action %q", r.Mode.Action)
			}
		}
	})
}

// FuzzChange reads rows of the audit past SQLite, which would keep them for ever.
func FuzzChange(f *testing.F) {
	f.Add("019ca1b0-0000-7000-8000-000000000001", int64(1), "p", "mode", "observe", "anna", "api", "r", 1.0, []byte("x"), uint16(0))
	f.Add("", int64(-1), "\x00", "first", "no", "\xff", "request", "", math.NaN(), []byte(nil), uint16(7))
	f.Fuzz(func(t *testing.T, id string, number int64, pool, action, mode, actor, via, reason string, float float64, blob []byte, mix uint16) {
		row := []any{id, number, pool, action, mode, mode, mode, actor, via, reason, number, number, number, number, actor}
		others := []any{nil, float, blob, id, number, true}
		for i := range row {
			if mix>>i&1 == 1 {
				row[i] = others[(i+int(mix))%len(others)]
			}
		}
		r := modeChangeTable.rowOf(row...)
		c, err := decodeModeChange(r), r.err
		if err != nil {
			if !errors.Is(err, ErrCorrupt) {
				t.Fatal(err)
			}
			return
		}
		wantClean(t, c.Pool, c.Actor, c.Reason, c.Writer, c.From.String())
		if err := validateModeChange(c); err != nil {
			t.Fatalf("read what cannot be written: %v", err)
		}
		next := truncatePage(page{limit: 1}, []control.ModeChange{c, c}, func(c control.ModeChange) pageKey { return pageKey{c.At, c.ID} }).next
		if next != "" {
			if _, err := parsePageKey(next); err != nil {
				t.Fatalf("the key %q of a change is none", next)
			}
		}
	})
}

// wantClean fails unless texts are valid, bounded and on one line.
func wantClean(t *testing.T, texts ...string) {
	t.Helper()
	for _, s := range texts {
		if s != clean(s, maxReason) || strings.HasPrefix(s, "Mode(") {
			t.Fatalf("%q is not fit to be shown", s)
		}
	}
}

// FuzzClean: what is made fit is short, valid, and stays as it is from then on.
func FuzzClean(f *testing.F) {
	f.Add("a\x00b\xff\u202ec", 3)
	f.Add(strings.Repeat("é", 100), 7)
	f.Fuzz(func(t *testing.T, s string, most int) {
		most = 1 + int(uint16(most))
		c := clean(s, most)
		if len(c) > most || clean(c, most) != c {
			t.Fatalf("%q in %d became %q, then %q", s, most, c, clean(c, most))
		}
	})
}
