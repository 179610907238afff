package control

import (
	"context"
	"fmt"
	"strings"
	"time"

	"headgate/proxy/admission"
)

// The names of the actions that are no ModeAction of their own. ActLift is the undo of
// ActSilence, and is in the audit only.
const (
	ActObserve = "observe"
	ActEnforce = "enforce"
	ActPause   = "pause"
	ActResume  = "resume"
	ActAck     = "ack"
	ActSilence = "silence"
	ActLift    = "lift"
)

// acts are all actions.
func acts() []ActionDef {
	return append(modeActs(),
		ActionDef{
			Name: ActPause, Does: "Hands out no permit until it is resumed or its time has passed; who runs goes on, who comes waits or is refused by the rules.",
			Undo: "resume", Verify: "until when the gate says that it is paused", Takes: []string{"pool", "for"}, plan: planPause, do: doPause,
		},
		ActionDef{
			Name: ActResume, Does: "Ends a pause, and grants to those who waited for it.",
			Undo: "pause", Verify: "that the gate is not paused", Takes: []string{"pool"}, plan: planPause, do: doPause,
		},
		ActionDef{
			Name: ActAck, Does: "Takes an open incident on: no reminders until then. It stops no escalation.",
			Undo: "it ends by itself", Verify: "who has the incident", Takes: []string{"incident", "for"}, plan: planAck, do: doAck,
		},
		ActionDef{
			Name: ActSilence, Does: "Mutes what is sent about a rule, not the rule.",
			Undo: "DELETE /api/v1/silences/{id}, or it ends by itself", Verify: "that the silence is there", Takes: []string{"rule", "pool", "for"},
			plan: planSilence, do: doSilence,
		})
}

// modeActs are those that change modes.
func modeActs() []ActionDef {
	verify := "the mode of each gate"
	return []ActionDef{
		{
			Name: string(Rollback), Does: "Takes the gate out (passthrough): nothing is refused, and nothing that runs or waits is touched.",
			Undo: "restore", Verify: verify, Takes: []string{"pool", "expected"}, plan: planMode, do: doMode,
		},
		{
			Name: string(Restore), Does: "Puts the gate back: from passthrough to the mode before, from observe to enforce.",
			Undo: "rollback, or observe", Verify: verify, Takes: []string{"pool", "expected", "drop_overdue"}, plan: planMode, do: doMode,
		},
		{
			Name: ActObserve, Does: "Only counts what would be refused.",
			Undo: "restore", Verify: verify, Takes: []string{"pool", "expected", "drop_overdue"}, plan: planMode, do: doMode,
		},
		{
			Name: ActEnforce, Does: "Makes refusals real.",
			Undo: "rollback, or observe", Verify: verify, Takes: []string{"pool", "expected", "drop_overdue"}, plan: planMode, do: doMode,
		},
	}
}

// order is what a call asks of the modes.
func (c ActionRequest) order() ModeRequest {
	o := ModeRequest{
		Action: ModeAction(c.Name), Pool: c.Pool, Expected: c.Expected, Since: c.Since, DropOverdue: c.DropOverdue,
		Actor: c.Actor, Via: c.Via, Reason: c.Reason,
	}
	switch c.Name {
	case ActObserve:
		o.Action, o.Mode = SetMode, admission.Observe
	case ActEnforce:
		o.Action, o.Mode = SetMode, admission.Enforce
	case string(Rollback):
		o.Mode = admission.PassThrough
	}
	return o
}

// callOf is order the other way.
func callOf(o ModeRequest) ActionRequest {
	c := ActionRequest{
		Name: string(o.Action), Pool: o.Pool, Expected: o.Expected, Since: o.Since, DropOverdue: o.DropOverdue,
		Actor: o.Actor, Via: o.Via, Reason: o.Reason,
	}
	switch {
	case o.Action == SetMode && o.Mode == admission.PassThrough:
		c.Name = string(Rollback)
	case o.Action == SetMode && o.Mode == admission.Observe:
		c.Name = ActObserve
	case o.Action == SetMode:
		c.Name = ActEnforce
	}
	return c
}

func planMode(r *Registry, now time.Time, c ActionRequest) (ActionResult, error) {
	changes, err := r.modes.dryRun(now, c.order())
	if err != nil {
		return ActionResult{}, err
	}
	return ActionResult{Words: changed(changes, "would go"), Changes: changes, Undo: undone(changes)}, nil
}

func doMode(r *Registry, ctx context.Context, now time.Time, c ActionRequest) (ActionResult, error) {
	result, err := r.modes.Do(ctx, now, c.order())
	if err != nil {
		return ActionResult{}, err
	}
	o := ActionResult{Words: changed(result.Changes, "went"), Changes: result.Changes, Recorded: result.Recorded, Undo: undone(result.Changes)}
	o.Verified = true
	var found []string
	for _, change := range result.Changes {
		mode := admission.Enforce
		if gate := r.modes.gate(change.Pool); gate != nil {
			mode = gate.Snapshot(time.Now()).Mode
			found = append(found, fmt.Sprintf("pool %s is in %s", change.Pool, mode))
		}
		o.Verified = o.Verified && mode == change.To
	}
	o.Found = strings.Join(found, "; ")
	return o, nil
}

// changed says what changes come to.
func changed(changes []ModeChange, verb string) string {
	var all []string
	for _, c := range changes {
		s := fmt.Sprintf("Pool %s %s from %s to %s, with %d running and %d waiting.", c.Pool, verb, c.From, c.To, c.Running, c.Queued)
		if c.From == c.To {
			s = fmt.Sprintf("Pool %s is in %s already.", c.Pool, c.To)
		}
		if c.Dropped > 0 {
			s += fmt.Sprintf(" Of those who waited %d were turned away.", c.Dropped)
		}
		all = append(all, s)
	}
	return strings.Join(all, " ")
}

// undone lists the commands that take changes back.
func undone(changes []ModeChange) []string {
	var all []string
	for _, c := range changes {
		switch {
		case c.From == c.To:
		case c.To == admission.PassThrough:
			all = append(all, "headgate restore --pool "+c.Pool)
		case c.From == admission.PassThrough:
			all = append(all, "headgate rollback --pool "+c.Pool)
		case c.From == admission.Observe:
			all = append(all, "headgate observe --pool "+c.Pool)
		default:
			all = append(all, "headgate restore --pool "+c.Pool)
		}
	}
	return all
}
