package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"

	"headgate/engine"
	"headgate/internal/format"
	"headgate/proxy/admission"
)

const (
	evaluateInterval      = time.Second
	intentTimeout         = 500 * time.Millisecond // for the intent to be recorded; a full disk must not stop a rollback
	notifyTimeout         = 2 * time.Second        // for one notification
	saveRetryInterval     = 5 * time.Second        // between attempts to save while they fail
	unrecordedGrace       = 10 * time.Second       // after which people are notified of a rollback that is not recorded
	reminderInterval      = time.Hour              // between two reminders of a pool in passthrough
	maxPendingAnnotations = 100                    // annotations to deliver
	maxUnannounced        = 1000                   // changes to announce
	maxAudited            = 10_000                 // decisions remembered as audited
	engineActor           = "engine"
)

// RuleEngine is the part of the engine that AutoRollback uses.
type RuleEngine interface {
	Incidents() []engine.Incident
	States() []engine.RuleStatus
	Annotate(context.Context, engine.Annotation) ([]engine.Incident, error)
}

// AutoRollbackConfig is what an AutoRollback is made of. All of it is required but for Remind, OnUnrecorded and Clock.
type AutoRollbackConfig struct {
	Settings   AutoRollbackSettings
	Controller *Controller
	Journal    RollbackStore
	Audit      AuditSink
	Log        *slog.Logger
	Metrics    *Metrics
	// Remind delivers a reminder, once for each change and hour. Nil: there are no reminders.
	Remind func(context.Context, Reminder) error
	// OnUnrecorded notifies people of a rollback that cannot be recorded, without needing a disk. It is called once for
	// each, and does not block. Nil: they are notified once it is recorded.
	OnUnrecorded func(ModeChange)
	// Clock is the wall clock of the start plus monotonic time. Nil: such a clock is made.
	Clock func() time.Time
}

// AutoRollback runs the automatic rollback of all pools, announces changes of mode in the threads of incidents, and
// reminds people of pools in passthrough. All methods but Run may be called from any goroutine; none of them waits.
type AutoRollback struct {
	c     AutoRollbackConfig
	wake  chan struct{} // holds one
	rules RuleEngine    // of Run
	// pendingAnnotations are about withheld rollbacks. Only Run uses it.
	pendingAnnotations []engine.Annotation

	mu          sync.Mutex
	machine     *rollbackMachine
	unannounced []unannouncedChange
	audited     map[string]bool                // decisions that are in the audit
	unrecorded  map[string]*unrecordedRollback // by change
	modeSince   map[string]time.Time           // by pool, by the AutoRollback's clock
	reminded    map[string]int                 // hours in passthrough already reminded of, by change
	saveRetryAt time.Time
}

// unannouncedChange is a recorded change that was not announced.
type unannouncedChange struct {
	ModeChange
	checkFirst bool // it is of an earlier process, which may have announced it
	state      RollbackState
}

// unrecordedRollback is a rollback of ours that is not recorded yet.
type unrecordedRollback struct {
	ModeChange
	entry  AuditEntry // for when it is
	at     time.Time  // by the AutoRollback's clock
	warned bool       // OnUnrecorded was called
}

// NewAutoRollback returns an AutoRollback that does nothing yet. Its OnApplied and OnRecorded belong into the
// Controller's Config.
func NewAutoRollback(c AutoRollbackConfig) (*AutoRollback, error) {
	if err := c.Settings.Validate(); err != nil {
		return nil, fmt.Errorf("automatic rollback: %w", err)
	}
	if c.Journal == nil || c.Audit == nil || c.Log == nil || c.Metrics == nil {
		return nil, errors.New("automatic rollback needs a journal, an audit, a log and metrics")
	}
	if c.Clock == nil {
		start := time.Now()
		c.Clock = func() time.Time { return start.Round(0).Add(time.Since(start)) }
	}
	return &AutoRollback{
		c: c, wake: make(chan struct{}, 1), machine: newRollbackMachine(c.Settings), audited: make(map[string]bool),
		unrecorded: make(map[string]*unrecordedRollback), modeSince: make(map[string]time.Time), reminded: make(map[string]int),
	}, nil
}

