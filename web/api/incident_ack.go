package api

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"headgate/engine"
	"headgate/runbooks/control"
)

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
	var m AckRequest
	by, p := decodeRequest(w, r, map[string]any{"for": &m.For})
	id := r.PathValue("id")
	if err := CheckID(id); p == nil && err != nil {
		p = unknownIncident("The incident " + err.Error() + ".")
	}
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	done, err := DoAction(r.Context(), a.control, by, control.ActionAck, ActionRequest{Incident: id, For: m.For})
	if err != nil {
		a.writeControlError(w, "acknowledge", err)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", AckReply{
		By: done.Ack.By, Until: formatTime(done.Ack.Until), Incident: incidentOf(done.Ack.Incident, a.control.Engine().Silences(), time.Now()),
	})
}

func ackConflict(a engine.AckResult) *Problem {
	existing := &ExistingAck{By: a.By, Until: formatTime(a.Until)}
	return &Problem{Type: TypeAlreadyAcked, Status: http.StatusConflict, Acked: existing,
		Detail: fmt.Sprintf("Nothing was changed: acknowledged by %s until %s.", existing.By, existing.Until)}
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
