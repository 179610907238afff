package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"headgate/engine"
)

const maxRule = 200 // of the name of a rule, in bytes as the engine counts

// Mute is a silence of a rule: what happens is recorded and not sent. (A Silence
// is the lack of an answer.)
type Mute struct {
	ID     string `json:"id"` // UUIDv7
	Rule   string `json:"rule"`
	Pool   string `json:"pool"` // empty: all pools
	From   string `json:"from"`
	Until  string `json:"until"`
	By     string `json:"by"`
	Reason string `json:"reason"`
}

// MuteList is the reply to GET /api/v1/silences: those that are not over, newest
// first.
type MuteList struct {
	Items []Mute `json:"items"`
	Next  string `json:"next"` // for ?after=; empty if this is the last page
}

// MuteRequest is the body of POST /api/v1/silences.
type MuteRequest struct {
	Rule   string `json:"rule"`
	Pool   string `json:"pool,omitempty"` // empty: all pools
	For    string `json:"for"`            // how long, see ParseSpan
	Reason string `json:"reason"`
}

// MuteReply says which silence there is now.
type MuteReply struct {
	Created bool `json:"created"` // false: it was there before, and says the same
	Silence Mute `json:"silence"`
}

func muteOf(s engine.Silence) Mute {
	return Mute{ID: s.ID, Rule: s.Rule, Pool: s.Pool, From: stamp(s.From), Until: stamp(s.Until), By: s.By, Reason: s.Reason}
}

func (a *Admin) silences(w http.ResponseWriter, r *http.Request) {
	values, p := parameters(r, "after", "limit")
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	q, err := changeQuery(values, time.Now())
	if err != nil {
		WriteProblem(w, *badRequest(http.StatusBadRequest, err.Error()+"."))
		return
	}
	if q.After != "" && CheckID(q.After) != nil {
		WriteProblem(w, *badKey())
		return
	}
	page, next := pageByID(a.watch.Silences(), func(s engine.Silence) string { return s.ID }, q.After, q.Limit)
	list := MuteList{Items: []Mute{}, Next: next}
	for _, s := range page {
		list.Items = append(list.Items, muteOf(s))
	}
	writeJSON(w, http.StatusOK, "application/json", list)
}

func (a *Admin) silence(w http.ResponseWriter, r *http.Request) {
	s, p := readMute(w, r)
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), watchTimeout)
	defer cancel()
	done, err := a.watch.Silence(ctx, s)
	if err != nil {
		a.refuseWatch(w, "silence", err)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", MuteReply{Created: done.Won, Silence: muteOf(done.Silence)})
}

func readMute(w http.ResponseWriter, r *http.Request) (engine.Silence, *Problem) {
	if _, p := parameters(r); p != nil {
		return engine.Silence{}, p
	}
	var m MuteRequest
	if p := readObject(w, r, map[string]any{"rule": &m.Rule, "pool": &m.Pool, "for": &m.For, "reason": &m.Reason}); p != nil {
		return engine.Silence{}, p
	}
	by, p := actor(r)
	if p != nil {
		return engine.Silence{}, p
	}
	length, err := m.check()
	if err != nil {
		return engine.Silence{}, badRequest(http.StatusBadRequest, err.Error()+".")
	}
	return engine.Silence{Rule: m.Rule, Pool: m.Pool, Until: time.Now().Add(length), By: by, Reason: m.Reason}, nil
}

func (m *MuteRequest) check() (time.Duration, error) {
	switch {
	case m.Rule == "":
		return 0, errors.New("rule must name a rule: an incident tells which one it is of")
	case m.Reason == "":
		return 0, errors.New("reason must say why: others will wonder why nothing is sent")
	case len(m.Rule) > maxRule || len(m.Pool) > maxRule:
		return 0, fmt.Errorf("rule and pool must have at most %d bytes", maxRule)
	}
	for _, field := range [][2]string{{"rule", m.Rule}, {"pool", m.Pool}, {"reason", m.Reason}} {
		if err := line(field[0], field[1], MaxReason); err != nil {
			return 0, err
		}
	}
	length, err := ParseSpan(m.For)
	if err != nil {
		return 0, fmt.Errorf("for %w", err)
	}
	return length, nil
}

// lift ends a silence early.
func (a *Admin) lift(w http.ResponseWriter, r *http.Request) {
	_, p := parameters(r)
	by, wrong := actor(r)
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
	ctx, cancel := context.WithTimeout(r.Context(), watchTimeout)
	defer cancel()
	s, err := a.watch.Unsilence(ctx, id, by)
	if err != nil {
		a.refuseWatch(w, "lift a silence", err)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", muteOf(s))
}
