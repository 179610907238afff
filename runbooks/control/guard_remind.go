package control

import (
	"context"
	"time"

	"headgate/proxy/admission"
)

// remindEvery is between two reminders of a pool in pass-through.
const remindEvery = time.Hour

// Reminder says that a pool's gate is still out.
type Reminder struct {
	Pool   string
	Change string // ID of the change that took it out
	Hour   int    // from 1; with Change it names the reminder
	At     time.Time
	Since  time.Time
	By     string
	Reason string
	Before admission.Mode // what a restore returns to

	Workers, InFlight, Queued int
	Oldest                    time.Duration // age of the oldest waiting task
}

// remind tells of every pool whose gate has been out for another hour.
func (k *Keeper) remind(ctx context.Context, views []view) {
	if k.c.Remind == nil {
		return
	}
	now := k.c.Clock()
	for _, v := range views {
		hour := k.hours(now, v)
		// What is not recorded has no name that outlives a restart.
		if v.Mode != admission.PassThrough || hour < 1 || !v.recorded || v.Change == "" || k.reminded[v.Change] >= hour {
			continue
		}
		attempt, cancel := context.WithTimeout(ctx, tellTime)
		err := k.c.Remind(attempt, reminder(now, v, hour))
		cancel()
		if err != nil {
			k.c.Log.Warn("nobody was reminded of pass-through; trying again", "pool", v.Pool, "error", err)
			continue
		}
		k.reminded[v.Change] = hour
	}
	k.forgetReminded(views)
}

// hours are the whole hours for which a pool has been in its mode.
func (k *Keeper) hours(now time.Time, v view) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	since, ok := k.since[v.Pool]
	if !ok { // it was so at the start
		since = v.Since
	}
	return int(now.Sub(since) / remindEvery)
}

func reminder(now time.Time, v view, hour int) Reminder {
	return Reminder{
		Pool: v.Pool, Change: v.Change, Hour: hour, At: now, Since: v.Since, By: v.By, Reason: v.Reason, Before: v.Before,
		Workers: v.gate.Workers, InFlight: v.gate.InFlight, Queued: v.gate.Depth, Oldest: v.gate.Oldest,
	}
}

// forgetReminded keeps what is remembered as small as the number of pools.
func (k *Keeper) forgetReminded(views []view) {
	for change := range k.reminded {
		there := false
		for _, v := range views {
			there = there || v.Change == change
		}
		if !there {
			delete(k.reminded, change)
		}
	}
}

// save records the guards that have changed. A flip is not saved before the change
// itself is: after a restart the guard would know of a rollback that is forgotten.
func (k *Keeper) save(ctx context.Context) {
	now := k.c.Clock()
	if now.Before(k.retryAt) {
		return
	}
	for _, g := range k.unsaved() {
		attempt, cancel := context.WithTimeout(ctx, tellTime)
		err := k.c.Journal.SaveGuard(attempt, g)
		cancel()
		if err != nil {
			k.c.Metrics.failed("record_guard")
			k.c.Log.Error("the state of automatic rollback is not recorded; trying again", "pool", g.Pool, "error", err)
			k.retryAt = now.Add(saveEvery)
			return
		}
		k.saved(g)
	}
}

// unsaved returns the guards to save.
func (k *Keeper) unsaved() []Guard {
	recorded := make(map[string]bool)
	for _, v := range k.c.Modes.views(time.Now()) {
		recorded[v.Pool] = v.recorded
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	var all []Guard
	for pool := range k.m.dirty {
		if recorded[pool] {
			g := *k.m.pools[pool]
			g.Flips = append([]time.Time(nil), g.Flips...)
			all = append(all, g)
		}
	}
	return all
}

// saved notes that a guard is recorded, unless it has changed meanwhile.
func (k *Keeper) saved(g Guard) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.m.pools[g.Pool]
	if now.State == g.State && now.Since.Equal(g.Since) && now.Change == g.Change && now.LatchedUntil.Equal(g.LatchedUntil) {
		delete(k.m.dirty, g.Pool)
	}
}
