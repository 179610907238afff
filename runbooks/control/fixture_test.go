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

// fakeJournal is a journal in memory that can be broken.
type fakeJournal struct {
	mu        sync.Mutex
	broken    error
	stuck     bool // Record waits for its context
	changes   []control.ModeChange
	standings map[string]control.ModeState
	requests  []control.QueuedRequest
	seen      int64
	attempts  int
}

func (b *fakeJournal) RecordChanges(ctx context.Context, changes []control.ModeChange, seen int64) error {
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
		if slices.ContainsFunc(b.changes, func(d control.ModeChange) bool { return d.ID == c.ID }) {
			continue
		}
		b.changes = append(b.changes, c)
		b.standings[c.Pool] = control.ModeState{Pool: c.Pool, Mode: c.To, RestoreMode: c.RestoreMode, Since: c.At, Actor: c.Actor, Reason: c.Reason, Via: c.Via, ChangeID: c.ID}
	}
	b.seen = max(b.seen, seen)
	return nil
}

func (b *fakeJournal) ModeStates(context.Context) ([]control.ModeState, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []control.ModeState
	for _, s := range b.standings {
		all = append(all, s)
	}
	return all, b.broken
}

func (b *fakeJournal) QueuedRequests(_ context.Context, after int64) ([]control.QueuedRequest, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken != nil {
		return nil, b.broken
	}
	var fresh []control.QueuedRequest
	for _, r := range b.requests {
		if r.Number > max(after, b.seen) {
			fresh = append(fresh, r)
		}
	}
	return fresh, nil
}

func (b *fakeJournal) setFailure(broken error, stuck bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.broken, b.stuck = broken, stuck
}

func (b *fakeJournal) attemptCount() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.attempts
}

func (b *fakeJournal) queue(number int64, o control.ModeRequest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.requests = append(b.requests, control.QueuedRequest{Number: number, At: time.Now(), Mode: o})
}

func (b *fakeJournal) actions() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	var all []string
	for _, c := range b.changes {
		all = append(all, c.Pool+" "+string(c.Action)+" "+c.From.String()+">"+c.To.String())
	}
	return all
}

func newFakeJournal() *fakeJournal {
	return &fakeJournal{standings: make(map[string]control.ModeState)}
}

// controllerFixture is a controller at work, with its pools' gates.
type controllerFixture struct {
	*control.Controller
	journal *fakeJournal
	gates   map[string]*admission.Gate
	reg     *prometheus.Registry
	stop    func()
}

// newControllerFixture runs a controller on a journal, inside a synctest bubble.
func newControllerFixture(t *testing.T, b *fakeJournal, pools ...string) *controllerFixture {
	t.Helper()
	reg := prometheus.NewRegistry()
	metrics, err := control.NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	s := &controllerFixture{journal: b, gates: make(map[string]*admission.Gate), reg: reg}
	s.Controller = control.NewController(control.Config{Journal: b, Writer: "w1", Log: slog.New(slog.DiscardHandler), Metrics: metrics})
	if err := s.Load(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, name := range pools {
		s.gates[name] = newGate(t)
		s.Add(time.Now(), name, s.gates[name])
	}
	if err := s.ProcessRequests(t.Context()); err != nil {
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

// mustDo gives an order that must be taken.
func (s *controllerFixture) mustDo(t *testing.T, o control.ModeRequest) control.ModeResult {
	t.Helper()
	r, err := s.Do(t.Context(), time.Now(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (s *controllerFixture) wantMode(t *testing.T, pool string, want admission.Mode) {
	t.Helper()
	standing, ok := s.State(pool)
	if gate := s.gates[pool].Snapshot(time.Now()).Mode; !ok || gate != want || standing.Mode != want {
		t.Fatalf("pool %s: gate in %s, standing %+v; want %s", pool, gate, standing, want)
	}
}

func (b *fakeJournal) wantActions(t *testing.T, want ...string) {
	t.Helper()
	if got := b.actions(); !slices.Equal(got, want) {
		t.Fatalf("recorded %q, want %q", got, want)
	}
}

// count adds up a counter over its labels.
func (s *controllerFixture) count(t *testing.T, name string) (sum float64) {
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
