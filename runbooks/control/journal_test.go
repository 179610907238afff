package control_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDiskFull = errors.New("disk full")

// book is a journal in memory that can be broken.
type book struct {
	mu        sync.Mutex
	broken    error
	stuck     bool // Record waits for its context
	changes   []control.Change
	standings map[string]control.Standing
	requests  []control.Request
	seen      int64
	attempts  int
}

func (b *book) Record(ctx context.Context, changes []control.Change, seen int64) error {
	b.mu.Lock()
	stuck := b.stuck
	b.attempts++
	b.mu.Unlock()
	if stuck {
		<-ctx.Done()
		return ctx.Err()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken != nil {
		return b.broken
	}
	for _, c := range changes {
		if slices.ContainsFunc(b.changes, func(d control.Change) bool { return d.ID == c.ID }) {
			continue
		}
		b.changes = append(b.changes, c)
		b.standings[c.Pool] = control.Standing{Pool: c.Pool, Mode: c.To, Before: c.Before, Since: c.At, By: c.Actor, Reason: c.Reason, Via: c.Via, Change: c.ID}
	}
	b.seen = max(b.seen, seen)
	return nil
}

func (b *book) Standings(context.Context) ([]control.Standing, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []control.Standing
	for _, s := range b.standings {
		all = append(all, s)
	}
	return all, b.broken
}

func (b *book) Requests(_ context.Context, after int64) ([]control.Request, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken != nil {
		return nil, b.broken
	}
	var fresh []control.Request
	for _, r := range b.requests {
		if r.Number > max(after, b.seen) {
			fresh = append(fresh, r)
		}
	}
	return fresh, nil
}

func (b *book) set(broken error, stuck bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken, b.stuck = broken, stuck
}

func (b *book) tries() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.attempts
}

func (b *book) leave(number int64, o control.Order) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, control.Request{Number: number, At: time.Now(), Order: o})
}

func (b *book) actions() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for _, c := range b.changes {
		all = append(all, c.Pool+" "+string(c.Action)+" "+c.From.String()+">"+c.To.String())
	}
	return all
}

func newBook() *book { return &book{standings: make(map[string]control.Standing)} }

// site is a controller at work, with its pools' gates.
type site struct {
	*control.Controller
	book  *book
	gates map[string]*admission.Gate
	reg   *prometheus.Registry
	stop  func()
}

// start runs a controller on a journal, inside a synctest bubble.
func start(t *testing.T, b *book, pools ...string) *site {
	t.Helper()
	reg := prometheus.NewRegistry()
	metrics, err := control.NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	s := &site{book: b, gates: make(map[string]*admission.Gate), reg: reg}
	s.Controller = control.New(control.Config{Journal: b, Writer: "w1", Log: slog.New(slog.DiscardHandler), Metrics: metrics})
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range pools {
		s.gates[name] = newGate(t)
		s.Add(time.Now(), name, s.gates[name])
	}
	if err := s.CarryOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	s.stop = func() {
		cancel()
		<-done
	}
	synctest.Wait()
	return s
}

func newGate(t *testing.T) *admission.Gate {
	t.Helper()
	g, err := admission.New(admission.Config{
		Workers: 1, Policy: admission.Threshold{MaxQueueAge: 25 * time.Second, DepthMultiple: 2},
		QueueLimit: 100, AssumedService: 10 * time.Second,
	})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// order gives an order that must be taken.
func (s *site) order(t *testing.T, o control.Order) control.Result {
	t.Helper()
	r, err := s.Do(t.Context(), time.Now(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (s *site) wantMode(t *testing.T, pool string, want admission.Mode) {
	t.Helper()
	standing, ok := s.Standing(pool)
	if gate := s.gates[pool].Snapshot(time.Now()).Mode; !ok || gate != want || standing.Mode != want {
		t.Fatalf("pool %s: gate in %s, standing %+v; want %s", pool, gate, standing, want)
	}
}

func (b *book) wantActions(t *testing.T, want ...string) {
	t.Helper()
	if got := b.actions(); !slices.Equal(got, want) {
		t.Fatalf("recorded %q, want %q", got, want)
	}
}

// count adds up a counter over its labels.
func (s *site) count(t *testing.T, name string) (sum float64) {
	t.Helper()
	families, err := s.reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetCounter().GetValue()
		}
	}
	return sum
}
