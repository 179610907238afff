package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"headgate/engine"
	"headgate/proxy/admission"
)

// evaluate decides about every trouble of the moment.
func (k *AutoRollback) evaluate(ctx context.Context, views []poolView) {
	for _, t := range rollbackTriggers(k.rules) {
		for _, v := range views {
			if t.Key.Pool == "" || v.Pool == t.Key.Pool { // of the process: it is every pool's
				k.decide(ctx, v, t)
			}
		}
	}
}

// rollbackTriggers are the open incidents at level page whose rule, as it is now, asks for
// a rollback.
func rollbackTriggers(w RuleEngine) []rollbackTrigger {
	states := make(map[engine.Key]engine.RuleStatus)
	for _, s := range w.States() {
		states[s.Rule.Key()] = s
	}
	var all []rollbackTrigger
	for _, inc := range w.Incidents() {
		s, ok := states[inc.Key]
		if !ok || !inc.Open() || inc.Level != engine.LevelPage || s.Rule.Action != string(Rollback) || s.State.Phase != engine.Firing {
			continue
		}
		all = append(all, rollbackTrigger{Incident: inc, value: s.Value, limit: s.Rule.Page.At, breachedFor: s.State.PageFor})
	}
	return all
}

// decide rolls a pool back, or notes why it does not.
func (k *AutoRollback) decide(ctx context.Context, v poolView, t rollbackTrigger) {
	now := k.c.Clock()
	k.mu.Lock()
	d, in := k.machine.decide(now, v, t), k.machine.decisionInputs(now, v, t)
	k.mu.Unlock()
	switch {
	case d.rollBack:
		k.rollBack(ctx, v, t, in)
	case d.withheld != "":
		k.recordWithheld(ctx, v, t, d, in)
	}
}

// rollBack takes a pool's gate out: the intent is recorded, then it is applied, read
// back, recorded, and only then told (see the package's documentation).
func (k *AutoRollback) rollBack(ctx context.Context, v poolView, t rollbackTrigger, in map[string]string) {
	k.mu.Lock()
	intent := k.machine.beginRollback(k.c.Clock(), v.Pool, t)
	k.mu.Unlock()
	k.saveIntent(ctx, intent)
	reason := fmt.Sprintf("rule %s: %s %s, its limit is %s", t.Key.Rule, in["value"], t.Unit, in["threshold"])
	mode := v.gate.Mode
	changes, err := k.c.Controller.apply(time.Now(), ModeRequest{
		Action: Rollback, Pool: v.Pool, Expected: &mode, Actor: engineActor, Via: ViaEngine, Reason: reason,
	}, 0)
	applied, known := k.c.Controller.mode(v.Pool)
	now := k.c.Clock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if g := k.machine.state(now, v.Pool); err == nil && g.Phase == RolledBack && (!known || applied != admission.PassThrough) {
		err = fmt.Errorf("the gate was set to passthrough and is in %s", applied)
	}
	if err != nil {
		k.machine.abandonRollback(now, v.Pool)
		k.recordFailure(v, t, in, err)
		return
	}
	k.c.Log.Warn("rolled back automatically", "pool", v.Pool, "rule", t.Key.Rule, "incident", t.ID, "value", in["value"])
	k.trackUnrecorded(changes[0], t.ID, in)
}

func (k *AutoRollback) saveIntent(ctx context.Context, g RollbackState) {
	ctx, cancel := context.WithTimeout(ctx, intentTimeout)
	defer cancel()
	if err := k.c.Journal.SaveRollbackState(ctx, g); err != nil {
		k.c.Metrics.countError("record_guard")
		k.c.Log.Error("the intent to roll back is not recorded; rolling back all the same", "pool", g.Pool, "error", err)
	}
}

// trackUnrecorded keeps the inputs of a flip until it is recorded; see announceChange.
func (k *AutoRollback) trackUnrecorded(c ModeChange, incident string, in map[string]string) {
	k.unrecorded[c.ID] = &unrecordedRollback{ModeChange: c, at: k.c.Clock(), entry: AuditEntry{
		ID: derivedID(c.ID, "flip"), At: c.At, Kind: KindDecision, Action: string(Rollback), Result: Done, Pool: c.Pool, Subject: incident,
		Actor: engineActor, Via: ViaEngine, Reason: c.Reason, Inputs: in,
	}}
}

// recordFailure notes a rollback that was decided and did not come about, once for each
// incident.
func (k *AutoRollback) recordFailure(v poolView, t rollbackTrigger, in map[string]string, err error) {
	ending := Failed
	if errors.Is(err, ErrModeMismatch) {
		ending = Withheld // somebody was faster
	}
	k.c.Log.Error("an automatic rollback has not come about", "pool", v.Pool, "rule", t.Key.Rule, "error", err)
	k.auditOnce(v.Pool, t, string(ending), ending, err.Error(), in)
}

// recordWithheld notes why a rollback was withheld, once for each incident and reason. That
// the daily maximum is reached on-call is told too.
func (k *AutoRollback) recordWithheld(ctx context.Context, v poolView, t rollbackTrigger, d decision, in map[string]string) {
	k.mu.Lock()
	fresh := k.auditOnce(v.Pool, t, d.withheld, Withheld, d.why, in)
	k.mu.Unlock()
	if !fresh {
		return
	}
	k.c.Log.Warn("automatic rollback withheld", "pool", v.Pool, "rule", t.Key.Rule, "incident", t.ID, "why", d.why)
	if d.withheld != withheldDailyLimit {
		return
	}
	if told, err := k.alreadyAnnounced(ctx, t.ID, engine.EventNote, t.Opened); err == nil && told {
		return
	}
	k.pendingAnnotations = append(k.pendingAnnotations[max(0, len(k.pendingAnnotations)-maxPendingAnnotations+1):], engine.Annotation{
		Kind: engine.EventNote, Incident: t.ID, By: engineActor,
		Text: "Not rolled back automatically: " + d.why + ". To do it by hand: headgate rollback --pool " + v.Pool,
	})
}

// auditOnce notes a decision unless it has been noted. Its ID follows from what it
// is about, so that another process that decides the same notes nothing new.
func (k *AutoRollback) auditOnce(pool string, t rollbackTrigger, word string, ending AuditResult, why string, in map[string]string) (fresh bool) {
	id := derivedID(t.ID, pool+" "+word)
	if k.audited[id] {
		return false
	}
	if len(k.audited) >= maxAudited {
		clear(k.audited) // the record leaves what is there alone
	}
	k.audited[id] = true
	k.c.Audit.Append(AuditEntry{
		ID: id, At: k.c.Clock(), Kind: KindDecision, Action: string(Rollback), Result: ending, Pool: pool, Subject: t.ID,
		Actor: engineActor, Via: ViaEngine, Reason: why, Inputs: in,
	})
	return true
}

// derivedID returns the ID of what is noted once about something.
func derivedID(id, word string) string { return uuid.NewSHA1(uuid.Nil, []byte(id+" "+word)).String() }
