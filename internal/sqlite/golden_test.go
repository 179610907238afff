package sqlite

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headgate/alerts"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
)

// goldenRecord is what the API of version 4 showed of a record. Of each series it has the
// first points and the length.
type goldenRecord struct {
	Incidents, Silences, Audit []map[string]any
	Runs                       []map[string]any
}

// TestSchema4: a record of version 4 shows the same incidents, silences, runs and audit as
// the program that wrote it.
func TestSchema4(t *testing.T) {
	for _, name := range []string{"schema4", "schema4_drills"} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join("testdata", name+".json"))
			if err != nil {
				t.Fatal(err)
			}
			var want goldenRecord
			if err := json.Unmarshal(text, &want); err != nil {
				t.Fatal(err)
			}
			s := openTestStore(t, restoreDump(t, name+".sql"))
			if want.Incidents != nil { // one more was opened after the API was asked for those of the other record
				incidents, _, err := s.Incidents(t.Context(), IncidentFilter{})
				wantGolden(t, "incidents", want.Incidents, incidents, err)
			}
			silences, _, err := s.Silences(t.Context(), SilenceFilter{})
			wantGolden(t, "silences", want.Silences, silences, err)
			a, err := s.Audit(t.Context(), control.AuditQuery{})
			wantGolden(t, "audit", want.Audit, auditMaps(a), err)
			runs, _, err := s.Drills().Runs(t.Context(), drill.Query{})
			var reports []drill.Run
			for n, r := range runs {
				whole, err := s.Drills().Run(t.Context(), r.ID)
				if err != nil {
					t.Fatal(err)
				}
				if length, cut := want.Runs[n]["series_length"].(float64); cut {
					if len(whole.Series) != int(length) {
						t.Errorf("run %s has %d points, want %v", r.ID, len(whole.Series), length)
					}
					delete(want.Runs[n], "series_length")
					whole.Series = whole.Series[:len(want.Runs[n]["series"].([]any))]
				}
				reports = append(reports, whole.Report(false))
			}
			wantGolden(t, "runs", want.Runs, reports, err)
			checkWorks(t, s)
		})
	}
}

// TestSchema4Pending: what was to be sent when version 4 stopped is still to be sent, and
// says the same.
func TestSchema4Pending(t *testing.T) {
	s := openTestStore(t, restoreDump(t, "schema4.sql"))
	ds, err := s.Outbox().Pending(t.Context(), 100)
	if err != nil || len(ds) != 8 {
		t.Fatalf("%d deliveries, %v, want 8", len(ds), err)
	}
	d := ds[0]
	if d.ID != "01a22f8e-a392-797f-b6a8-ae413cac28c4" || d.State != alerts.Retry || d.Attempts != 4 || d.LastAttempt.UnixMilli() != 1796094210878 ||
		d.NotBefore.UnixMilli() != 1796094217665 || !strings.HasPrefix(d.Reason, "not reached: ") || d.Destination != alerts.ToFallback {
		t.Errorf("%+v", d)
	}
	n := d.Notification
	if n.Incident.Impact != "nothing, this is for the test data" || n.Incident.Threshold != 3 || n.Event.Incident != d.Incident || n.Mode != "enforce" ||
		n.ModeSince.IsZero() || !n.Ping || !n.LoadKnown || n.Event.At.UnixMilli() != 1796094209025 {
		t.Errorf("%+v", n)
	}
	saved := mustLoad(t, s)
	if len(saved.Incidents) != 2 || len(saved.States) != 2 || saved.States[0].Incident == "" || saved.States[0].WarnFor == 0 || len(saved.Silences) != 1 {
		t.Errorf("%+v", saved)
	}
	st := mustLoadIncident(t, s, "01a22f8e-a391-785b-b541-d37d3bf9a565")
	if len(st.Events) != 6 || st.Events[5].By != "anna" || st.Events[1].Text == "" {
		t.Errorf("%+v", st.Events)
	}
}

// checkWorks writes to a record that was migrated.
func checkWorks(t *testing.T, s *Store) {
	t.Helper()
	mustRecord(t, s, 0, newModeChange("default", admission.Observe))
	saveBatch(t, s, newIncidentBatch("i-1"), planPost)
	r := mustClaim(t, s, noon.AddDate(1, 0, 0), newScheduledRun("r-1", "burst"))
	mustSaveRun(t, s, noon.AddDate(1, 0, 0), withVerdict(withProgress(r, 10), drill.Passed))
}

