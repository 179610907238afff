package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"headgate/engine"
)

// engineTimeout bounds the wait for what watches: it takes orders between two
// steps.
const engineTimeout = 3 * time.Second

// AckRequest is the body of POST /api/v1/incidents/{id}/ack.
type AckRequest struct {
	For string `json:"for,omitempty"` // how long, see ParseDuration; empty: the usual time
}

// AckReply says that an incident was taken on.
type AckReply struct {
	By       string   `json:"by"`
	Until    string   `json:"until"`
	Incident Incident `json:"incident"`
}

// ExistingAck is the acknowledgement that was there first.
type ExistingAck struct {
	By    string `json:"by"`
	Until string `json:"until"`
}

func (a *Admin) ack(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	by, length, p := decodeAckRequest(w, r)
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	if err := CheckID(id); err != nil {
		WriteProblem(w, unknownIncident("The incident "+err.Error()+"."))
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), engineTimeout)
	defer cancel()
	acked, err := a.engine.Ack(ctx, id, by, length)
	switch {
	case err != nil:
		a.writeEngineError(w, "acknowledge", err)
	case !acked.Applied:
		WriteProblem(w, ackConflict(acked))
	default:
		writeJSON(w, http.StatusOK, "application/json", AckReply{
			By: acked.By, Until: formatTime(acked.Until), Incident: incidentOf(acked.Incident, a.engine.Silences(), time.Now()),
		})
	}
}

func decodeAckRequest(w http.ResponseWriter, r *http.Request) (by string, length time.Duration, p *Problem) {
	if _, p := parseQuery(r); p != nil {
		return "", 0, p
	}
	var req AckRequest
	if p := decodeObject(w, r, map[string]any{"for": &req.For}); p != nil {
		return "", 0, p
	}
	if req.For != "" {
		var err error
		if length, err = ParseDuration(req.For); err != nil {
			return "", 0, badRequest(http.StatusBadRequest, "for "+err.Error()+".")
		}
	}
	by, p = actorOf(r)
	return by, length, p
}

// actorOf says who gives an order.
func actorOf(r *http.Request) (string, *Problem) {
	by := cmp.Or(r.Header.Get(ActorHeader), "api")
	if err := checkLine(ActorHeader, by, MaxActor); err != nil {
		return "", badRequest(http.StatusBadRequest, err.Error()+".")
	}
	return by, nil
}

func ackConflict(a engine.AckResult) Problem {
	standing := &ExistingAck{By: a.By, Until: formatTime(a.Until)}
	return Problem{Type: TypeAlreadyAcked, Status: http.StatusConflict, Acked: standing,
		Detail: fmt.Sprintf("Nothing was changed: %s has it until %s.", standing.By, standing.Until)}
}

// writeEngineError is where the errors of orders to what watches become statuses.
func (a *Admin) writeEngineError(w http.ResponseWriter, what string, err error) {
	switch {
	case errors.Is(err, engine.ErrNoIncident):
		WriteProblem(w, unknownIncident("There is no such incident that is open; it may be over."))
	case errors.Is(err, engine.ErrNoSilence):
		WriteProblem(w, Problem{Type: TypeUnknownSilence, Status: http.StatusNotFound, Detail: "There is no such silence; it may be over."})
	case errors.Is(err, engine.ErrNoRule):
		WriteProblem(w, Problem{Type: TypeUnknownRule, Status: http.StatusNotFound, Detail: truncateDetail(err.Error()) + "."})
	case errors.Is(err, engine.ErrTooMany):
		WriteProblem(w, Problem{Status: http.StatusConflict, Detail: "There are too many silences: lift some first."})
	case errors.Is(err, engine.ErrRefused):
		WriteProblem(w, *badRequest(http.StatusBadRequest, truncateDetail(err.Error())+"."))
	case errors.Is(err, engine.ErrNotRunning), errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		WriteProblem(w, Problem{Status: http.StatusServiceUnavailable, Detail: "The rules are not being evaluated just now: nothing was changed."})
	default:
		a.log.Error("an order to the engine failed", "order", what, "error", err)
		WriteProblem(w, Problem{Status: http.StatusInternalServerError, Detail: "The order failed and nothing was changed; the log says why."})
	}
}

// truncateDetail bounds a text of ours that may quote many names.
func truncateDetail(s string) string {
	const most = 2000
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// ParseDuration reads a length of time above 0: a duration in Go's form, or a number
// of days (2d). Errors complete the sentence "for …".
func ParseDuration(s string) (time.Duration, error) {
	d, err := time.ParseDuration(s)
	if days, ok := strings.CutSuffix(s, "d"); ok {
		var n int
		n, err = strconv.Atoi(days)
		d = time.Duration(min(max(n, -1), int(maxDuration/(24*time.Hour))+1)) * 24 * time.Hour
	}
	if err != nil || d <= 0 || d > maxDuration {
		return 0, errors.New("must be a span such as 1h, 90m or 2d, above 0")
	}
	return d, nil
}
