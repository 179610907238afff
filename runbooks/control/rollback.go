package control

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
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
		c: c, wake: make(chan struct{}, 1), machine: newRollbackMachine(c.Settings),
		audited: make(map[string]bool), unrecorded: make(map[string]*unrecordedRollback),
		modeSince: make(map[string]time.Time), reminded: make(map[string]int),
	}, nil
}

// Load reads the recorded states, and decides what became of a rollback that an earlier process was about to make. Call
// it once, after the Controller has its pools.
func (a *AutoRollback) Load(ctx context.Context, modes *Controller) error {
	saved, err := a.c.Journal.RollbackStates(ctx)
	if err != nil {
		return fmt.Errorf("read the states of automatic rollback from the journal: %w", err)
	}
	views, now := modes.poolViews(time.Now()), a.c.Clock()
	a.mu.Lock()
	defer a.mu.Unlock()
	a.c.Controller = modes
	byPool := make(map[string]RollbackState)
	for _, state := range saved {
		byPool[state.Pool] = state
		a.machine.reconcile(now, state, ModeState{Pool: state.Pool}) // it may come with a reload
	}
	for _, v := range views {
		state, ok := byPool[v.Pool]
		if !ok {
			state = RollbackState{Pool: v.Pool, Phase: Armed, Since: now}
		}
		a.machine.reconcile(now, state, v.ModeState)
		if state := a.machine.state(now, v.Pool); state.Phase == RolledBack {
			a.unannounced = append(a.unannounced, unannouncedChange{changeFromState(v.ModeState), true, *state})
		}
	}
	return nil
}

// changeFromState returns what a state says of the change that led to it.
func changeFromState(s ModeState) ModeChange {
	return ModeChange{
		ID: s.ChangeID, At: s.Since, Pool: s.Pool, Action: Rollback, From: s.RestoreMode, To: s.Mode,
		Actor: s.Actor, Via: s.Via, Reason: s.Reason,
	}
}

// Configure replaces the settings.
func (a *AutoRollback) Configure(c AutoRollbackSettings) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.machine.c = c
}

// OnApplied is the Controller's OnApplied.
func (a *AutoRollback) OnApplied(c ModeChange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.machine.modeChanged(a.c.Clock(), c)
	if c.To != c.From {
		a.modeSince[c.Pool] = a.c.Clock()
	}
	a.Wake()
}

// OnRecorded is the Controller's OnRecorded: only changes that survive a restart are announced.
func (a *AutoRollback) OnRecorded(changes []ModeChange) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range changes {
		if c.Action != InitialMode && c.From != c.To && len(a.unannounced) < maxUnannounced {
			a.unannounced = append(a.unannounced, unannouncedChange{c, false, *a.machine.state(a.c.Clock(), c.Pool)})
		}
	}
	a.Wake()
}

// Wake makes Run evaluate at once.
func (a *AutoRollback) Wake() {
	select {
	case a.wake <- struct{}{}:
	default:
	}
}

// State returns the state of a pool's automatic rollback, and how many rollbacks count for the daily limit.
func (a *AutoRollback) State(pool string) (state RollbackState, recent int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.c.Clock()
	state = *a.machine.state(now, pool)
	return state, state.recentRollbacks(now)
}

// Status returns the same for people, with what caused the rollback of a pool, or prevents one.
func (a *AutoRollback) Status(pool string) *AutoRollbackStatus {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.c.Clock()
	state := a.machine.state(now, pool)
	s := &AutoRollbackStatus{State: state.Phase, RollbacksToday: state.recentRollbacks(now)}
	s.Reason = a.machine.prevented(now, state).why
	if state.Phase == RolledBack || state.Phase == RollingBack {
		s.Reason = "rule " + state.Rule
	}
	if now.Before(state.HoldUntil) {
		s.HoldUntil = state.HoldUntil
	}
	return s
}

