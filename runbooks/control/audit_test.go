package control_test

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/runbooks/control"
)

// fakeAuditStore keeps entries in memory, and can be broken.
type fakeAuditStore struct {
	mu      sync.Mutex
	broken  error
	entries []control.AuditEntry
}

func (l *fakeAuditStore) AppendAudit(_ context.Context, e control.AuditEntry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	l.entries = append(l.entries, e)
	return nil
}

func (l *fakeAuditStore) setError(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = err
}

func (l *fakeAuditStore) actions() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, e := range l.entries {
		all = append(all, e.Action)
	}
	return strings.Join(all, " ")
}

// startAuditLog runs an AuditLog, inside a synctest bubble.
func startAuditLog(t *testing.T, l *fakeAuditStore) (a *control.AuditLog, stop func()) {
	t.Helper()
	metrics, err := control.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	a = control.NewAuditLog(control.AuditLogConfig{Store: l, Writer: "w1", Log: slog.New(slog.DiscardHandler), Metrics: metrics})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { a.Run(ctx) })
	return a, func() { cancel(); running.Wait() }
}

func interactionEntry(action string) control.AuditEntry {
	return control.AuditEntry{Kind: control.KindInteraction, Action: action, Result: control.Done, Actor: "slack:U1", Via: control.ViaSlack}
}

// TestAuditLogRetriesInOrder: callers do not wait for the disk. When it works again
// the entries are written in order, with defaults filled in.
func TestAuditLogRetriesInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeAuditStore{broken: errDiskFull}
		a, stop := startAuditLog(t, l)
		defer stop()
		before := time.Now()
		for _, action := range []string{"ack", "silence", "rollback"} {
			a.Append(interactionEntry(action))
		}
		if time.Since(before) != 0 {
			t.Error("the giver waited")
		}
		time.Sleep(time.Minute)
		l.setError(nil)
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := l.actions(); got != "ack silence rollback" {
			t.Fatalf("recorded %q", got)
		}
		if e := l.entries[0]; e.ID == "" || e.Writer != "w1" || !e.At.Equal(before) || e.At.Location() != time.UTC {
			t.Errorf("the first reads %+v", e)
		}
	})
}

// TestAuditLogRejectsInvalidEntries: one that no record takes does not hold up others.
func TestAuditLogRejectsInvalidEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeAuditStore{}
		a, stop := startAuditLog(t, l)
		defer stop()
		bad := interactionEntry("x")
		bad.Kind = "gossip"
		a.Append(bad)
		a.Append(interactionEntry("ack"))
		synctest.Wait()
		if got := l.actions(); got != "ack" {
			t.Errorf("recorded %q", got)
		}
	})
}

// TestAuditLogIsBounded: with a disk that fails for good, memory is bounded and the
// earliest entries are kept.
func TestAuditLogIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &fakeAuditStore{broken: errDiskFull}
		a, stop := startAuditLog(t, l)
		a.Append(interactionEntry("first"))
		for range 20_000 {
			a.Append(interactionEntry("more"))
		}
		l.setError(nil)
		stop() // makes the last attempt
		got := strings.Fields(l.actions())
		if len(got) < 10_000 || len(got) > 10_001 || got[0] != "first" {
			t.Errorf("%d recorded, the first is %q", len(got), got[0])
		}
	})
}