// Load reads the recorded states, and decides what became of a rollback that an earlier process was about to make. Call
// it once, after the Controller has its pools.
func (k *AutoRollback) Load(ctx context.Context, modes *Controller) error {
	saved, err := k.c.Journal.RollbackStates(ctx)
	if err != nil {
		return fmt.Errorf("read the states of automatic rollback from the journal: %w", err)
	}
	views, now := modes.poolViews(time.Now()), k.c.Clock()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.c.Controller = modes
	byPool := make(map[string]RollbackState)
	for _, g := range saved {
		byPool[g.Pool] = g
		k.machine.reconcile(now, g, ModeState{Pool: g.Pool}) // it may come with a reload
	}
	for _, v := range views {
		g, ok := byPool[v.Pool]
		if !ok {
			g = RollbackState{Pool: v.Pool, Phase: Armed, Since: now}
		}
		k.machine.reconcile(now, g, v.ModeState)
		if g := k.machine.state(now, v.Pool); g.Phase == RolledBack {
			k.unannounced = append(k.unannounced, unannouncedChange{ModeChange: changeFromState(v.ModeState), checkFirst: true, state: *g})
		}
	}
	return nil
}

// changeFromState returns what a state says of the change that led to it.
func changeFromState(s ModeState) ModeChange {
	return ModeChange{ID: s.ChangeID, At: s.Since, Pool: s.Pool, Action: Rollback, From: s.RestoreMode, To: s.Mode, Actor: s.Actor, Via: s.Via, Reason: s.Reason}
}

// Configure replaces the settings.
func (k *AutoRollback) Configure(c AutoRollbackSettings) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.machine.c = c
}

// OnApplied is the Controller's OnApplied.
func (k *AutoRollback) OnApplied(c ModeChange) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.machine.modeChanged(k.c.Clock(), c)
	if c.To != c.From {
		k.modeSince[c.Pool] = k.c.Clock()
	}
	k.Wake()
}

// OnRecorded is the Controller's OnRecorded: only changes that survive a restart are announced.
func (k *AutoRollback) OnRecorded(changes []ModeChange) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range changes {
		if c.Action != InitialMode && c.From != c.To && len(k.unannounced) < maxUnannounced {
			k.unannounced = append(k.unannounced, unannouncedChange{ModeChange: c, state: *k.machine.state(k.c.Clock(), c.Pool)})
		}
	}
	k.Wake()
}

// Wake makes Run evaluate at once.
func (k *AutoRollback) Wake() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// State returns the state of a pool's automatic rollback, and how many rollbacks count for the daily limit.
func (k *AutoRollback) State(pool string) (g RollbackState, recent int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.c.Clock()
	g = *k.machine.state(now, pool)
	return g, g.recentRollbacks(now)
}

// Status returns the same for people, with what caused the rollback of a pool, or prevents one.
func (k *AutoRollback) Status(pool string) *AutoRollbackStatus {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.c.Clock()
	g := k.machine.state(now, pool)
	s := &AutoRollbackStatus{State: g.Phase, RollbacksToday: g.recentRollbacks(now), Reason: k.machine.prevented(now, g).why}
	if g.Phase == RolledBack || g.Phase == RollingBack {
		s.Reason = "rule " + g.Rule
	}
	if now.Before(g.HoldUntil) {
		s.HoldUntil = g.HoldUntil
	}
	return s
}

// Run evaluates, announces and reminds until ctx ends.
func (k *AutoRollback) Run(ctx context.Context, w RuleEngine) {
	k.rules = w
	tick := time.NewTicker(evaluateInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-k.wake:
		}
		k.tick(ctx)
	}
}

func (k *AutoRollback) tick(ctx context.Context) {
	now, views := k.c.Clock(), k.c.Controller.poolViews(time.Now())
	k.mu.Lock()
	k.machine.expire(now)
	k.mu.Unlock()
	k.evaluate(ctx, views)
	k.announce(ctx)
	k.warnUnrecorded(now, views)
	k.sendReminders(ctx, views)
	k.save(ctx)
}

// evaluate decides about every trigger in every pool that it concerns.
func (k *AutoRollback) evaluate(ctx context.Context, views []poolView) {
	for _, t := range rollbackTriggers(k.rules) {
		for _, v := range views {
			if t.Key.Pool == "" || v.Pool == t.Key.Pool { // one of the process concerns every pool
				k.decide(ctx, v, t)
			}
		}
	}
}

// rollbackTriggers returns the open incidents at level page whose rule, as it is now, has the action rollback.
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

// decide rolls a pool back, or audits why it does not.
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

// rollBack sets a pool to passthrough: the intent is recorded, then the change is applied, read back, recorded, and only
// then announced (see the package's documentation).
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
		k.c.Log.Error("rollback intent not recorded, rolling back anyway", "pool", g.Pool, "error", err)
	}
}

// trackUnrecorded keeps the audit entry of a rollback until its change is recorded; see announceChange.
func (k *AutoRollback) trackUnrecorded(c ModeChange, incident string, in map[string]string) {
	k.unrecorded[c.ID] = &unrecordedRollback{ModeChange: c, at: k.c.Clock(), entry: rollbackEntry(c, incident, in)}
}