// Run evaluates, announces and reminds until ctx ends.
func (a *AutoRollback) Run(ctx context.Context, rules RuleEngine) {
	a.rules = rules
	tick := time.NewTicker(evaluateInterval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-a.wake:
		}
		a.tick(ctx)
	}
}

func (a *AutoRollback) tick(ctx context.Context) {
	now, views := a.c.Clock(), a.c.Controller.poolViews(time.Now())
	a.mu.Lock()
	a.machine.expire(now)
	a.mu.Unlock()
	a.evaluate(ctx, views)
	a.announce(ctx)
	a.warnUnrecorded(now, views)
	a.sendReminders(ctx, views)
	a.save(ctx)
}

// evaluate decides about every trigger in every pool that it concerns.
func (a *AutoRollback) evaluate(ctx context.Context, views []poolView) {
	for _, t := range rollbackTriggers(a.rules) {
		for _, v := range views {
			if t.Key.Pool == "" || v.Pool == t.Key.Pool { // one of the process concerns every pool
				a.decide(ctx, v, t)
			}
		}
	}
}

// rollbackTriggers returns the open incidents at level page whose rule, as it is now, has the action rollback.
func rollbackTriggers(rules RuleEngine) []rollbackTrigger {
	states := make(map[engine.Key]engine.RuleStatus)
	for _, s := range rules.States() {
		states[s.Rule.Key()] = s
	}
	var all []rollbackTrigger
	for _, inc := range rules.Incidents() {
		s, ok := states[inc.Key]
		if ok && inc.Open() && inc.Level == engine.LevelPage &&
			s.Rule.Action == string(Rollback) && s.State.Phase == engine.Firing {
			all = append(all, rollbackTrigger{inc, s.Value, s.Rule.Page.At, s.State.PageFor})
		}
	}
	return all
}

// decide rolls a pool back, or audits why it does not.
func (a *AutoRollback) decide(ctx context.Context, v poolView, t rollbackTrigger) {
	now := a.c.Clock()
	a.mu.Lock()
	d, in := a.machine.decide(now, v, t), a.machine.decisionInputs(now, v, t)
	a.mu.Unlock()
	switch {
	case d.rollBack:
		a.rollBack(ctx, v, t, in)
	case d.withheld != "":
		a.recordWithheld(ctx, v, t, d, in)
	}
}

// rollBack sets a pool to passthrough: the intent is recorded, then the change is applied, read back, recorded, and
// only then announced (see the package's documentation).
func (a *AutoRollback) rollBack(ctx context.Context, v poolView, t rollbackTrigger, in map[string]string) {
	a.mu.Lock()
	intent := a.machine.beginRollback(a.c.Clock(), v.Pool, t)
	a.mu.Unlock()
	_ = a.saveState(ctx, intent, intentTimeout, "rollback intent not recorded, rolling back anyway")
	reason := fmt.Sprintf("rule %s: %s %s, its limit is %s", t.Key.Rule, in["value"], t.Unit, in["threshold"])
	mode := v.gate.Mode
	changes, err := a.c.Controller.apply(time.Now(), ModeRequest{
		Action: Rollback, Pool: v.Pool, Expected: &mode, Actor: engineActor, Via: ViaEngine, Reason: reason,
	}, 0)
	applied, known := a.c.Controller.mode(v.Pool)
	now := a.c.Clock()
	a.mu.Lock()
	defer a.mu.Unlock()
	took := known && applied == admission.PassThrough
	if err == nil && !took && a.machine.state(now, v.Pool).Phase == RolledBack {
		err = fmt.Errorf("the gate was set to passthrough and is in %s", applied)
	}
	if err != nil {
		a.machine.setPhase(a.machine.state(now, v.Pool), now, Armed)
		a.recordFailure(v, t, in, err)
		return
	}
	a.c.Log.Warn("rolled back automatically", "pool", v.Pool, "rule", t.Key.Rule, "incident", t.ID, "value", in["value"])
	// Its audit entry waits until the change is recorded; see announceChange.
	c := changes[0]
	a.unrecorded[c.ID] = &unrecordedRollback{ModeChange: c, at: now, entry: rollbackEntry(c, t.ID, in)}
}

