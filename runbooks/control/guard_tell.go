package control

import (
	"context"
	"errors"
	"fmt"
	"time"

	"headgate/engine"
	"headgate/internal/format"
	"headgate/proxy/admission"
)

// announce has recorded changes told to those who follow the pool's incidents, and why
// no more rollbacks are made to those who follow the one that asks for it.
func (k *AutoRollback) announce(ctx context.Context) {
	for len(k.pendingAnnotations) > 0 && k.annotate(ctx, k.pendingAnnotations[0]) {
		k.pendingAnnotations = k.pendingAnnotations[1:]
	}
	for {
		k.mu.Lock()
		if len(k.unannounced) == 0 {
			k.mu.Unlock()
			return
		}
		u := k.unannounced[0]
		k.mu.Unlock()
		if !k.announceChange(ctx, u) {
			return // tried again at the next step
		}
		k.mu.Lock()
		k.unannounced = k.unannounced[1:]
		k.mu.Unlock()
	}
}

// announceChange reports whether there is nothing left to tell about a change.
func (k *AutoRollback) announceChange(ctx context.Context, u unannouncedChange) bool {
	if u.Via == ViaEngine {
		k.auditRollback(u)
	}
	if u.checkFirst {
		told, err := k.alreadyAnnounced(ctx, u.state.Incident, engine.EventMode, u.state.Since.Add(-time.Second))
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
	return k.annotate(ctx, engine.Annotation{Kind: engine.EventMode, Pool: u.Pool, By: format.TruncateBytes(by, 200), Text: announcementText(u.ModeChange)})
}

// announcementText say why a mode was changed, and how to undo what the engine did.
func announcementText(c ModeChange) string {
	s := format.TruncateBytes(c.Reason, maxAnnotation-100)
	if c.Via == ViaEngine && c.To == admission.PassThrough {
		s = fmt.Sprintf("automatically, %s. To undo: headgate restore --pool %s", s, c.Pool)
	}
	return format.TruncateBytes(s, maxAnnotation)
}

// auditRollback notes a flip that is recorded. One of another process is noted with
// what the record knows; it may be there already.
func (k *AutoRollback) auditRollback(u unannouncedChange) {
	k.mu.Lock()
	f, ok := k.unrecorded[u.ID]
	delete(k.unrecorded, u.ID)
	k.mu.Unlock()
	if !ok && !u.checkFirst {
		return
	}
	var e AuditEntry
	if ok {
		e = f.entry
	} else {
		e = AuditEntry{
			ID: derivedID(u.ID, "flip"), At: u.At, Kind: KindDecision, Action: string(Rollback), Result: Done, Pool: u.Pool, Subject: u.state.Incident,
			Actor: engineActor, Via: ViaEngine, Reason: u.Reason, Inputs: map[string]string{"rule": u.state.Rule, "known": "after a restart"},
		}
	}
	k.c.Audit.Append(e)
}

// warnUnrecorded tells people of flips that cannot be recorded: what they see of the
// pool is not what a restart would leave.
func (k *AutoRollback) warnUnrecorded(now time.Time, views []poolView) {
	if k.c.OnUnrecorded == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, v := range views {
		f := k.unrecorded[v.ChangeID]
		if f == nil || f.warned || v.recorded || now.Sub(f.at) < unrecordedGrace {
			continue
		}
		f.warned = true
		k.c.OnUnrecorded(f.ModeChange)
	}
}

// alreadyAnnounced says whether a remark of ours is recorded.
func (k *AutoRollback) alreadyAnnounced(ctx context.Context, incident string, kind engine.EventKind, since time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	return k.c.Journal.HasAnnotation(ctx, incident, string(kind), engineActor, since)
}

// annotate reports whether there is no use in trying again.
func (k *AutoRollback) annotate(ctx context.Context, r engine.Annotation) bool {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	_, err := k.rules.Annotate(ctx, r)
	if err != nil && !errors.Is(err, engine.ErrRefused) {
		k.c.Log.Warn("a remark was not told; trying again", "kind", r.Kind, "pool", r.Pool, "error", err)
		return false
	}
	if err != nil {
		k.c.Log.Error("a remark cannot be told", "kind", r.Kind, "pool", r.Pool, "error", err)
	}
	return true
}