func rollbackEntry(c ModeChange, incident string, in map[string]string) AuditEntry {
	return AuditEntry{
		ID: derivedID(c.ID, "flip"), At: c.At, Kind: KindDecision, Action: ActionRollback, Result: Done, Pool: c.Pool, Subject: incident,
		Actor: engineActor, Via: ViaEngine, Reason: c.Reason, Inputs: in,
	}
}

// recordFailure audits a rollback that was decided and failed, once for each incident.
func (k *AutoRollback) recordFailure(v poolView, t rollbackTrigger, in map[string]string, err error) {
	result := Failed
	if errors.Is(err, ErrModeMismatch) {
		result = Withheld // the mode was changed in the meantime
	}
	k.c.Log.Error("automatic rollback failed", "pool", v.Pool, "rule", t.Key.Rule, "error", err)
	k.auditOnce(v.Pool, t, string(result), result, err.Error(), in)
}

// recordWithheld audits why a rollback was withheld, once for each incident and reason. That the daily limit is reached
// is announced, too.
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

// auditOnce audits a decision unless that was done. Its ID follows from what it is about, so that another process that
// decides the same adds nothing.
func (k *AutoRollback) auditOnce(pool string, t rollbackTrigger, word string, result AuditResult, why string, in map[string]string) (fresh bool) {
	id := derivedID(t.ID, pool+" "+word)
	if k.audited[id] {
		return false
	}
	if len(k.audited) >= maxAudited {
		clear(k.audited) // an entry that exists is not recorded again
	}
	k.audited[id] = true
	k.c.Audit.Append(AuditEntry{
		ID: id, At: k.c.Clock(), Kind: KindDecision, Action: string(Rollback), Result: result, Pool: pool, Subject: t.ID,
		Actor: engineActor, Via: ViaEngine, Reason: why, Inputs: in,
	})
	return true
}

// derivedID returns the ID of the only entry of a kind about something.
func derivedID(id, word string) string { return uuid.NewSHA1(uuid.Nil, []byte(id+" "+word)).String() }

// announce annotates the pool's incidents with recorded changes, and the triggering incident with why a rollback was
// withheld.
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
			return // retried at the next step
		}
		k.mu.Lock()
		k.unannounced = k.unannounced[1:]
		k.mu.Unlock()
	}
}

// announceChange reports whether a change needs no further announcement.
func (k *AutoRollback) announceChange(ctx context.Context, u unannouncedChange) bool {
	if u.Via == ViaEngine {
		k.auditRollback(u)
	}
	if u.checkFirst {
		told, err := k.alreadyAnnounced(ctx, u.state.Incident, engine.EventMode, u.state.Since.Add(-time.Second))
		if err != nil {
			k.c.Log.Warn("rollback announcement not looked up, retrying", "pool", u.Pool, "error", err)
			return false
		}
		if told {
			return true
		}
	}
	by := format.TruncateBytes(cmp.Or(u.Actor, "unknown"), 200)
	return k.annotate(ctx, engine.Annotation{Kind: engine.EventMode, Pool: u.Pool, By: by, Text: announcementText(u.ModeChange)})
}

// announcementText says why a mode was changed, and how to undo an automatic rollback.
func announcementText(c ModeChange) string {
	s := format.TruncateBytes(c.Reason, maxAnnotation-100)
	if c.Via == ViaEngine && c.To == admission.PassThrough {
		s = fmt.Sprintf("automatically, %s. To undo: headgate restore --pool %s", s, c.Pool)
	}
	return format.TruncateBytes(s, maxAnnotation)
}

// auditRollback audits a rollback whose change is recorded. One of an earlier process is audited with what the record
// knows; the entry may exist already.
func (k *AutoRollback) auditRollback(u unannouncedChange) {
	k.mu.Lock()
	f, ok := k.unrecorded[u.ID]
	delete(k.unrecorded, u.ID)
	k.mu.Unlock()
	if !ok && !u.checkFirst {
		return
	}
	if !ok {
		f = &unrecordedRollback{entry: rollbackEntry(u.ModeChange, u.state.Incident, map[string]string{"rule": u.state.Rule, "known": "after a restart"})}
	}
	k.c.Audit.Append(f.entry)
}

// warnUnrecorded notifies people of rollbacks that cannot be recorded: a restart would undo them.
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

