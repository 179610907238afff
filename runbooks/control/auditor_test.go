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

// ledger keeps entries in memory, and can be broken.
type ledger struct {
	mu      sync.Mutex
	broken  error
	entries []control.Entry
}

func (l *ledger) Note(_ context.Context, e control.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken != nil {
		return l.broken
	}
	l.entries = append(l.entries, e)
	return nil
}

func (l *ledger) breaks(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.broken = err
}

func (l *ledger) actions() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for _, e := range l.entries {
		all = append(all, e.Action)
	}
	return strings.Join(all, " ")
}

// auditing runs an Auditor, inside a synctest bubble.
func auditing(t *testing.T, l *ledger) (a *control.Auditor, stop func()) {
	t.Helper()
	metrics, err := control.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	a = control.NewAuditor(control.AuditorConfig{Audit: l, Writer: "w1", Log: slog.New(slog.DiscardHandler), Metrics: metrics})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { a.Run(ctx) })
	return a, func() { cancel(); running.Wait() }
}

func press(action string) control.Entry {
	return control.Entry{Kind: control.KindPress, Action: action, Ending: control.Done, Actor: "slack:U1", Via: control.ViaSlack}
}

// TestAuditorKeepsWhatFails: nobody waits for the disk, and once it is back the
// entries are there, in order, each with what its giver left out.
func TestAuditorKeepsWhatFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{broken: errDiskFull}
		a, stop := auditing(t, l)
		defer stop()
		before := time.Now()
		for _, action := range []string{"ack", "silence", "rollback"} {
			a.Note(press(action))
		}
		if time.Since(before) != 0 {
			t.Error("the giver waited")
		}
		time.Sleep(time.Minute)
		l.breaks(nil)
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

// TestAuditorPassesOverNonsense: one that no record takes does not hold up others.
func TestAuditorPassesOverNonsense(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{}
		a, stop := auditing(t, l)
		defer stop()
		bad := press("x")
		bad.Kind = "gossip"
		a.Note(bad)
		a.Note(press("ack"))
		synctest.Wait()
		if got := l.actions(); got != "ack" {
			t.Errorf("recorded %q", got)
		}
	})
}

// TestAuditorIsBounded: with a disk that never comes back memory has an end, and
// what came first is kept.
func TestAuditorIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &ledger{broken: errDiskFull}
		a, stop := auditing(t, l)
		a.Note(press("first"))
		for range 20_000 {
			a.Note(press("more"))
		}
		l.breaks(nil)
		stop() // makes the last attempt
		got := strings.Fields(l.actions())
		if len(got) != 10_000 || got[0] != "first" {
			t.Errorf("%d recorded, the first is %q", len(got), got[0])
		}
	})
}
