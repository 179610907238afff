package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"headgate/engine"
	"headgate/runbooks/control"
)

const maxRuleName = 200 // of the name of a rule, in bytes as the engine counts

// SilenceList is the reply to GET /api/v1/silences: those that are not over, newest
// first.
type SilenceList struct {
	Items []engine.Silence `json:"items"`
	Next  string           `json:"next"` // for ?after=; empty if this is the last page
}

// SilenceRequest is the body of POST /api/v1/silences.
type SilenceRequest struct {
	Rule   string `json:"rule"`
	Pool   string `json:"pool,omitempty"` // empty: all pools
	For    string `json:"for"`            // how long, see ParseDuration
	Reason string `json:"reason"`
}

// SilenceReply shows the silence that is in force.
type SilenceReply struct {
	Created bool           `json:"created"` // false: it existed before, with the same effect
	Silence engine.Silence `json:"silence"`
}

func (a *Admin) listSilences(w http.ResponseWriter, r *http.Request) {
	values, p := parseQuery(r, "after", "limit")
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	q, err := parseAuditQuery(values, time.Now())
	if err != nil {
		WriteProblem(w, *badRequest(http.StatusBadRequest, err.Error()+"."))
		return
	}
	if q.After != "" && CheckID(q.After) != nil {
		WriteProblem(w, *badCursor())
		return
	}
	page, next := pageByID(a.control.Engine().Silences(), func(s engine.Silence) string { return s.ID }, q.After, q.Limit)
	writeJSON(w, http.StatusOK, "application/json", SilenceList{Items: append([]engine.Silence{}, page...), Next: next})
}

func (a *Admin) createSilence(w http.ResponseWriter, r *http.Request) {
	var m SilenceRequest
	by, p := decodeRequest(w, r, map[string]any{"rule": &m.Rule, "pool": &m.Pool, "for": &m.For, "reason": &m.Reason})
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	o, err := m.Options()
	if err != nil {
		WriteProblem(w, *ControlProblem(err))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), actionTimeout)
	defer cancel()
	done, err := a.control.Silence(ctx, by, o)
	if err != nil {
		a.writeControlError(w, "silence", err)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", SilenceReply{Created: done.Silence.Applied, Silence: done.Silence.Silence})
}

// Options checks a request, and returns it for control.Service. Its error is a *Problem.
func (m SilenceRequest) Options() (control.SilenceOptions, error) {
	length, err := m.validate()
	if err != nil {
		return control.SilenceOptions{}, badRequest(http.StatusBadRequest, err.Error()+".")
	}
	return control.SilenceOptions{Rule: m.Rule, Pool: m.Pool, For: length, Reason: m.Reason}, nil
}

func (m SilenceRequest) validate() (time.Duration, error) {
	switch {
	case m.Rule == "":
		return 0, errors.New("rule must name a rule: an incident tells which one it is of")
	case m.Reason == "":
		return 0, errors.New("reason must say why: others will wonder why there are no notifications")
	case len(m.Rule) > maxRuleName || len(m.Pool) > maxRuleName:
		return 0, fmt.Errorf("rule and pool must have at most %d bytes", maxRuleName)
	}
	for _, field := range [][2]string{{"rule", m.Rule}, {"pool", m.Pool}, {"reason", m.Reason}} {
		if err := checkLine(field[0], field[1], MaxReason); err != nil {
			return 0, err
		}
	}
	length, err := ParseDuration(m.For)
	if err != nil {
		return 0, fmt.Errorf("for %w", err)
	}
	return length, nil
}

// liftSilence ends a silence early.
func (a *Admin) liftSilence(w http.ResponseWriter, r *http.Request) {
	_, p := parseQuery(r)
	by, wrong := actorOf(r)
	if p == nil {
		p = wrong
	}
	id := r.PathValue("id")
	if err := CheckID(id); p == nil && err != nil {
		p = &Problem{Type: TypeUnknownSilence, Status: http.StatusNotFound, Detail: "The silence " + err.Error() + "."}
	}
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), actionTimeout)
	defer cancel()
	done, err := a.control.Unsilence(ctx, by, id)
	if err != nil {
		a.writeControlError(w, "end a silence", err)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", done.Silence.Silence)
}