func (a *AutoRollback) saveState(ctx context.Context, state RollbackState, limit time.Duration, failed string) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := a.c.Journal.SaveRollbackState(ctx, state)
	if err != nil {
		a.c.Metrics.countError("record_guard")
		a.c.Log.Error(failed, "pool", state.Pool, "error", err)
	}
	return err
}

func rollbackEntry(c ModeChange, incident string, in map[string]string) AuditEntry {
	return AuditEntry{
		ID: derivedID(c.ID, "flip"), At: c.At, Kind: KindDecision, Action: ActionRollback, Result: Done,
		Pool: c.Pool, Subject: incident, Actor: engineActor, Via: ViaEngine, Reason: c.Reason, Inputs: in,
	}
}

// recordFailure audits a rollback that was decided and failed, once for each incident.
func (a *AutoRollback) recordFailure(v poolView, t rollbackTrigger, in map[string]string, err error) {
	result := Failed
	if errors.Is(err, ErrModeMismatch) {
		result = Withheld // the mode was changed in the meantime
	}
	a.c.Log.Error("automatic rollback failed", "pool", v.Pool, "rule", t.Key.Rule, "error", err)
	a.auditOnce(v.Pool, t, string(result), result, err.Error(), in)
}

// recordWithheld audits why a rollback was withheld, once for each incident and reason. That the daily limit is reached
// is announced, too.
func (a *AutoRollback) recordWithheld(
	ctx context.Context, v poolView, t rollbackTrigger, d decision, in map[string]string,
) {
	a.mu.Lock()
	fresh := a.auditOnce(v.Pool, t, d.withheld, Withheld, d.why, in)
	a.mu.Unlock()
	if !fresh {
		return
	}
	a.c.Log.Warn("automatic rollback withheld", "pool", v.Pool, "rule", t.Key.Rule, "incident", t.ID, "why", d.why)
	if d.withheld != withheldDailyLimit {
		return
	}
	if announced, err := a.alreadyAnnounced(ctx, t.ID, engine.EventNote, t.Opened); err == nil && announced {
		return
	}
	latest := a.pendingAnnotations[max(0, len(a.pendingAnnotations)-maxPendingAnnotations+1):]
	a.pendingAnnotations = append(latest, engine.Annotation{
		Kind: engine.EventNote, Incident: t.ID, By: engineActor,
		Text: "Not rolled back automatically: " + d.why + ". To do it by hand: headgate rollback --pool " + v.Pool,
	})
}

// auditOnce audits a decision unless that was done. Its ID follows from what it is about, so that another process that
// decides the same adds nothing.
func (a *AutoRollback) auditOnce(
	pool string, t rollbackTrigger, word string, result AuditResult, why string, in map[string]string,
) (fresh bool) {
	id := derivedID(t.ID, pool+" "+word)
	if a.audited[id] {
		return false
	}
	if len(a.audited) >= maxAudited {
		clear(a.audited) // an entry that exists is not recorded again
	}
	a.audited[id] = true
	a.c.Audit.Append(AuditEntry{
		ID: id, At: a.c.Clock(), Kind: KindDecision, Action: string(Rollback), Result: result, Pool: pool, Subject: t.ID,
		Actor: engineActor, Via: ViaEngine, Reason: why, Inputs: in,
	})
	return true
}

// derivedID returns the ID of the only entry of a kind about something.
func derivedID(id, word string) string { return uuid.NewSHA1(uuid.Nil, []byte(id+" "+word)).String() }

// announce annotates the pool's incidents with recorded changes, and the triggering incident with why a rollback was
// withheld.
func (a *AutoRollback) announce(ctx context.Context) {
	for len(a.pendingAnnotations) > 0 && a.annotate(ctx, a.pendingAnnotations[0]) {
		a.pendingAnnotations = a.pendingAnnotations[1:]
	}
	for {
		a.mu.Lock()
		if len(a.unannounced) == 0 {
			a.mu.Unlock()
			return
		}
		u := a.unannounced[0]
		a.mu.Unlock()
		if !a.announceChange(ctx, u) {
			return // retried at the next step
		}
		a.mu.Lock()
		a.unannounced = a.unannounced[1:]
		a.mu.Unlock()
	}
}