// alreadyAnnounced says whether an annotation by the engine is recorded.
func (k *AutoRollback) alreadyAnnounced(ctx context.Context, incident string, kind engine.EventKind, since time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	return k.c.Journal.HasAnnotation(ctx, incident, string(kind), engineActor, since)
}

// annotate reports whether there is no point in retrying.
func (k *AutoRollback) annotate(ctx context.Context, r engine.Annotation) bool {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	_, err := k.rules.Annotate(ctx, r)
	if err != nil && !errors.Is(err, engine.ErrRefused) {
		k.c.Log.Warn("annotation not delivered, retrying", "kind", r.Kind, "pool", r.Pool, "error", err)
		return false
	}
	if err != nil {
		k.c.Log.Error("annotation refused", "kind", r.Kind, "pool", r.Pool, "error", err)
	}
	return true
}

// Reminder says that a pool is still in passthrough.
type Reminder struct {
	ModeState
	Hour int // from 1; with ChangeID it identifies the reminder
	At   time.Time
	Gate admission.Snapshot
}

// String says since when, by whom, why, and what the queue does.
func (r Reminder) String() string {
	s := fmt.Sprintf("Pool %s has been in passthrough for %s, since %s by %s", r.Pool, time.Duration(r.Hour)*time.Hour, format.Time(r.Since), r.Actor)
	if r.Reason != "" {
		s += " (" + r.Reason + ")"
	}
	s += fmt.Sprintf(". Nothing is refused meanwhile: %d queued, the oldest for %s; %d of %d in flight. To re-enable admission control: headgate restore --pool %s",
		r.Gate.Depth, r.Gate.OldestAge.Round(time.Second), r.Gate.InFlight, r.Gate.Workers, r.Pool)
	if r.RestoreMode == admission.Observe {
		s += " (to observe, the previous mode)"
	}
	return s
}

// sendReminders reminds of every pool that has been in passthrough for another hour.
func (k *AutoRollback) sendReminders(ctx context.Context, views []poolView) {
	if k.c.Remind == nil {
		return
	}
	now := k.c.Clock()
	for _, v := range views {
		hour := k.hoursInMode(now, v)
		// A change that is not recorded has no ID that survives a restart.
		if v.Mode != admission.PassThrough || hour < 1 || !v.recorded || v.ChangeID == "" || k.reminded[v.ChangeID] >= hour {
			continue
		}
		attempt, cancel := context.WithTimeout(ctx, notifyTimeout)
		err := k.c.Remind(attempt, Reminder{ModeState: v.ModeState, Hour: hour, At: now, Gate: v.gate})
		cancel()
		if err != nil {
			k.c.Log.Warn("passthrough reminder not sent, retrying", "pool", v.Pool, "error", err)
			continue
		}
		k.reminded[v.ChangeID] = hour
	}
	maps.DeleteFunc(k.reminded, func(change string, _ int) bool {
		return !slices.ContainsFunc(views, func(v poolView) bool { return v.ChangeID == change })
	})
}

// hoursInMode are the whole hours for which a pool has been in its mode.
func (k *AutoRollback) hoursInMode(now time.Time, v poolView) int {
	k.mu.Lock()
	defer k.mu.Unlock()
	since, ok := k.modeSince[v.Pool]
	if !ok { // since before the start
		since = v.Since
	}
	return int(now.Sub(since) / reminderInterval)
}

// save records the states that have changed. A rollback is not saved before its change is recorded: after a restart the
// state would tell of a rollback that is forgotten.
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
			k.c.Log.Error("automatic rollback state not recorded, retrying", "pool", g.Pool, "error", err)
			k.saveRetryAt = now.Add(saveRetryInterval)
			return
		}
		k.markSaved(g)
	}
}

// unsavedStates returns the states to save.
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
			g.Rollbacks = slices.Clone(g.Rollbacks)
			all = append(all, g)
		}
	}
	return all
}

// markSaved marks a state as recorded, unless it has changed in the meantime.
func (k *AutoRollback) markSaved(g RollbackState) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.machine.pools[g.Pool]
	if now.Phase == g.Phase && now.Since.Equal(g.Since) && now.ChangeID == g.ChangeID && now.HoldUntil.Equal(g.HoldUntil) {
		delete(k.machine.dirty, g.Pool)
	}
}

// UnrecordedRollbackText is the message about an automatic rollback that the record does not take.
func (c ModeChange) UnrecordedRollbackText() string {
	return fmt.Sprintf("Pool %s was rolled back automatically at %s: %s. The change cannot be recorded: a restart would lose it and "+
		"re-enable admission control. To restore by hand: headgate restore --pool %s", c.Pool, format.Time(c.At), c.Reason, c.Pool)
}
