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

// guard decides about every trouble of the moment.
func (k *Keeper) guard(ctx context.Context, views []view) {
	for _, t := range troubles(k.watch) {
		for _, v := range views {
			if t.Key.Pool == "" || v.Pool == t.Key.Pool { // of the process: it is every pool's
				k.decide(ctx, v, t)
			}
		}
	}
}

// troubles are the open incidents at level page whose rule, as it is now, asks for
// a rollback.
func troubles(w Watch) []trouble {
	states := make(map[engine.Key]engine.RuleStatus)
	for _, s := range w.States() {
		states[s.Rule.Key()] = s
	}
	var all []trouble
	for _, inc := range w.Incidents() {
		s, ok := states[inc.Key]
		if !ok || !inc.Open() || inc.Level != engine.LevelPage || s.Rule.Action != string(Rollback) || s.State.Phase != engine.Firing {
			continue
		}
		all = append(all, trouble{Incident: inc, value: s.Value, limit: s.Rule.Page.At, since: s.State.PageFor})
	}
	return all
}

// decide rolls a pool back, or notes why it does not.
func (k *Keeper) decide(ctx context.Context, v view, t trouble) {
	now := k.c.Clock()
	k.mu.Lock()
	d, in := k.m.decide(now, v, t), k.m.inputs(now, v, t)
	k.mu.Unlock()
	switch {
	case d.flip:
		k.flip(ctx, v, t, in)
	case d.held != "":
		k.hold(ctx, v, t, d, in)
	}
}

// flip takes a pool's gate out: the intent is recorded, then it is applied, read
// back, recorded, and only then told (see the package's documentation).
func (k *Keeper) flip(ctx context.Context, v view, t trouble, in map[string]string) {
	k.mu.Lock()
	intent := k.m.begin(k.c.Clock(), v.Pool, t)
	k.mu.Unlock()
	k.saveIntent(ctx, intent)
	reason := fmt.Sprintf("rule %s: %s %s, its limit is %s", t.Key.Rule, in["value"], t.Unit, in["threshold"])
	mode := v.gate.Mode
	changes, err := k.c.Modes.apply(time.Now(), Order{
		Action: Rollback, Pool: v.Pool, Expected: &mode, Actor: engineActor, Via: ViaEngine, Reason: reason,
	}, 0)
	mode = k.c.Modes.mode(v.Pool)
	now := k.c.Clock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if g := k.m.of(now, v.Pool); err == nil && g.State == Flipped && mode != admission.PassThrough { // and nobody has put it back
		err = fmt.Errorf("the gate was set to passthrough and is in %s", mode)
	}
	if err != nil {
		k.m.abandon(now, v.Pool)
		k.failed(v, t, in, err)
		return
	}
	k.c.Log.Warn("rolled back automatically", "pool", v.Pool, "rule", t.Key.Rule, "incident", t.ID, "value", in["value"])
	k.noteFlip(changes[0], t.ID, in)
}

func (k *Keeper) saveIntent(ctx context.Context, g Guard) {
	ctx, cancel := context.WithTimeout(ctx, intentTime)
	defer cancel()
	if err := k.c.Journal.SaveGuard(ctx, g); err != nil {
		k.c.Metrics.failed("record_guard")
		k.c.Log.Error("the intent to roll back is not recorded; rolling back all the same", "pool", g.Pool, "error", err)
	}
}

// noteFlip keeps the inputs of a flip until it is recorded; see tellOne.
func (k *Keeper) noteFlip(c Change, incident string, in map[string]string) {
	k.flips[c.ID] = &flip{Change: c, at: k.c.Clock(), entry: Entry{
		ID: derived(c.ID, "flip"), At: c.At, Kind: KindDecision, Action: string(Rollback), Ending: Done, Pool: c.Pool, Subject: incident,
		Actor: engineActor, Via: ViaEngine, Reason: c.Reason, Inputs: in,
	}}
}

// failed notes a rollback that was decided and did not come about, once for each
// incident.
func (k *Keeper) failed(v view, t trouble, in map[string]string, err error) {
	ending := Failed
	if errors.Is(err, ErrUnexpected) {
		ending = Withheld // somebody was faster
	}
	k.c.Log.Error("an automatic rollback has not come about", "pool", v.Pool, "rule", t.Key.Rule, "error", err)
	k.noteOnce(v.Pool, t, string(ending), ending, err.Error(), in)
}

// hold notes why a rollback was withheld, once for each incident and reason. That
// the daily maximum is reached on-call is told too.
func (k *Keeper) hold(ctx context.Context, v view, t trouble, d verdict, in map[string]string) {
	k.mu.Lock()
	fresh := k.noteOnce(v.Pool, t, d.held, Withheld, d.why, in)
	k.mu.Unlock()
	if !fresh {
		return
	}
	k.c.Log.Warn("automatic rollback withheld", "pool", v.Pool, "rule", t.Key.Rule, "incident", t.ID, "why", d.why)
	if d.held != heldMaximum {
		return
	}
	if told, err := k.told(ctx, t.ID, engine.EventNoted, t.Opened); err == nil && told {
		return
	}
	k.unsaid = append(k.unsaid[max(0, len(k.unsaid)-maxUnsaid+1):], engine.Remark{
		Kind: engine.EventNoted, Incident: t.ID, By: engineActor,
		Words: "Not rolled back automatically: " + d.why + ". To do it by hand: headgate rollback --pool " + v.Pool,
	})
}

// noteOnce notes a decision unless it has been noted. Its ID follows from what it
// is about, so that another process that decides the same notes nothing new.
func (k *Keeper) noteOnce(pool string, t trouble, word string, ending Ending, why string, in map[string]string) (fresh bool) {
	id := derived(t.ID, pool+" "+word)
	if k.noted[id] {
		return false
	}
	if len(k.noted) >= maxHeld {
		clear(k.noted) // the record leaves what is there alone
	}
	k.noted[id] = true
	k.c.Audit.Note(Entry{
		ID: id, At: k.c.Clock(), Kind: KindDecision, Action: string(Rollback), Ending: ending, Pool: pool, Subject: t.ID,
		Actor: engineActor, Via: ViaEngine, Reason: why, Inputs: in,
	})
	return true
}

// derived returns the ID of what is noted once about something.
func derived(id, word string) string { return uuid.NewSHA1(uuid.Nil, []byte(id+" "+word)).String() }
