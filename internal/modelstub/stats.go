package modelstub

import (
	"encoding/json"
	"maps"
	"net/http"
	"sync"
)

// Counts are ended calls by how they ended. Calls - Completed - Rejected -
// Faulted - ClientGone - Aborted is the number of running ones.
type Counts struct {
	Calls      int64 `json:"calls"`       // arrived, however they ended
	Completed  int64 `json:"completed"`   // answered completely
	Rejected   int64 `json:"rejected"`    // answered with a 4xx of the stub's own
	Faulted    int64 `json:"faulted"`     // broken or refused by a fault
	ClientGone int64 `json:"client_gone"` // the client left first
	Aborted    int64 `json:"aborted"`     // ended by Close
}

// Stats are the counts of a stub since it was made.
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

func (o outcome) String() string {
	return [...]string{"pending", "completed", "rejected", "faulted", "client_gone", "aborted"}[o]
}

func (c *Counts) add(o outcome) {
	if o == pending {
		return
	}
	*[...]*int64{completed: &c.Completed, rejected: &c.Rejected, faulted: &c.Faulted, clientGone: &c.ClientGone, aborted: &c.Aborted}[o]++
}

// callCounters counts calls.
type callCounters struct {
	mu       sync.Mutex
	inFlight int
	peak     int
	total    Counts
	byPath   map[string]Counts
}

// count changes the counts of a path and the total alike.
func (t *callCounters) countLocked(path string, change func(*Counts)) {
	if t.byPath == nil {
		t.byPath = map[string]Counts{}
	}
	c := t.byPath[path]
	change(&c)
	t.byPath[path] = c
	change(&t.total)
}

func (t *callCounters) begin(path string, model bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.countLocked(path, func(c *Counts) { c.Calls++ })
	if model {
		t.inFlight++
		t.peak = max(t.peak, t.inFlight)
	}
}

func (t *callCounters) end(path string, model bool, o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if model {
		t.inFlight--
	}
	t.countLocked(path, func(c *Counts) { c.add(o) })
}

func (t *callCounters) stats() Stats {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := Stats{Counts: t.total, InFlight: t.inFlight, PeakInFlight: t.peak, ByPath: map[string]Counts{}}
	maps.Copy(s.ByPath, t.byPath)
	return s
}

// pathCounts answers with the stub's counts. Requests for it are not calls.
const pathCounts = "/counts"

func isCountsRequest(r *http.Request) bool {
	return r.URL.Path == pathCounts && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// serveCounts answers with Stats as JSON. It ignores faults.
func (s *Stub) serveCounts(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	_ = e.Encode(s.Stats()) // the client may have left
}
