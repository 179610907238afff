package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"headgate/engine"
	"headgate/proxy/admission"
)

const maxWords = 900 // bytes of a remark; the engine takes 1000

// tell has recorded changes told to those who follow the pool's incidents, and why
// no more rollbacks are made to those who follow the one that asks for it.
func (k *Keeper) tell(ctx context.Context) {
	for len(k.unsaid) > 0 && k.remark(ctx, k.unsaid[0]) {
		k.unsaid = k.unsaid[1:]
	}
	for {
		k.mu.Lock()
		if len(k.untold) == 0 {
			k.mu.Unlock()
			return
		}
		u := k.untold[0]
		k.mu.Unlock()
		if !k.tellOne(ctx, u) {
			return // tried again at the next step
		}
		k.mu.Lock()
		k.untold = k.untold[1:]
		k.mu.Unlock()
	}
}

// tellOne reports whether there is nothing left to tell about a change.
func (k *Keeper) tellOne(ctx context.Context, u untold) bool {
	if u.Via == ViaEngine {
		k.noteDone(u)
	}
	if u.asked {
		told, err := k.told(ctx, u.guard.Incident, engine.EventMode, u.guard.Since.Add(-time.Second))
		if err != nil {
			k.c.Log.Warn("not known whether a rollback was told; trying again", "pool", u.Pool, "error", err)
			return false
		}
		if told {
			return true
		}
	}
	by := u.Actor
	if by == "" {
		by = unknownActor
	}
	return k.remark(ctx, engine.Remark{Kind: engine.EventMode, Pool: u.Pool, By: cut(by, 200), Words: words(u.Change)})
}

// words say why a mode was changed, and how to undo what the engine did.
func words(c Change) string {
	s := cut(c.Reason, maxWords-100)
	if c.Via == ViaEngine && c.To == admission.PassThrough {
		s = fmt.Sprintf("automatically, %s. To undo: headgate restore --pool %s", s, c.Pool)
	}
	return cut(s, maxWords)
}

func cut(s string, most int) string {
	for len(s) > most {
		s = s[:len(s)-1]
		for len(s) > 0 && s[len(s)-1]&0xC0 == 0x80 {
			s = s[:len(s)-1]
		}
		if len(s) > 0 && s[len(s)-1] >= 0xC0 {
			s = s[:len(s)-1]
		}
	}
	return s
}

// noteDone notes a flip that is recorded. One of another process is noted with
// what the record knows; it may be there already.
func (k *Keeper) noteDone(u untold) {
	k.mu.Lock()
	f, ok := k.flips[u.ID]
	delete(k.flips, u.ID)
	k.mu.Unlock()
	if !ok && !u.asked {
		return
	}
	var e Entry
	if ok {
		e = f.entry
	} else {
		e = Entry{
			ID: derived(u.ID, "flip"), At: u.At, Kind: KindDecision, Action: string(Rollback), Ending: Done, Pool: u.Pool, Subject: u.guard.Incident,
			Actor: engineActor, Via: ViaEngine, Reason: u.Reason, Inputs: map[string]string{"rule": u.guard.Rule, "known": "after a restart"},
		}
	}
	k.c.Audit.Note(e)
}

// sayUnrecorded tells people of flips that cannot be recorded: what they see of the
// pool is not what a restart would leave.
func (k *Keeper) sayUnrecorded(now time.Time, views []view) {
	if k.c.Unrecorded == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, v := range views {
		f := k.flips[v.Change]
		if f == nil || f.said || v.recorded || now.Sub(f.at) < unrecorded {
			continue
		}
		f.said = true
		k.c.Unrecorded(f.Change)
	}
}

// told says whether a remark of ours is recorded.
func (k *Keeper) told(ctx context.Context, incident string, kind engine.EventKind, since time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	return k.c.Journal.Told(ctx, incident, string(kind), engineActor, since)
}

// remark reports whether there is no use in trying again.
func (k *Keeper) remark(ctx context.Context, r engine.Remark) bool {
	ctx, cancel := context.WithTimeout(ctx, tellTime)
	defer cancel()
	_, err := k.watch.Remark(ctx, r)
	if err != nil && !errors.Is(err, engine.ErrRefused) {
		k.c.Log.Warn("a remark was not told; trying again", "kind", r.Kind, "pool", r.Pool, "error", err)
		return false
	}
	if err != nil {
		k.c.Log.Error("a remark cannot be told", "kind", r.Kind, "pool", r.Pool, "error", err)
	}
	return true
}
