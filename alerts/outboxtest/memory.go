package outboxtest

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"headgate/alerts"
)

// ErrDown is what a Memory returns while it is down.
var ErrDown = errors.New("the outbox is down")

type threadKey struct {
	incident    string
	destination alerts.Destination
}

// Memory is an outbox that forgets when the process ends. It is safe for
// concurrent use. A deliverer that is stopped and another that is started on the
// same Memory see what a restarted process would see.
type Memory struct {
	mu         sync.Mutex
	deliveries map[alerts.Key]alerts.Delivery
	threads    map[threadKey]alerts.Ref
	hook       func(op string) error
}

// NewMemory returns an empty outbox.
func NewMemory() *Memory {
	return &Memory{deliveries: make(map[alerts.Key]alerts.Delivery), threads: make(map[threadKey]alerts.Ref)}
}

// SetHook makes f be called at the start and at the end of every method, as
// "pending", "pending done", "save", "save done", "root", "root done". An error at
// the start makes the method fail without effect, one at the end makes it fail
// after it. Nil removes the hook.
func (m *Memory) SetHook(f func(op string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = f
}

// SetDown makes every method fail with ErrDown, or work again.
func (m *Memory) SetDown(down bool) {
	if !down {
		m.SetHook(nil)
		return
	}
	m.SetHook(func(string) error { return ErrDown })
}

func (m *Memory) callHook(ctx context.Context, op string) error {
	m.mu.Lock()
	hook := m.hook
	m.mu.Unlock()
	if hook != nil {
		if err := hook(op); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Pending implements alerts.Outbox.
func (m *Memory) Pending(ctx context.Context, limit int) ([]alerts.Delivery, error) {
	if err := m.callHook(ctx, "pending"); err != nil {
		return nil, err
	}
	var ds []alerts.Delivery
	for _, d := range m.All() {
		if d.State.Pending() && len(ds) < limit {
			ds = append(ds, d)
		}
	}
	return ds, m.callHook(ctx, "pending done")
}

// All returns every delivery, whatever its state, in the order of Pending.
func (m *Memory) All() []alerts.Delivery {
	m.mu.Lock()
	defer m.mu.Unlock()
	ds := make([]alerts.Delivery, 0, len(m.deliveries))
	for _, d := range m.deliveries {
		ds = append(ds, d)
	}
	slices.SortFunc(ds, func(a, b alerts.Delivery) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Incident, b.Incident),
			cmp.Compare(a.Seq, b.Seq), strings.Compare(a.ID, b.ID))
	})
	return ds
}

// Put adds deliveries as the writer of the record does, without the hook.
func (m *Memory) Put(ds ...alerts.Delivery) { m.write(alerts.Changes{Add: ds}) }

// Save implements alerts.Outbox.
func (m *Memory) Save(ctx context.Context, c alerts.Changes) error {
	if err := m.callHook(ctx, "save"); err != nil {
		return err
	}
	m.write(c)
	return m.callHook(ctx, "save done")
}

func (m *Memory) write(c alerts.Changes) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range c.Add {
		if _, there := m.deliveries[d.Key()]; !there {
			m.deliveries[d.Key()] = d
		}
	}
	for _, d := range c.Update {
		if old, there := m.deliveries[d.Key()]; there {
			d.ID, d.Created = old.ID, old.Created
		}
		m.deliveries[d.Key()] = d
	}
	for _, r := range c.Threads {
		if r.Ref == (alerts.Ref{}) {
			delete(m.threads, threadKey{r.Incident, r.Destination})
			continue
		}
		m.threads[threadKey{r.Incident, r.Destination}] = r.Ref
	}
}

// Thread implements alerts.Outbox.
func (m *Memory) Thread(ctx context.Context, incident string, to alerts.Destination) (alerts.Ref, error) {
	if err := m.callHook(ctx, "root"); err != nil {
		return alerts.Ref{}, err
	}
	m.mu.Lock()
	ref := m.threads[threadKey{incident, to}]
	m.mu.Unlock()
	return ref, m.callHook(ctx, "root done")
}
