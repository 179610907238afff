package modelstub

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"sync/atomic"
)

// Bounds on what a stub accepts.
const (
	// DefaultMaxBody is the request body limit when none is configured.
	DefaultMaxBody = 64 << 20
	// MaxSpeed is the greatest time compression; beyond it waits are shorter
	// than a timer can keep.
	MaxSpeed = 1e6
	// MaxSlots bounds Slots, to catch a mistyped number.
	MaxSlots = 1 << 20
)

// Config configures a stub. The zero value is a fast server without faults.
type Config struct {
	// Slots is how many calls are worked on at once; further calls wait inside
	// the stub, first come first served. 0 is unlimited.
	Slots int
	// Service is the service-time model. Nil answers immediately.
	Service Service
	// Models are the names that GET /v1/models lists. Default: "stub-model". Calls
	// may name any model and are answered under that name.
	Models []string
	// Seed determines all randomness.
	Seed uint64
	// Speed divides every duration when the stub waits: at 20, a service time
	// of 20 s takes one second. 0 is 1.
	Speed float64
	// MaxBody is the limit of a request body in bytes, before and after
	// decompression. 0 is DefaultMaxBody.
	MaxBody int64
	// Log receives one debug line per call. Nil is silent.
	Log *slog.Logger
	// Tap, when set, sees every model call before it is answered, with the body
	// as it was received. It runs on the call's own goroutine, so it must be
	// safe for concurrent use; it must not keep or change either argument.
	Tap func(r *http.Request, body []byte)
	// OnSlot, when set, is called when a call gets its slot, on the call's own
	// goroutine.
	OnSlot func(r *http.Request)
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	switch {
	case c.Slots < 0 || c.Slots > MaxSlots:
		return fmt.Errorf("config field Slots: %d, want 0 (unlimited) to %d", c.Slots, MaxSlots)
	case c.MaxBody < 0:
		return fmt.Errorf("config field MaxBody: %d bytes, want 0 (%d) or more", c.MaxBody, DefaultMaxBody)
	case math.IsNaN(c.Speed) || c.Speed < 0 || c.Speed > MaxSpeed:
		return fmt.Errorf("config field Speed: %v, want 0 (real time) to %v", c.Speed, MaxSpeed)
	}
	for i, name := range c.Models {
		if name == "" {
			return fmt.Errorf("config field Models: name %d is empty", i+1)
		}
	}
	return nil
}

func (c Config) withDefaults() Config {
	if len(c.Models) == 0 {
		c.Models = []string{"stub-model"}
	}
	c.Slots = cmp.Or(c.Slots, unlimited)
	c.Speed = cmp.Or(c.Speed, 1)
	c.MaxBody = cmp.Or(c.MaxBody, DefaultMaxBody)
	if c.Service == nil {
		c.Service = Fixed(0)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Stub is a stand-in model server. All methods are safe for concurrent use,
// also while calls are running.
type Stub struct {
	config   Config
	base     context.Context // ends when the stub is closed
	cancel   context.CancelFunc
	slots    slots
	counters callCounters
	calls    atomic.Uint64 // numbers the calls, to seed what differs between them
}

// New makes a stub, or returns an error that names an invalid field.
func New(c Config) (*Stub, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("model stub: %w", err)
	}
	base, cancel := context.WithCancel(context.Background())
	s := &Stub{config: c.withDefaults(), base: base, cancel: cancel}
	s.slots.limit = s.config.Slots
	return s, nil
}

// ServeHTTP answers one call. It panics with [http.ErrAbortHandler] where the
// connection must break, as net/http requires. GET /counts answers with [Stats] as
// JSON, and is not a call.
func (s *Stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isCountsRequest(r) {
		s.serveCounts(w)
		return
	}
	c := s.begin(w, r)
	defer c.end()
	c.outcome = c.serve()
	if c.abortConn || c.outcome == aborted || (c.outcome == clientGone && c.headersSent) {
		panic(http.ErrAbortHandler) // a clean end would make half an answer look complete
	}
}

// Close ends every running call by breaking its connection, also those that a
// fault stalls, and makes later ones end at once. It does not wait for them. It
// is idempotent.
func (s *Stub) Close() { s.cancel() }

// Stats returns the counts so far.
func (s *Stub) Stats() Stats {
	stats := s.counters.stats()
	stats.Serving, stats.PeakServing, stats.Waiting = s.slots.counts()
	return stats
}

// LoseSlots removes n slots, or restores them if n is below 0. Calls that hold a
// slot keep it.
func (s *Stub) LoseSlots(n int) { s.slots.lose(n) }