// announceChange reports whether a change needs no further announcement.
func (a *AutoRollback) announceChange(ctx context.Context, u unannouncedChange) bool {
	if u.Via == ViaEngine {
		a.auditRollback(u)
	}
	if u.checkFirst {
		since := u.state.Since.Add(-time.Second)
		announced, err := a.alreadyAnnounced(ctx, u.state.Incident, engine.EventMode, since)
		if err != nil {
			a.c.Log.Warn("rollback announcement not looked up, retrying", "pool", u.Pool, "error", err)
			return false
		}
		if announced {
			return true
		}
	}
	by := format.TruncateBytes(cmp.Or(u.Actor, "unknown"), 200)
	text := announcementText(u.ModeChange)
	return a.annotate(ctx, engine.Annotation{Kind: engine.EventMode, Pool: u.Pool, By: by, Text: text})
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
func (a *AutoRollback) auditRollback(u unannouncedChange) {
	a.mu.Lock()
	f, ok := a.unrecorded[u.ID]
	delete(a.unrecorded, u.ID)
	a.mu.Unlock()
	switch {
	case ok:
		a.c.Audit.Append(f.entry)
	case u.checkFirst:
		in := map[string]string{"rule": u.state.Rule, "known": "after a restart"}
		a.c.Audit.Append(rollbackEntry(u.ModeChange, u.state.Incident, in))
	}
}

// warnUnrecorded notifies people of rollbacks that cannot be recorded: a restart would undo them.
func (a *AutoRollback) warnUnrecorded(now time.Time, views []poolView) {
	if a.c.OnUnrecorded == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, v := range views {
		f := a.unrecorded[v.ChangeID]
		if f == nil || f.warned || v.recorded || now.Sub(f.at) < unrecordedGrace {
			continue
		}
		f.warned = true
		a.c.OnUnrecorded(f.ModeChange)
	}
}

// alreadyAnnounced says whether an annotation by the engine is recorded.
func (a *AutoRollback) alreadyAnnounced(
	ctx context.Context, incident string, kind engine.EventKind, since time.Time,
) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	return a.c.Journal.HasAnnotation(ctx, incident, string(kind), engineActor, since)
}

// annotate reports whether there is no point in retrying.
func (a *AutoRollback) annotate(ctx context.Context, annotation engine.Annotation) bool {
	ctx, cancel := context.WithTimeout(ctx, notifyTimeout)
	defer cancel()
	_, err := a.rules.Annotate(ctx, annotation)
	if err != nil && !errors.Is(err, engine.ErrRefused) {
		a.c.Log.Warn("annotation not delivered, retrying", "kind", annotation.Kind, "pool", annotation.Pool, "error", err)
		return false
	}
	if err != nil {
		a.c.Log.Error("annotation refused", "kind", annotation.Kind, "pool", annotation.Pool, "error", err)
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
	s := fmt.Sprintf("Pool %s has been in passthrough for %s, since %s by %s",
		r.Pool, time.Duration(r.Hour)*time.Hour, format.Time(r.Since), r.Actor)
	if r.Reason != "" {
		s += " (" + r.Reason + ")"
	}
	s += fmt.Sprintf(". Nothing is refused meanwhile: %d queued, the oldest for %s; %d of %d in flight. "+
		"To re-enable admission control: headgate restore --pool %s",
		r.Gate.Depth, r.Gate.OldestAge.Round(time.Second), r.Gate.InFlight, r.Gate.Workers, r.Pool)
	if r.RestoreMode == admission.Observe {
		s += " (to observe, the previous mode)"
	}
	return s
}

// sendReminders reminds of every pool that has been in passthrough for another hour.
func (a *AutoRollback) sendReminders(ctx context.Context, views []poolView) {
	if a.c.Remind == nil {
		return
	}
	now := a.c.Clock()
	for _, v := range views {
		hour := a.hoursInMode(now, v)
		// A change that is not recorded has no ID that survives a restart.
		if v.Mode != admission.PassThrough || hour < 1 || !v.recorded || v.ChangeID == "" || a.reminded[v.ChangeID] >= hour {
			continue
		}
		attempt, cancel := context.WithTimeout(ctx, notifyTimeout)
		err := a.c.Remind(attempt, Reminder{ModeState: v.ModeState, Hour: hour, At: now, Gate: v.gate})
		cancel()
		if err != nil {
			a.c.Log.Warn("passthrough reminder not sent, retrying", "pool", v.Pool, "error", err)
			continue
		}
		a.reminded[v.ChangeID] = hour
	}
	maps.DeleteFunc(a.reminded, func(change string, _ int) bool {
		return !slices.ContainsFunc(views, func(v poolView) bool { return v.ChangeID == change })
	})
}

// hoursInMode are the whole hours for which a pool has been in its mode.
func (a *AutoRollback) hoursInMode(now time.Time, v poolView) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	since, ok := a.modeSince[v.Pool]
	if !ok { // since before the start
		since = v.Since
	}
	return int(now.Sub(since) / reminderInterval)
}

