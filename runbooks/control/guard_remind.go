package control

import (
	"context"
	"time"

	"headgate/proxy/admission"
)

// reminderInterval is between two reminders of a pool in pass-through.
const reminderInterval = time.Hour

// Reminder says that a pool's gate is still out.
type Reminder struct {
	Pool        string
	ChangeID    string // ID of the change that took it out
	Hour        int    // from 1; with ModeChange it names the reminder
	At          time.Time
	Since       time.Time
	Actor       string
	Reason      string
	RestoreMode admission.Mode // what a restore returns to

	Workers, InFlight, Queued int
	Oldest                    time.Duration // age of the oldest waiting task
}

// sendReminders tells of every pool whose gate has been out for another hour.
func (k *AutoRollback) sendReminders(ctx context.Context, views []poolView) {
	if k.c.Remind == nil {
		return
	}
	now := k.c.Clock()
	for _, v := range views {
		hour := k.hoursInMode(now, v)
		// What is not recorded has no name that outlives a restart.
		if v.Mode != admission.PassThrough || hour < 1 || !v.recorded || v.ChangeID == "" || k.reminded[v.ChangeID] >= hour {
			continue
		}
		attempt, cancel := context.WithTimeout(ctx, notifyTimeout)
		err := k.c.Remind(attempt, newReminder(now, v, hour))
		cancel()
		if err != nil {
			k.c.Log.Warn("nobody was reminded of pass-through; trying again", "pool", v.Pool, "error", err)
			continue
		}
		k.reminded[v.ChangeID] = hour
	}
	k.pruneReminded(views)
}

// hoursInMode are the whole hours for which a pool has been in its mode.
func (k *AutoRollback) hoursInMode(now time.Time, v poolView) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	since, ok := k.modeSince[v.Pool]
	if !ok { // it was so at the start
		since = v.Since
	}
	return int(now.Sub(since) / reminderInterval)
}

func newReminder(now time.Time, v poolView, hour int) Reminder {
	return Reminder{
		Pool: v.Pool, ChangeID: v.ChangeID, Hour: hour, At: now, Since: v.Since, Actor: v.Actor, Reason: v.Reason, RestoreMode: v.RestoreMode,
		Workers: v.gate.Workers, InFlight: v.gate.InFlight, Queued: v.gate.Depth, Oldest: v.gate.OldestAge,
	}
}

// pruneReminded keeps what is remembered as small as the number of pools.
func (k *AutoRollback) pruneReminded(views []poolView) {
	for change := range k.reminded {
		there := false
		for _, v := range views {
			there = there || v.ChangeID == change
		}
		if !there {
			delete(k.reminded, change)
		}
	}
}

// save records the guards that have changed. A flip is not saved before the change
// itself is: after a restart the guard would know of a rollback that is forgotten.
func (k *AutoRollback) save(ctx context.Context) {
	now := k.c.Clock()
	if now.Before(k.saveRetryAt) {
		return
	}
	for _, g := range k.unsavedStates() {
		attempt, cancel := context.WithTimeout(ctx, notifyTimeout)
		err := k.c.Journal.SaveRollbackState(attempt, g)
		cancel()
		if err != nil {
			k.c.Metrics.countError("record_guard")
			k.c.Log.Error("the state of automatic rollback is not recorded; trying again", "pool", g.Pool, "error", err)
			k.saveRetryAt = now.Add(saveRetryInterval)
			return
		}
		k.markSaved(g)
	}
}

// unsavedStates returns the guards to save.
func (k *AutoRollback) unsavedStates() []RollbackState {
	recorded := make(map[string]bool)
	for _, v := range k.c.Controller.poolViews(time.Now()) {
		recorded[v.Pool] = v.recorded
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []RollbackState
	for pool := range k.machine.dirty {
		if recorded[pool] {
			g := *k.machine.pools[pool]
			g.Rollbacks = append([]time.Time(nil), g.Rollbacks...)
			all = append(all, g)
		}
	}
	return all
}

// markSaved notes that a guard is recorded, unless it has changed meanwhile.
func (k *AutoRollback) markSaved(g RollbackState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.machine.pools[g.Pool]
	if now.Phase == g.Phase && now.Since.Equal(g.Since) && now.ChangeID == g.ChangeID && now.HoldUntil.Equal(g.HoldUntil) {
		delete(k.machine.dirty, g.Pool)
	}
}
