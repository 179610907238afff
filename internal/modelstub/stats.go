package modelstub

import (
	"encoding/json"
	"maps"
	"net/http"
	"sync"
)

// Counts are ended calls by how they ended. Calls - Completed - Rejected -
// Faulted - ClientGone - Aborted is what is still going on.
type Counts struct {
	Calls      int64 `json:"calls"`       // arrived, whatever became of them
	Completed  int64 `json:"completed"`   // answered in full
	Rejected   int64 `json:"rejected"`    // answered with a 4xx of the stub's own
	Faulted    int64 `json:"faulted"`     // broken off or refused by a fault
	ClientGone int64 `json:"client_gone"` // the client left first
	Aborted    int64 `json:"aborted"`     // cut off by Close
}

// Stats is what a stub saw since it was made or [Stub.Reset].
type Stats struct {
	Counts
	// InFlight is the calls for a model that have arrived and not ended,
	// whether they hold a slot or wait for one. PeakInFlight is its highest
	// value: what a client must keep within its limit. A call ends just before
	// its last bytes are written, so that a client which sends the next call on
	// reading them is not counted twice.
	InFlight     int `json:"in_flight"`
	PeakInFlight int `json:"peak_in_flight"`
	// Serving is the calls that hold a slot, PeakServing its highest value.
	Serving     int `json:"serving"`
	PeakServing int `json:"peak_serving"`
	// Waiting is the calls that wait for a slot.
	Waiting int `json:"waiting"`
	// ByPath has the counts of each endpoint; every other path is "other".
	ByPath map[string]Counts `json:"by_path"`
}

// outcome is how a call ended.
type outcome int

const (
	pending outcome = iota
	completed
	rejected
	faulted
	clientGone
	aborted
)

func (e outcome) String() string {
	return [...]string{"unended", "completed", "rejected", "faulted", "client_gone", "aborted"}[e]
}

func (c *Counts) add(e outcome) {
	switch e {
	case completed:
		c.Completed++
	case rejected:
		c.Rejected++
	case faulted:
		c.Faulted++
	case clientGone:
		c.ClientGone++
	case aborted:
		c.Aborted++
	}
}

// callCounters counts calls. Gauges survive a reset, since the calls behind them do.
type callCounters struct {
	mu         sync.Mutex
	generation int // which reset a call came after; older calls are not counted when they end
	inFlight   int
	peak       int
	byPath     map[string]Counts
}

func (t *callCounters) begin(path string, model bool) (epoch int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byPath == nil {
		t.byPath = map[string]Counts{}
	}
	c := t.byPath[path]
	c.Calls++
	t.byPath[path] = c
	if model {
		t.inFlight++
		t.peak = max(t.peak, t.inFlight)
	}
	return t.generation
}

func (t *callCounters) end(path string, model bool, epoch int, e outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if model {
		t.inFlight--
	}
	if epoch != t.generation {
		return
	}
	c := t.byPath[path]
	c.add(e)
	t.byPath[path] = c
}

func (t *callCounters) reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.generation++
	t.peak = t.inFlight
	t.byPath = nil
}

func (t *callCounters) stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Stats{InFlight: t.inFlight, PeakInFlight: t.peak, ByPath: map[string]Counts{}}
	maps.Copy(s.ByPath, t.byPath)
	for _, c := range s.ByPath {
		s.Calls += c.Calls
		s.Completed += c.Completed
		s.Rejected += c.Rejected
		s.Faulted += c.Faulted
		s.ClientGone += c.ClientGone
		s.Aborted += c.Aborted
	}
	return s
}

// pathCounts is where a stub says what it has seen. Asking is no call.
const pathCounts = "/counts"

// isCountsRequest says whether a request is about the stub itself.
func isCountsRequest(r *http.Request) bool {
	return r.URL.Path == pathCounts && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// serveCounts answers with Stats as JSON. No fault strikes it.
func (s *Stub) serveCounts(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(s.Stats()) // who asked has gone
}
