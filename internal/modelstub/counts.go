package modelstub

import (
	"encoding/json"
	"net/http"
)

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
