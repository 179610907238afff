package modelstub

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"sync"
)

// Stub is a stand-in model server. All methods are safe for concurrent use,
// also while calls are running.
type Stub struct {
	config   Config
	base     context.Context // ends when the stub is closed
	cancel   context.CancelFunc
	slots    slots
	counters callCounters

	mu      sync.Mutex
	service Service
	fault   Fault
	calls   uint64 // numbers the calls, to seed what differs between them
}

// New makes a stub, or names the field of the configuration that is wrong.
func New(c Config) (*Stub, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("model stub: %w", err)
	}
	c = c.withDefaults()
	base, cancel := context.WithCancel(context.Background())
	s := &Stub{config: c, base: base, cancel: cancel, service: c.Service}
	s.slots.limit = c.Slots
	return s, nil
}

// ServeHTTP answers one call. It panics with [http.ErrAbortHandler] where the
// connection must break, which net/http servers expect. GET /counts answers with
// [Stats] as JSON, and is not a call.
func (s *Stub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if isCountsRequest(r) {
		s.serveCounts(w)
		return
	}
	c := s.begin(w, r)
	defer c.end()
	c.outcome = c.serve()
	if c.abortConn || c.outcome == aborted || (c.outcome == clientGone && c.headersSent) {
		panic(http.ErrAbortHandler) // a clean end would make half an answer look whole
	}
}

// Close ends every running call by breaking its connection, also those that a
// fault holds, and makes later ones end at once. It does not wait for them. It
// is idempotent.
func (s *Stub) Close() { s.cancel() }

// Stats returns what the stub has seen.
func (s *Stub) Stats() Stats {
	stats := s.counters.stats()
	stats.Serving, stats.PeakServing, stats.Waiting = s.slots.counts()
	return stats
}

// Reset sets all counts back to zero and the peaks to what is running now.
// Calls that are running are not counted when they end.
func (s *Stub) Reset() {
	s.counters.reset()
	s.slots.resetPeak()
}

// SetFault makes the fault strike the given share of calls that come from now
// on. A call's own [HeaderFault] goes before it. A refused fault changes
// nothing.
func (s *Stub) SetFault(f Fault) error {
	if err := f.Validate(); err != nil {
		return fmt.Errorf("model stub: set fault: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
	return nil
}

// ClearFault ends the fault for calls that come from now on. Calls that it has
// struck stay struck, as on a real server; [Stub.Close] ends those.
func (s *Stub) ClearFault() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = Fault{}
}

// SetService changes the service-time model for calls that get their slot from
// now on. Nil answers immediately.
func (s *Stub) SetService(svc Service) {
	if svc == nil {
		svc = Fixed(0)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.service = svc
}

// SetSlots changes the number of slots; 0 is unlimited. Calls that hold a slot
// keep it, so a lower number is reached as they end.
func (s *Stub) SetSlots(n int) error {
	if n < 0 || n > MaxSlots {
		return fmt.Errorf("model stub: set slots: %d, want 0 (unlimited) to %d", n, MaxSlots)
	}
	s.slots.resize(n)
	return nil
}

// LoseSlots takes n slots away, as many as all of them, until it is called with -n. It has no effect on an unlimited
// number.
func (s *Stub) LoseSlots(n int) { s.slots.lose(n) }

func (s *Stub) currentService() Service {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.service
}

// nextCall numbers a call and tells it the fault in force.
func (s *Stub) nextCall() (uint64, Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls++
	return s.calls, s.fault
}

func (s *Stub) logCall(c *call) {
	s.config.Log.LogAttrs(c.r.Context(), slog.LevelDebug, "stub call",
		slog.String("component", "modelstub"), slog.String("path", c.path),
		slog.String("ending", c.outcome.String()), slog.String("fault", c.fault.String()))
}

// Bounds on what a stub accepts.
const (
	// DefaultMaxBody is the request body limit when none is configured.
	DefaultMaxBody = 64 << 20
	// MaxSpeed is the greatest time compression; beyond it waits are shorter
	// than a timer can keep.
	MaxSpeed = 1e6
	// MaxSlots bounds Slots, to catch a number that was meant for something else.
	MaxSlots = 1 << 20
)

// Config says how a stub behaves. The zero value is a fast, faultless server.
type Config struct {
	// Slots is how many calls are worked on at once; calls beyond wait inside
	// the stub, first come first served. 0 is unlimited.
	Slots int
	// Service is the service-time model. Nil answers immediately.
	Service Service
	// Models are the names that GET /v1/models lists. Default: "stub-model".
	Models []string
	// StrictModels answers 404 to a model that is not in Models. Otherwise any
	// name is taken, and answered under that name.
	StrictModels bool
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
	// OnSlot, when set, is called when a call has got its slot, under the same conditions as Tap.
	OnSlot func(r *http.Request)
}

// Validate reports the first field that cannot be meant, by name.
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
	if c.Speed == 0 {
		c.Speed = 1
	}
	if c.MaxBody == 0 {
		c.MaxBody = DefaultMaxBody
	}
	if c.Service == nil {
		c.Service = Fixed(0)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}