// save records the states that have changed. A rollback is not saved before its change is recorded: after a restart the
// state would name a rollback that was not recorded.
func (a *AutoRollback) save(ctx context.Context) {
	now := a.c.Clock()
	if now.Before(a.saveRetryAt) {
		return
	}
	for _, state := range a.unsavedStates() {
		if a.saveState(ctx, state, notifyTimeout, "automatic rollback state not recorded, retrying") != nil {
			a.saveRetryAt = now.Add(saveRetryInterval)
			return
		}
		a.markSaved(state)
	}
}

// unsavedStates returns the states to save.
func (a *AutoRollback) unsavedStates() (all []RollbackState) {
	a.mu.Lock()
	for pool := range a.machine.dirty {
		state := *a.machine.pools[pool]
		state.Rollbacks = slices.Clone(state.Rollbacks)
		all = append(all, state)
	}
	a.mu.Unlock() // the Controller calls OnApplied under its lock
	return slices.DeleteFunc(all, func(s RollbackState) bool {
		_, ok := a.c.Controller.State(s.Pool)
		return !ok || !a.c.Controller.Recorded(s.Pool)
	})
}

// markSaved marks a state as recorded, unless it has changed in the meantime.
func (a *AutoRollback) markSaved(state RollbackState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	now := a.machine.pools[state.Pool]
	if now.Phase == state.Phase && now.Since.Equal(state.Since) && now.ChangeID == state.ChangeID &&
		now.HoldUntil.Equal(state.HoldUntil) {
		delete(a.machine.dirty, state.Pool)
	}
}

// UnrecordedRollbackText is the message about an automatic rollback that the record does not take.
func (c ModeChange) UnrecordedRollbackText() string {
	return fmt.Sprintf("Pool %s was rolled back automatically at %s: %s. The change cannot be recorded: "+
		"a restart would lose it and re-enable admission control. To restore by hand: headgate restore --pool %s",
		c.Pool, format.Time(c.At), c.Reason, c.Pool)
}

// RollbackPhase is the phase of the automatic rollback of a pool.
type RollbackPhase string

// The phases.
const (
	Armed       RollbackPhase = "armed"    // it may roll back
	RollingBack RollbackPhase = "flipping" // stored value, kept for old records; it is about to, or may have done it
	RolledBack  RollbackPhase = "flipped"  // stored value, kept for old records; it has, and the mode was not restored since
	Cooldown    RollbackPhase = "cooldown" // the mode was restored recently
)

// RollbackPhases returns every phase, in a fixed order.
func RollbackPhases() []RollbackPhase {
	return []RollbackPhase{Armed, RollingBack, RolledBack, Cooldown}
}

