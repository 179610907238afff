package api

import (
	"net/http"
	"time"

	"headgate/runbooks/control"
)

// Status is the reply to GET /api/v1/status.
type Status struct {
	Version       string               `json:"version"`
	Pools         []control.PoolStatus `json:"pools"`
	IncidentsOpen []Incident           `json:"incidents_open"` // newest first; filled in by Admin
}

// StatusSource knows the version and the pools.
type StatusSource interface{ Status(now time.Time) Status }

func (a *Admin) status(w http.ResponseWriter, r *http.Request) {
	if _, p := parseQuery(r); p != nil {
		WriteProblem(w, *p)
		return
	}
	a.reply(w, a.Status(), nil)
}

// Status returns the state of all pools, and the open incidents.
func (a *Admin) Status() Status {
	s := a.statusSource.Status(time.Now())
	if s.Pools == nil {
		s.Pools = []control.PoolStatus{}
	}
	s.IncidentsOpen, _ = a.openIncidents(IncidentQuery{Limit: MaxPage})
	return s
}
