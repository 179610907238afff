package modelstub

import (
	"context"
	"fmt"
	"log/slog"
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