const (
	day          = 24 * time.Hour // in which rollbacks are counted
	maxRollbacks = 100            // of a pool that are remembered
)

// RollbackState is the state of the automatic rollback of one pool. Times are in UTC.
type RollbackState struct {
	Pool      string
	Phase     RollbackPhase
	Since     time.Time
	Until     time.Time // of the cooldown
	Rule      string    // that caused the latest rollback
	Incident  string    // of that rule
	ChangeID  string    // of the rollback; empty while it is not known to be applied
	Rollbacks []time.Time

	HoldUntil  time.Time // until then a manual decision counts
	HoldActor  string
	HoldReason string // what was decided
}

// recentRollbacks returns how many rollbacks count for the daily limit.
func (s RollbackState) recentRollbacks(now time.Time) int {
	n := 0
	for _, at := range s.Rollbacks {
		if now.Sub(at) < day {
			n++
		}
	}
	return n
}

// RollbackStore records the states. Its methods may be called from any goroutine and obey their context.
type RollbackStore interface {
	SaveRollbackState(context.Context, RollbackState) error
	// RollbackStates returns the state of every pool that has had one.
	RollbackStates(context.Context) ([]RollbackState, error)
	// HasAnnotation says whether an incident has an annotation of that kind by that actor, not older than since.
	HasAnnotation(ctx context.Context, incident, kind, actor string, since time.Time) (bool, error)
}

// AutoRollbackSettings says what the automatic rollback may do.
type AutoRollbackSettings struct {
	Auto       bool          // false: every rollback is withheld
	MaxPerDay  int           // rollbacks of a pool in 24 hours
	Cooldown   time.Duration // after the mode was restored
	ManualHold time.Duration // after a manual change of mode, in either direction
}

// Validate names every invalid field.
func (c AutoRollbackSettings) Validate() error {
	var errs []error
	if c.MaxPerDay < 0 || c.MaxPerDay > maxRollbacks {
		errs = append(errs, fmt.Errorf("the daily maximum is %d: it must be 0 to %d", c.MaxPerDay, maxRollbacks))
	}
	if c.Cooldown < 0 {
		errs = append(errs, fmt.Errorf("the cooldown is %s: it must not be negative", c.Cooldown))
	}
	if c.ManualHold < 0 {
		errs = append(errs, fmt.Errorf("the manual hold is %s: it must not be negative", c.ManualHold))
	}
	return errors.Join(errs...)
}

// clampToNow corrects recorded times that a clock which was set back has put into the future: they count from now on,
// and no longer than the settings say.
func (s RollbackState) clampToNow(now time.Time, c AutoRollbackSettings) RollbackState {
	s.Until = earlier(s.Until, now.Add(c.Cooldown))
	s.HoldUntil = earlier(s.HoldUntil, now.Add(c.ManualHold))
	s.Rollbacks = slices.Clone(s.Rollbacks[max(0, len(s.Rollbacks)-maxRollbacks):])
	for n, at := range s.Rollbacks {
		s.Rollbacks[n] = earlier(at, now)
	}
	return s
}

func earlier(a, b time.Time) time.Time {
	if a.After(b) {
		return b
	}
	return a
}

// rollbackMachine decides about automatic rollback, and does nothing else: the time comes from its caller.
type rollbackMachine struct {
	c     AutoRollbackSettings
	pools map[string]*RollbackState
	dirty map[string]bool // not recorded as they are
}

func newRollbackMachine(c AutoRollbackSettings) *rollbackMachine {
	return &rollbackMachine{c: c, pools: make(map[string]*RollbackState), dirty: make(map[string]bool)}
}

// state returns a pool's state, a new one if there is none.
func (m *rollbackMachine) state(now time.Time, pool string) *RollbackState {
	s, ok := m.pools[pool]
	if !ok {
		s = &RollbackState{Pool: pool, Phase: Armed, Since: now}
		m.pools[pool] = s
	}
	return s
}