// auditMaps returns a page of the audit as the API shows it.
func auditMaps(a control.AuditPage) (all []map[string]any) {
	for _, r := range a.Items {
		if m := r.Change; m != nil {
			all = append(all, map[string]any{
				"kind": control.KindMode, "id": m.ID, "at": m.At, "pool": m.Pool, "action": m.Action, "from": m.From.String(), "to": m.To.String(), "before": before(m.RestoreMode, m.To),
				"actor": m.Actor, "via": m.Via, "reason": m.Reason, "running": m.Running, "queued": m.Queued, "dropped": m.Dropped,
				"request": m.RequestNumber, "writer": m.Writer,
			})
			continue
		}
		m := r.Entry
		all = append(all, map[string]any{
			"kind": m.Kind, "id": m.ID, "at": m.At, "action": m.Action, "ending": m.Result, "pool": m.Pool, "subject": m.Subject, "actor": m.Actor,
			"via": m.Via, "reason": m.Reason, "inputs": m.Inputs, "writer": m.Writer,
		})
	}
	return all
}

// before is the mode that a restore returns to; none in the other modes.
func before(m, now admission.Mode) any {
	if now != admission.PassThrough {
		return nil
	}
	return m.String()
}

// wantGolden compares values with what the API showed of them. More keys do no harm.
func wantGolden(t *testing.T, what string, want, got any, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	plain := func(v any) (out any) {
		text, err := json.Marshal(v)
		if err == nil {
			err = json.Unmarshal(text, &out)
		}
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return out
	}
	wantWithin(t, what, plain(want), plain(got))
}

func wantWithin(t *testing.T, path string, want, got any) {
	t.Helper()
	switch w := want.(type) {
	case map[string]any:
		g, _ := got.(map[string]any)
		for key, v := range w {
			if key != "silenced" { // it depends on the time
				wantWithin(t, path+"."+key, v, g[key])
			}
		}
	case []any:
		g, _ := got.([]any)
		if len(g) != len(w) {
			t.Errorf("%s has %d items, want %d", path, len(g), len(w))
			return
		}
		for n := range w {
			wantWithin(t, fmt.Sprintf("%s[%d]", path, n), w[n], g[n])
		}
	case float64:
		// The API showed durations to the millisecond.
		if g, ok := got.(float64); !ok || math.Abs(g-w) > 0 && !(strings.HasSuffix(path, "_s") && math.Abs(g-w) < 6e-4) {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	case string:
		a, errA := time.Parse(time.RFC3339, w)
		b, errB := time.Parse(time.RFC3339, fmt.Sprint(got))
		if got != want && (errA != nil || errB != nil || !a.Equal(b)) {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	default:
		if got != want {
			t.Errorf("%s is %v, want %v", path, got, want)
		}
	}
}

// TestSchema4Damaged: JSON that is damaged before a migration is damaged after it, and keeps
// nothing else from being read.
func TestSchema4Damaged(t *testing.T) {
	dir := restoreDump(t, "schema4.sql")
	const damaged, sound = "01a22f8e-b865-7218-a563-1597361a183c", "01a22f8e-b816-7f0a-bfa3-10f74667d47e"
	execSQL(t, filepath.Join(dir, databaseName), "UPDATE deliveries SET note = '{' WHERE id = '01a22f8e-a392-797f-b6a8-ae413cac28c4'",
		"UPDATE drill_parts SET body = '[' WHERE run = '"+damaged+"' AND part IN ('phases', 'messages')",
		"UPDATE rule_states SET flips = 'x' WHERE pool = 'second'")
	s := openTestStore(t, dir)
	o := s.Outbox()
	if ds, err := o.Pending(t.Context(), 100); err != nil || len(ds) != 7 || o.unreadable.Load() != 1 {
		t.Errorf("%d deliveries, %v", len(ds), err)
	}
	if _, err := s.Drills().Run(t.Context(), damaged); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v, want ErrCorrupt", err)
	}
	if r, err := s.Drills().Run(t.Context(), sound); err != nil || len(r.Phases) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := s.EngineJournal(nil).Load(t.Context()); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v, want ErrCorrupt", err)
	}
}
