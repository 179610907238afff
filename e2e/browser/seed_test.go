package browser

import (
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"headgate/e2e/seed"
	"headgate/engine"
	"headgate/internal/sqlite"
	"headgate/runbooks/control"
)

// seedHistory writes a year of drill runs, incidents and audit entries into the record.
func seedHistory(t *testing.T, dir string) {
	t.Helper()
	withStore(t, dir, func(s *sqlite.Store) error {
		if _, err := seed.Fill(t.Context(), s.Drills(), time.Now(), 366, 1); err != nil {
			return err
		}
		return insertIncidents(t, s, 60, "the oldest task waits for too long", "main", "queue_age")
	})
}

// withStore runs f with the open record.
func withStore(t *testing.T, dir string, f func(*sqlite.Store) error) {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Dir: dir, Log: slog.New(slog.DiscardHandler), Writer: "seed"})
	if err != nil {
		t.Fatal(err)
	}
	if err := f(s); err != nil {
		t.Error(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
}

// insertIncidents writes incidents that have ended, a few hours apart, with audit entries.
func insertIncidents(t *testing.T, s *sqlite.Store, n int, text, pool, rule string) error {
	t.Helper()
	for k := range n {
		opened := time.Now().Add(-time.Duration(k+1) * 5 * time.Hour)
		i := engine.Incident{
			ID: newID(t), Key: engine.Key{Rule: rule, Pool: pool}, Peak: engine.LevelPage, Opened: opened, Changed: opened,
			Ended: opened.Add(11 * time.Minute), Resolution: engine.Recovered, Value: 12.5, Threshold: 20, Unit: "s",
			Summary: text, Impact: text, Runbook: "queue_age", AckedBy: text, AckUntil: opened.Add(time.Hour), Seq: 3, Notified: true,
		}
		b := engine.Batch{Incidents: []engine.Incident{i}}
		for seq, kind := range []engine.EventKind{engine.EventOpened, engine.EventAcked, engine.EventResolved} {
			b.Events = append(b.Events, engine.Event{ID: newID(t), Incident: i.ID, Seq: seq + 1, Kind: kind, At: opened.Add(time.Duration(seq) * time.Minute),
				Level: engine.LevelWarn, Value: 31, By: text, Text: text})
		}
		if err := s.SaveBatch(t.Context(), b, nil); err != nil {
			return err
		}
		if err := s.AppendAudit(t.Context(), control.AuditEntry{ID: newID(t), Writer: "seed", At: opened.Add(time.Minute), Kind: control.KindInteraction, Action: "ack",
			Result: control.Done, Pool: pool, Subject: i.ID, Actor: text, Via: control.ViaSlack, Reason: text, Inputs: map[string]string{"for": text}}); err != nil {
			return fmt.Errorf("entry %d: %w", k, err)
		}
	}
	return nil
}

func newID(t *testing.T) string {
	t.Helper()
	id, err := uuid.NewV7()
	if err != nil {
		t.Fatal(err)
	}
	return id.String()
}