func (m *rollbackMachine) setPhase(s *RollbackState, now time.Time, to RollbackPhase) {
	s.Phase, s.Since = to, now
	m.dirty[s.Pool] = true
}

// reconcile combines the recorded state of a pool with its recorded mode: a process may have been killed anywhere
// between the two.
func (m *rollbackMachine) reconcile(now time.Time, saved RollbackState, mode ModeState) {
	s := saved.clampToNow(now, m.c)
	m.pools[s.Pool] = &s
	ours := mode.Mode == admission.PassThrough && mode.Via == ViaEngine
	switch {
	case ours && s.Phase != RolledBack:
		// The change is recorded: the pool was rolled back, whatever else is missing.
		at := earlier(mode.Since, now)
		if s.Phase == RollingBack {
			at = earlier(at, s.Since)
		}
		m.setPhase(&s, at, RolledBack)
		s.ChangeID = mode.ChangeID
		if !slices.ContainsFunc(s.Rollbacks, func(f time.Time) bool { return !f.Before(at) }) {
			s.Rollbacks = append(s.Rollbacks, at)
		}
	case s.Phase == RollingBack:
		// It was intended and not done, or not recorded.
		m.setPhase(&s, now, Armed)
		s.ChangeID = ""
	case s.Phase == RolledBack && mode.Mode != admission.PassThrough:
		m.startCooldown(&s, now, earlier(mode.Since, now))
	}
	if isHuman(mode.Via) {
		m.setHold(&s, earlier(mode.Since, now), mode.Actor, "mode "+mode.Mode.String())
	}
}

// isHuman says whether a person has decided, rather than the program or a file.
func isHuman(v Via) bool { return v != ViaEngine && v != ViaSettings && v != "" }

// modeChanged takes a change of mode into account as soon as it is applied, before it can be reverted.
func (m *rollbackMachine) modeChanged(now time.Time, c ModeChange) {
	s := m.state(now, c.Pool)
	if isHuman(c.Via) {
		m.setHold(s, now, c.Actor, string(c.Action)+" to "+c.To.String())
	}
	switch {
	case c.Via == ViaEngine && c.To == admission.PassThrough && s.Phase == RollingBack:
		m.setPhase(s, now, RolledBack)
		s.ChangeID, s.Rollbacks = c.ID, append(s.Rollbacks, now)
	case c.From == admission.PassThrough && c.To != admission.PassThrough:
		m.startCooldown(s, now, now)
	}
}

// setHold makes a manual decision count for a while.
func (m *rollbackMachine) setHold(s *RollbackState, from time.Time, by, what string) {
	if until := from.Add(m.c.ManualHold); !until.Before(s.HoldUntil) && m.c.ManualHold > 0 {
		s.HoldUntil, s.HoldActor, s.HoldReason = until, by, what
		m.dirty[s.Pool] = true
	}
}

// startCooldown begins the cooldown after a restore.
func (m *rollbackMachine) startCooldown(s *RollbackState, now, from time.Time) {
	m.setPhase(s, now, Cooldown)
	s.Until = from.Add(m.c.Cooldown)
}

// expire ends cooldowns, and forgets rollbacks that no longer count.
func (m *rollbackMachine) expire(now time.Time) {
	for _, s := range m.pools {
		if s.Phase == Cooldown && !now.Before(s.Until) {
			m.setPhase(s, now, Armed)
		}
		s.Rollbacks = slices.DeleteFunc(s.Rollbacks, func(at time.Time) bool { return now.Sub(at) >= day })
	}
}

// rollbackTrigger is an incident whose rule has the action rollback.
type rollbackTrigger struct {
	engine.Incident
	value       engine.Value
	limit       float64 // of a page
	breachedFor time.Duration
}

// decision is what is decided about a trigger.
type decision struct {
	rollBack bool
	withheld string // why not, in a word; empty with rollBack, and if there is nothing to decide
	why      string // the same, for people
}

func withhold(word, format string, args ...any) decision {
	return decision{withheld: word, why: fmt.Sprintf(format, args...)}
}

