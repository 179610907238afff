package tsdb

import (
	"bytes"
	"context"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"go.uber.org/goleak"

	"headgate/engine"
)

// A TSDB that panics while it is closed leaves one goroutine behind, see
// TestChunksThatCannotBeWritten.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/prometheus/prometheus/tsdb/wlog.(*WL).run"))
}

var epoch = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fixture is a DB with a fake clock.
type fixture struct {
	*DB
	t   *testing.T
	o   Options
	now time.Time
	log *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func newFixture(t *testing.T, edit func(*Options)) *fixture {
	t.Helper()
	r := &fixture{t: t, now: epoch, log: &lockedBuffer{}}
	r.o = Options{
		Dir: filepath.Join(t.TempDir(), "samples"), Clock: func() time.Time { return r.now },
		Log: slog.New(slog.NewTextHandler(r.log, nil)),
	}
	if edit != nil {
		edit(&r.o)
	}
	r.open()
	return r
}

func (r *fixture) open() {
	r.t.Helper()
	db, err := Open(r.o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.DB = db
	r.t.Cleanup(func() {
		if err := db.Close(); err != nil {
			r.t.Error(err)
		}
	})
}

// reopen closes, lets time go by, and opens again.
func (r *fixture) restart(downtime time.Duration) {
	r.t.Helper()
	if err := r.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.now = r.now.Add(downtime)
	r.open()
}

// appendSecond appends samples, and lets a second go by.
func (r *fixture) appendSecond(all ...Sample) {
	r.t.Helper()
	if err := r.Append(r.t.Context(), r.now, all); err != nil {
		r.t.Fatal(err)
	}
	r.now = r.now.Add(time.Second)
}

// value asks at the time of the latest samples.
func (r *fixture) value(rule engine.Rule) engine.Value {
	r.t.Helper()
	rule.Name = "r"
	at := r.now.Add(-time.Second)
	v, ok := r.Values(context.Background(), at, []engine.Rule{rule})[rule.Key()]
	if !ok {
		r.t.Fatal("there is no value at all")
	}
	return v
}

func (r *fixture) signal(expr string) engine.Value {
	r.t.Helper()
	return r.value(engine.Rule{Signal: expr})
}

// sample returns a sample of a series in the notation name, label, value, ….
func sample(v float64, name string, pairs ...string) Sample {
	return Sample{Labels: labels.FromStrings(append([]string{model.MetricNameLabel, name}, pairs...)...), V: v}
}

func validValue(v float64) engine.Value { return engine.Value{V: v} }

var (
	idle    = engine.Value{Quality: engine.Idle}
	missing = engine.Value{Quality: engine.Missing}
)
