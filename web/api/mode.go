package api

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// ActorHeader names who gives an order. Without it the actor is "api".
const ActorHeader = "Headgate-Actor"

// Bounds of what goes into the record, in characters.
const (
	MaxActor  = 100
	MaxReason = 500
)

// ModeRestore asks for the mode before: from passthrough to the one before the
// rollback, from observe to enforce.
const ModeRestore = "restore"

// ModeRequest is the body of PUT /api/v1/mode and /api/v1/pools/{pool}/mode.
type ModeRequest struct {
	Mode        string `json:"mode"`                   // enforce, observe, passthrough or restore
	Reason      string `json:"reason"`                 // for the record; may be empty
	Expected    string `json:"expected,omitempty"`     // refuse unless every pool is in this mode now
	DropOverdue bool   `json:"drop_overdue,omitempty"` // turn away who waits and can no longer end in time
	DryRun      bool   `json:"dry_run,omitempty"`      // say what would change, change nothing
}

// ModeReply says what an order did.
type ModeReply struct {
	DryRun   bool         `json:"dry_run"`
	Recorded bool         `json:"recorded"` // false: applied, but a restart would forget it; or a dry run
	Changes  []ModeChange `json:"changes"`
}

// ModeChange is what an order did to one pool, and what is left behind.
type ModeChange struct {
	Change
	Overdue int     `json:"overdue"` // of those who still wait, how many can no longer end in time
	DrainS  float64 `json:"drain_s"` // until all who wait have a permit, projected
}

func (a *Admin) putMode(w http.ResponseWriter, r *http.Request) {
	order, dry, p := decodeModeRequest(w, r)
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	if dry {
		a.planMode(w, order)
		return
	}
	result, err := a.modes.Do(r.Context(), time.Now(), order)
	if err != nil {
		a.writeModeError(w, order, err)
		return
	}
	reply := ModeReply{Recorded: result.Recorded, Changes: []ModeChange{}}
	status := a.statusSource.Status(time.Now())
	for _, c := range result.Changes {
		change := ModeChange{Change: ChangeOf(c)}
		if s := status.pool(c.Pool); s != nil {
			change.Overdue, change.DrainS = s.Overdue, s.DrainS
			// A pool that was in the mode already may be there unrecorded.
			reply.Recorded = reply.Recorded && (s.ModeRecorded == nil || *s.ModeRecorded)
		}
		reply.Changes = append(reply.Changes, change)
	}
	writeJSON(w, http.StatusOK, "application/json", reply)
}

func (a *Admin) planMode(w http.ResponseWriter, o control.ModeRequest) {
	status := a.statusSource.Status(time.Now())
	reply, err := planModeChange(&status, o, time.Now())
	if err != nil {
		a.writeModeError(w, o, err)
		return
	}
	writeJSON(w, http.StatusOK, "application/json", reply)
}

// writeModeError is where the errors of orders become statuses.
func (a *Admin) writeModeError(w http.ResponseWriter, o control.ModeRequest, err error) {
	status := a.statusSource.Status(time.Now())
	switch {
	case errors.Is(err, control.ErrNoPool):
		WriteProblem(w, unknownPool(&status, o.Pool))
	case errors.Is(err, control.ErrModeMismatch):
		WriteProblem(w, modeConflict(&status, o))
	default:
		a.log.Error("an order failed", "action", o.Action, "pool", o.Pool, "error", err)
		WriteProblem(w, Problem{Status: http.StatusInternalServerError, Detail: "The order failed and nothing was changed; the log says why."})
	}
}

func unknownPool(s *Status, name string) Problem {
	p := Problem{Type: TypeUnknownPool, Status: http.StatusNotFound, Pools: s.poolNames()}
	p.Detail = fmt.Sprintf("There is no pool %s. There are: %s.", quoteName(name), strings.Join(p.Pools, ", "))
	if len(p.Pools) == 0 {
		p.Detail = "There are no pools."
	}
	return p
}

func modeConflict(s *Status, o control.ModeRequest) Problem {
	p := Problem{Type: TypeModeConflict, Status: http.StatusConflict}
	var told []string
	for i := range s.Pools {
		c := &s.Pools[i]
		if (o.Pool != "" && o.Pool != c.Name) || c.Mode == o.Expected.String() {
			continue
		}
		since := c.ModeSince.UTC().Format(timeLayout)
		p.Current = append(p.Current, ModeState{
			Pool: c.Name, Mode: c.Mode, Before: c.ModeBefore, Since: since, By: c.ModeBy, Reason: c.ModeReason,
		})
		told = append(told, fmt.Sprintf("pool %q is in %s since %s by %s", c.Name, c.Mode, since, c.ModeBy))
	}
	p.Detail = fmt.Sprintf("Nothing was changed: %s was expected, but %s.", o.Expected, cmp.Or(strings.Join(told, ", "), "a pool was in another mode"))
	return p
}

// decodeModeRequest turns a request into an order.
func decodeModeRequest(w http.ResponseWriter, r *http.Request) (o control.ModeRequest, dry bool, p *Problem) {
	if _, p := parseQuery(r); p != nil {
		return o, false, p
	}
	var m ModeRequest
	if p := decodeObject(w, r, map[string]any{
		"mode": &m.Mode, "reason": &m.Reason, "expected": &m.Expected, "drop_overdue": &m.DropOverdue, "dry_run": &m.DryRun,
	}); p != nil {
		return o, false, p
	}
	o, err := m.controlRequest()
	if err != nil {
		return o, false, badRequest(http.StatusBadRequest, err.Error()+".")
	}
	o.Pool = r.PathValue("pool")
	o.Actor = cmp.Or(r.Header.Get(ActorHeader), "api")
	if err := checkLine(ActorHeader, o.Actor, MaxActor); err != nil {
		return o, false, badRequest(http.StatusBadRequest, err.Error()+".")
	}
	return o, m.DryRun, nil
}

func (m *ModeRequest) controlRequest() (control.ModeRequest, error) {
	o := control.ModeRequest{Via: control.ViaAPI, Reason: m.Reason, DropOverdue: m.DropOverdue}
	switch m.Mode {
	case ModeRestore:
		o.Action = control.Restore
	case admission.PassThrough.String():
		o.Action, o.Mode = control.Rollback, admission.PassThrough
	default:
		mode, err := admission.ParseMode(m.Mode)
		if err != nil {
			return o, errors.New("mode must be enforce, observe, passthrough or restore")
		}
		o.Action, o.Mode = control.SetMode, mode
	}
	if m.DropOverdue && o.Action == control.Rollback {
		return o, errors.New("drop_overdue does not go with passthrough, in which nothing is refused")
	}
	if m.Expected != "" {
		mode, err := admission.ParseMode(m.Expected)
		if err != nil {
			return o, errors.New("expected must be enforce, observe or passthrough")
		}
		o.Expected = &mode
	}
	return o, checkLine("reason", m.Reason, MaxReason)
}

// checkLine refuses text that would not stay in its place in a log, a table or a
// terminal.
func checkLine(name, text string, most int) error {
	if !utf8.ValidString(text) || strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return fmt.Errorf("%s must be one line of printable text", name)
	}
	if n := utf8.RuneCountInString(text); n > most {
		return fmt.Errorf("%s must have at most %d characters, has %d", name, most, n)
	}
	return nil
}