// The words for why a rollback was withheld.
const (
	withheldDisabled   = "off"
	withheldValue      = "value"
	withheldMode       = "mode"
	withheldManualHold = "latch" // stored value, kept for old records
	withheldCooldown   = "cooldown"
	withheldDailyLimit = "maximum"
)

// decide says whether a pool is to be rolled back because of a trigger.
func (m *rollbackMachine) decide(now time.Time, v poolView, t rollbackTrigger) decision {
	s := m.state(now, v.Pool)
	switch {
	case s.Phase == RollingBack, s.Phase == RolledBack && s.Incident == t.ID:
		return decision{} // it is in progress, or was done because of this
	case v.gate.Mode == admission.PassThrough:
		return withhold(withheldMode, "the pool is already in passthrough, by %s", v.Actor)
	case v.gate.Mode == admission.Observe:
		return withhold(withheldMode, "the pool is in observe: nothing is refused there")
	case t.value.Quality != engine.Valid:
		return withhold(withheldValue, "the rule has no fresh value")
	case t.value.V < t.limit:
		return withhold(withheldValue, "the value is below the limit again")
	}
	d := m.prevented(now, s)
	d.rollBack = d.withheld == ""
	return d
}

// prevented says why no rollback of a pool is possible now, whatever triggers one; the zero decision: it is possible.
func (m *rollbackMachine) prevented(now time.Time, s *RollbackState) decision {
	switch {
	case !m.c.Auto:
		return withhold(withheldDisabled, "automatic rollback is disabled (rollback.auto)")
	case now.Before(s.HoldUntil):
		return withhold(withheldManualHold, "%s decided (%s); that holds until %s",
			s.HoldActor, s.HoldReason, formatTime(s.HoldUntil))
	case s.Phase == Cooldown:
		return withhold(withheldCooldown, "the mode was restored recently; cooldown until %s", formatTime(s.Until))
	case s.recentRollbacks(now) >= m.c.MaxPerDay:
		return withhold(withheldDailyLimit, "%d of %d automatic rollbacks in 24 hours are used up (rollback.max_per_day)",
			s.recentRollbacks(now), m.c.MaxPerDay)
	}
	return decision{}
}

// beginRollback records the intent.
func (m *rollbackMachine) beginRollback(now time.Time, pool string, t rollbackTrigger) RollbackState {
	s := m.state(now, pool)
	m.setPhase(s, now, RollingBack)
	s.Rule, s.Incident, s.ChangeID = t.Key.Rule, t.ID, ""
	return *s
}

// decisionInputs returns what a decision rests on, for the audit.
func (m *rollbackMachine) decisionInputs(now time.Time, v poolView, t rollbackTrigger) map[string]string {
	s := m.state(now, v.Pool)
	in := map[string]string{
		"rule": t.Key.Rule, "threshold": formatNumber(t.limit), "unit": t.Unit, "opened": formatTime(t.Opened),
		"breached_for": t.breachedFor.Round(time.Millisecond).String(), "auto_rollback": string(s.Phase),
		"auto_rollbacks_today": strconv.Itoa(s.recentRollbacks(now)), "max_per_day": strconv.Itoa(m.c.MaxPerDay),
		"mode": v.gate.Mode.String(), "permits_free": strconv.Itoa(max(v.gate.Workers-v.gate.InFlight, 0)),
		"in_flight": strconv.Itoa(v.gate.InFlight), "queued": strconv.Itoa(v.gate.Depth),
		"oldest": v.gate.OldestAge.Round(time.Millisecond).String(), "value": "unknown",
	}
	if t.value.Quality == engine.Valid {
		in["value"] = formatNumber(t.value.V)
	}
	if now.Before(s.HoldUntil) {
		in["hold_until"], in["hold_by"] = formatTime(s.HoldUntil), s.HoldActor
	}
	return in
}

func formatNumber(v float64) string { return strconv.FormatFloat(v, 'g', 6, 64) }
func formatTime(t time.Time) string { return t.UTC().Format(time.RFC3339) }
