package apitest

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
)

// Control is a control.Service over real gates, with its record in memory.
type Control struct {
	*control.Service
	Modes  *control.Controller
	Gates  map[string]*admission.Gate
	Record *Record
	names  []string
}

// NewControl starts a Control, which stops with the test. Its pools have two workers, are in enforce, and are recorded.
func NewControl(t testing.TB, log *slog.Logger, pools ...string) *Control {
	t.Helper()
	metrics, err := control.NewMetrics(prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	c := &Control{Gates: map[string]*admission.Gate{}, Record: &Record{}, names: pools}
	c.Modes = control.NewController(control.Config{Journal: c.Record, Writer: "w", Log: log, Metrics: metrics})
	for _, name := range pools {
		c.Gates[name], err = admission.New(admission.Config{
			Workers: 2, Policy: admission.Threshold{MaxQueueAge: 25 * time.Second, DepthMultiple: 2}, QueueLimit: 100, AssumedService: 10 * time.Second,
		})
		if err != nil {
			t.Fatal(err)
		}
		c.Modes.Add(time.Now(), name, c.Gates[name])
	}
	pauses := control.NewPauses(c.Record, c.Modes, log, metrics)
	c.Service = control.NewService(c.Modes, pauses, c.Record, log)
	ctx, stop := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { c.Modes.Run(ctx) })
	running.Go(func() { pauses.Run(ctx) })
	t.Cleanup(func() { stop(); running.Wait() })
	for slices.ContainsFunc(pools, func(name string) bool { return !c.Modes.Recorded(name) }) { // their first start
		time.Sleep(time.Millisecond)
	}
	return c
}

// Status shows the pools.
func (c *Control) Status(now time.Time) api.Status {
	s := api.Status{Version: "test"}
	for _, name := range c.names {
		p, _ := c.PoolStatus(now, name)
		p.SLOS = 60
		s.Pools = append(s.Pools, p)
	}
	return s
}

// Mode returns the mode of a pool's gate.
func (c *Control) Mode(pool string) admission.Mode { return c.Gates[pool].Snapshot(time.Now()).Mode }

// Fill offers n tasks to a pool that all have to finish within the given time.
func (c *Control) Fill(pool string, n int, within time.Duration) {
	now := time.Now()
	for range n {
		c.Gates[pool].Offer(now, admission.Task{Deadline: now.Add(within), Waiter: nopWaiter{}})
	}
}

type nopWaiter struct{}

func (nopWaiter) Done(admission.Refusal) {}

// Record is a journal and an audit in memory. It can fail, and it can be slow. It is safe for concurrent use.
type Record struct {
	mu      sync.Mutex
	changes []control.ModeChange
	entries []control.AuditEntry
	err     error
	delay   time.Duration
}

// SetError makes reads and writes fail with an error, until it is called with nil.
func (r *Record) SetError(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
}

// SetDelay makes every write of changes take a while.
func (r *Record) SetDelay(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.delay = d
}

// ModeChanges returns the recorded changes but for first starts, oldest first.
func (r *Record) ModeChanges() []control.ModeChange {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.changes), func(c control.ModeChange) bool { return c.Action == control.InitialMode })
}

// Entries returns the entries, oldest first.
func (r *Record) Entries() []control.AuditEntry {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.entries)
}

// RecordChanges is for the Controller, and for tests that need a history.
func (r *Record) RecordChanges(ctx context.Context, changes []control.ModeChange, _ int64) error {
	r.mu.Lock()
	delay, err := r.delay, r.err
	r.mu.Unlock()
	if delay > 0 {
		select {
		case <-time.After(delay):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err == nil {
		r.changes = append(r.changes, changes...)
	}
	return err
}

// ModeStates remembers nothing.
func (r *Record) ModeStates(context.Context) ([]control.ModeState, error) { return nil, nil }

// QueuedRequests has none.
func (r *Record) QueuedRequests(context.Context, int64) ([]control.QueuedRequest, error) {
	return nil, nil
}

// SavePause keeps nothing.
func (r *Record) SavePause(context.Context, control.Pause) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// Pauses has none.
func (r *Record) Pauses(context.Context) ([]control.Pause, error) { return nil, nil }

// Append adds an entry.
func (r *Record) Append(e control.AuditEntry) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.entries = append(r.entries, e)
}

// Audit pages through the changes by the ID of the last one shown. Entries are on the first page.
func (r *Record) Audit(_ context.Context, q control.AuditQuery) (control.AuditPage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return control.AuditPage{}, r.err
	}
	entries := slices.DeleteFunc(slices.Clone(r.entries), func(e control.AuditEntry) bool { return q.Kind != "" && q.Kind != e.Kind })
	changes := slices.DeleteFunc(slices.Clone(r.changes), func(c control.ModeChange) bool {
		return q.Kind != "" && q.Kind != control.KindMode || c.At.Before(q.Since) || q.Pool != "" && q.Pool != c.Pool
	})
	slices.Reverse(changes)
	if q.After != "" {
		i := slices.IndexFunc(changes, func(c control.ModeChange) bool { return c.ID == q.After })
		if i < 0 {
			return control.AuditPage{}, control.ErrUnknownCursor
		}
		changes = changes[i+1:]
	}
	next := ""
	if len(changes) > q.Limit {
		changes, next = changes[:q.Limit], changes[q.Limit-1].ID
	}
	return control.NewAuditPage(changes, entries, next), nil
}
