package control

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"headgate/internal/writebehind"
)

// Bounds of a pause.
const (
	DefaultPause = 30 * time.Minute
	MaxPause     = 24 * time.Hour
)

// ErrNotPaused means that the pool is not paused.
var ErrNotPaused = errors.New("the pool is not paused")

// Pause keeps a pool from handing out permits, for maintenance of its endpoint.
// Those who come wait, or are refused by the ordinary rules.
type Pause struct {
	Pool   string    `json:"pool"`
	Since  time.Time `json:"since"`
	Until  time.Time `json:"until"` // zero: it has ended
	Actor  string    `json:"by"`
	Via    Via       `json:"via"`
	Reason string    `json:"reason"`
}

// PauseStore is the memory of pauses. Its methods may be called from any
// goroutine and obey their context.
type PauseStore interface {
	// SavePause keeps a pool's pause, and forgets it if Until is zero.
	SavePause(context.Context, Pause) error
	// Pauses returns those that are kept, over or not.
	Pauses(context.Context) ([]Pause, error)
}

// Pauses owns the pauses of all pools: applied at once, recorded after, as modes
// are. Its methods may be called from any goroutine.
type Pauses struct {
	journal PauseStore
	modes   *Controller
	log     *slog.Logger
	queue   *writebehind.Queue[[]Pause]

	mu    sync.Mutex
	pools map[string]Pause
}

// NewPauses returns Pauses for the pools of a Controller.
func NewPauses(journal PauseStore, modes *Controller, log *slog.Logger, metrics *Metrics) *Pauses {
	return &Pauses{
		journal: journal, modes: modes, log: log, pools: make(map[string]Pause),
		queue: writebehind.New(writebehind.Config[[]Pause]{
			Batch: writebehind.Latest(func(p Pause) string { return p.Pool }),
			Write: func(ctx context.Context, b []Pause) error { return journal.SavePause(ctx, b[0]) },
			OnError: func(err error, pending int) {
				metrics.countError("record_pause")
				log.Error("pause applied but not recorded, retrying", "pending", pending, "error", err)
			},
		}),
	}
}

// Load applies the pauses that are not over, and keeps those of pools that are not
// here for when they come. Call it once, after the Controller has its pools. A clock
// that was set back makes none longer than MaxPause.
func (p *Pauses) Load(ctx context.Context, now time.Time) error {
	all, err := p.journal.Pauses(ctx)
	if err != nil {
		return fmt.Errorf("read the pauses from the journal: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range all {
		p.pools[one.Pool] = one
		p.applyLocked(now, one)
	}
	return nil
}

// PoolAdded applies the pause of a pool that the Controller has got since Load, if there
// is one that is not over.
func (p *Pauses) PoolAdded(now time.Time, pool string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.applyLocked(now, p.pools[pool])
}

func (p *Pauses) applyLocked(now time.Time, one Pause) {
	left := min(one.Until.Sub(now), MaxPause)
	if gate := p.modes.gate(one.Pool); gate != nil && left > 0 && gate.Snapshot(now).PausedUntil.IsZero() {
		gate.Pause(now, now.Add(left))
	}
}

// Get returns a pool's pause, false if it is not paused.
func (p *Pauses) Get(now time.Time, pool string) (Pause, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pools[pool], !p.until(now, pool).IsZero()
}

// until returns when a pool's pause ends, zero if the gate is not paused.
func (p *Pauses) until(now time.Time, pool string) time.Time {
	if gate := p.modes.gate(pool); gate != nil {
		return gate.Snapshot(now).PausedUntil
	}
	return time.Time{}
}

// set applies a pause, or its end if Until is zero, and waits for the record for a
// bounded time. It reports whether it is recorded.
func (p *Pauses) set(ctx context.Context, now time.Time, one Pause) (recorded bool, err error) {
	gate := p.modes.gate(one.Pool)
	if gate == nil {
		return false, &NoPoolError{Pool: one.Pool}
	}
	p.mu.Lock()
	if one.Until.IsZero() {
		gate.Resume(now)
	} else {
		gate.Pause(now, now.Add(one.Until.Sub(one.Since)))
	}
	p.pools[one.Pool] = one
	p.queue.Add([]Pause{one})
	p.mu.Unlock()
	p.log.Info("pool pause changed", "pool", one.Pool, "until", one.Until, "by", one.Actor, "via", one.Via, "reason", one.Reason)
	ctx, cancel := context.WithTimeout(ctx, recordWaitTimeout)
	defer cancel()
	recorded = p.queue.Wait(ctx, func(b []Pause) bool {
		return slices.ContainsFunc(b, func(q Pause) bool { return q.Pool == one.Pool })
	})
	return recorded, nil
}

// Run records pauses until ctx ends, and makes a last attempt then.
func (p *Pauses) Run(ctx context.Context) { p.queue.Run(ctx) }
