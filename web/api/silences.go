package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"headgate/engine"
)

const maxRuleName = 200 // of the name of a rule, in bytes as the engine counts

// Silence is a silence of a rule: what happens is recorded and not sent. (A UnreachableError
// is the lack of an answer.)
type Silence struct {
	ID     string `json:"id"` // UUIDv7
	Rule   string `json:"rule"`
	Pool   string `json:"pool"` // empty: all pools
	From   string `json:"from"`
	Until  string `json:"until"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// SilenceList is the reply to GET /api/v1/silences: those that are not over, newest
// first.
type SilenceList struct {
	Items []Silence `json:"items"`
	Next  string    `json:"next"` // for ?after=; empty if this is the last page
}

// SilenceRequest is the body of POST /api/v1/silences.
type SilenceRequest struct {
	Rule   string `json:"rule"`
	Pool   string `json:"pool,omitempty"` // empty: all pools
	For    string `json:"for"`            // how long, see ParseDuration
	Reason string `json:"reason"`
}

// SilenceReply says which silence there is now.
type SilenceReply struct {
	Created bool    `json:"created"` // false: it was there before, and says the same
	Silence Silence `json:"silence"`
}

func silenceOf(s engine.Silence) Silence {
	return Silence{ID: s.ID, Rule: s.Rule, Pool: s.Pool, From: formatTime(s.From), Until: formatTime(s.Until), By: s.By, Reason: s.Reason}
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
	page, next := pageByID(a.engine.Silences(), func(s engine.Silence) string { return s.ID }, q.After, q.Limit)
	list := SilenceList{Items: []Silence{}, Next: next}
	for _, s := range page {
		list.Items = append(list.Items, silenceOf(s))
	}
	writeJSON(w, http.StatusOK, "application/json", list)
}

func (a *Admin) createSilence(w http.ResponseWriter, r *http.Request) {
	s, p := decodeSilenceRequest(w, r)
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), engineTimeout)
	defer cancel()
	done, err := a.engine.Silence(ctx, s)
	if err != nil {
		a.writeEngineError(w, "silence", err)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", SilenceReply{Created: done.Applied, Silence: silenceOf(done.Silence)})
}

func decodeSilenceRequest(w http.ResponseWriter, r *http.Request) (engine.Silence, *Problem) {
	if _, p := parseQuery(r); p != nil {
		return engine.Silence{}, p
	}
	var m SilenceRequest
	if p := decodeObject(w, r, map[string]any{"rule": &m.Rule, "pool": &m.Pool, "for": &m.For, "reason": &m.Reason}); p != nil {
		return engine.Silence{}, p
	}
	by, p := actorOf(r)
	if p != nil {
		return engine.Silence{}, p
	}
	length, err := m.validate()
	if err != nil {
		return engine.Silence{}, badRequest(http.StatusBadRequest, err.Error()+".")
	}
	return engine.Silence{Rule: m.Rule, Pool: m.Pool, Until: time.Now().Add(length), By: by, Reason: m.Reason}, nil
}

func (m *SilenceRequest) validate() (time.Duration, error) {
	switch {
	case m.Rule == "":
		return 0, errors.New("rule must name a rule: an incident tells which one it is of")
	case m.Reason == "":
		return 0, errors.New("reason must say why: others will wonder why nothing is sent")
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
	ctx, cancel := context.WithTimeout(r.Context(), engineTimeout)
	defer cancel()
	s, err := a.engine.Unsilence(ctx, id, by)
	if err != nil {
		a.writeEngineError(w, "lift a silence", err)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", silenceOf(s))
}
