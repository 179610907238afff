package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"os"
	"slices"
	"time"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

var _ control.Journal = (*Store)(nil)

const (
	maxPools    = 10_000 // pools ever seen
	maxRequests = 100    // read in one go
	// requestsProgress is the name in progress of the highest request that was handled.
	requestsProgress = "mode_requests"
)

var (
	requestActions = []control.ModeAction{control.Rollback, control.Restore, control.SetMode} // what a request may ask for
	modeActions    = append(slices.Clone(requestActions), control.InitialMode)

	modeTable = table{name: "modes", key: []string{"pool"}, columns: []string{
		"pool", "mode", "before", "since_ms", "actor", "reason", "change_id",
	}}
	modeChangeTable = table{name: "mode_changes", key: []string{"id"}, columns: []string{
		"id", "at_ms", "pool", "action", "from_mode", "to_mode", "before", "actor", "via", "reason", "running", "queued", "dropped", "request",
	}}
	requestTable = table{name: "mode_requests", key: []string{"number"}, columns: []string{
		"number", "at_ms", "pool", "action", "mode", "expected", "drop_overdue", "actor", "reason",
	}}
	progressTable = table{name: "progress", key: []string{"name"}, columns: []string{"name", "value"}}
	rollbackTable = table{name: "guards", key: []string{"pool"}, columns: []string{
		"pool", "state", "since_ms", "until_ms", "rule", "incident", "change_id", "flips", "latched_ms", "latched_by", "latch",
	}}
	pauseTable = table{name: "pauses", key: []string{"pool"}, columns: []string{"pool", "since_ms", "until_ms", "actor", "via", "reason"}}
)

// ModeStates implements control.Journal, in the order of the pools' names.
func (s *Store) ModeStates(ctx context.Context) ([]control.ModeState, error) {
	return read(ctx, s, "read the modes", func(r *reader) []control.ModeState {
		return queryAtMost(r, maxPools, modeTable, decodeModeState,
			`SELECT m.*, coalesce(c.via, '') AS via FROM modes m LEFT JOIN mode_changes c ON c.id = m.change_id ORDER BY m.pool LIMIT ?`)
	})
}

func decodeModeState(r *row) control.ModeState {
	return control.ModeState{
		Pool: r.name("pool"), Mode: r.mode("mode"), RestoreMode: r.mode("before"), Since: r.time("since_ms"),
		Actor: r.name("actor"), Reason: r.text("reason", maxReason), ChangeID: r.name("change_id"), Via: control.Via(r.word("via")),
	}
}

// RecordChanges implements control.Journal. When it returns nil, what it wrote
// survives loss of power. Texts that are too long to keep are cut.
func (s *Store) RecordChanges(ctx context.Context, changes []control.ModeChange, seen int64) error {
	const doing = "record a change of mode"
	for _, c := range changes {
		if err := validateModeChange(c); err != nil {
			return fmt.Errorf("%s: %w", doing, err)
		}
	}
	return s.writeTx(ctx, doing, func(w *txWriter) {
		for _, c := range changes {
			w.recordChange(c)
		}
		if seen > 0 {
			w.writeRow(progressTable.upsertSQL()+" WHERE excluded.value > progress.value", requestsProgress, min(seen, maxNumber))
		}
	})
}

// validateModeChange refuses what could not be read back. Only a mistake in the program
// makes such a change.
func validateModeChange(c control.ModeChange) error {
	return cmp.Or(
		checkID("its ID", c.ID), checkOneOf("its action", c.Action, modeActions), checkOneOf("its origin", c.Via, control.Vias()),
		checkMode(c.From), checkMode(c.To), checkMode(c.RestoreMode))
}

// recordChange writes a change and where it led, unless it is there already: then
// later ones may have led elsewhere. Both rows keep the writer of the change.
func (w *txWriter) recordChange(c control.ModeChange) {
	pool, actor, reason, writer := cleanName(c.Pool), cleanName(c.Actor), clean(c.Reason, maxReason), cleanName(c.Writer)
	at := min(max(c.At.UnixMilli(), 0), maxTime)
	isNew := w.exec(modeChangeTable.insertOnceSQL(), c.ID, at, pool, string(c.Action), c.From.String(), c.To.String(),
		c.RestoreMode.String(), actor, string(c.Via), reason,
		clampCount(c.Running), clampCount(c.Queued), clampCount(c.Dropped), min(max(c.RequestNumber, 0), maxNumber), writer, c.ID)
	if isNew {
		w.exec(modeTable.upsertSQL(), pool, c.To.String(), c.RestoreMode.String(), at, actor, reason, c.ID, writer)
	}
}

func decodeModeChange(r *row) control.ModeChange {
	return control.ModeChange{
		ID: r.id("id"), At: r.time("at_ms"), Pool: r.name("pool"), Action: oneOf(r, "action", modeActions),
		From: r.mode("from_mode"), To: r.mode("to_mode"), RestoreMode: r.mode("before"),
		Actor: r.name("actor"), Via: oneOf(r, "via", control.Vias()), Reason: r.text("reason", maxReason),
		Running: r.count("running"), Queued: r.count("queued"), Dropped: r.count("dropped"), RequestNumber: r.number("request", maxNumber),
		Writer: r.name("writer"),
	}
}

// QueuedRequests implements control.Journal. It returns at most 100.
func (s *Store) QueuedRequests(ctx context.Context, after int64) ([]control.QueuedRequest, error) {
	return read(ctx, s, "read the requests", func(r *reader) []control.QueuedRequest {
		return query(r, requestTable, decodeRequest, selectRequests(), max(after, lastHandledRequest(r)), maxRequests)
	})
}

func selectRequests() string {
	return requestTable.selectSQL() + "WHERE number > ? ORDER BY number LIMIT ?"
}

// lastHandledRequest returns the highest request that was handled, 0 for none.
func lastHandledRequest(r *reader) int64 {
	n, _ := queryOne(r, progressTable, func(r *row) int64 { return r.number("value", maxNumber) },
		progressTable.selectSQL()+"WHERE name = ?", requestsProgress)
	return n
}

// decodeRequest reads a request. Any process may have queued it: an invalid one
// has a mode request without an action, so that it is passed over by its number. Only
// without a sensible number there is no going on.
func decodeRequest(r *row) control.QueuedRequest {
	queued := control.QueuedRequest{Number: r.number("number", maxNumber)}
	if r.err != nil {
		return queued
	}
	at, request := r.time("at_ms"), decodeModeRequest(r)
	if r.err == nil {
		queued.At, queued.Mode = at, request
	}
	r.err = nil
	return queued
}

func decodeModeRequest(r *row) control.ModeRequest {
	o := control.ModeRequest{
		Pool: r.name("pool"), Action: oneOf(r, "action", requestActions),
		DropOverdue: r.flag("drop_overdue"), Actor: r.name("actor"), Reason: r.text("reason", maxReason), Via: control.ViaRequest,
	}
	if o.Action == control.SetMode {
		o.Mode = r.mode("mode")
	} else if r.name("mode") != "" {
		r.fail("mode")
	}
	if r.name("expected") != "" {
		m := r.mode("expected")
		o.Expected = &m
	}
	return o
}

// QueueRequest leaves a mode request in the record of a data directory, for the service
// that runs there or the next one that starts there, and returns its number. It
// is for commands that cannot reach the service. When it returns nil the request
// survives loss of power. With ErrBusy the outcome is unknown; a second request
// does no harm. ErrNoRecord, ErrNewer and ErrOlder: nothing was queued.
func QueueRequest(ctx context.Context, dir string, o control.ModeRequest) (number int64, err error) {
	const doing = "queue a request"
	if err := validateRequest(o); err != nil {
		return 0, fmt.Errorf("%s: %w", doing, err)
	}
	host, _ := os.Hostname()
	writer := cleanName(fmt.Sprintf("command %d on %s", os.Getpid(), host))
	return withDatabase(ctx, dir, doing, accessWrite, func(ctx context.Context, db *sql.DB) (int64, error) {
		return inTx(ctx, db, writer, func(w *txWriter) int64 { return w.queueRequest(o) })
	})
}

// validateRequest refuses requests that the service would pass over, or that would be cut.
func validateRequest(o control.ModeRequest) error {
	expected := admission.Enforce
	if o.Expected != nil {
		expected = *o.Expected
	}
	return cmp.Or(
		checkOneOf("its action", o.Action, requestActions), checkMode(o.Mode), checkMode(expected),
		checkOptionalName("its pool", o.Pool), checkOptionalName("its actor", o.Actor))
}

// selectNextRequest finds a number that no request has had, and that is above all that were
// handled: others would be passed over.
const selectNextRequest = `SELECT 1 + max(coalesce((SELECT max(number) FROM mode_requests), 0),
coalesce((SELECT CAST(seq AS INTEGER) FROM sqlite_sequence WHERE name = 'mode_requests'), 0), ?) AS number`

// queueRequest inserts a request and returns its number.
func (w *txWriter) queueRequest(o control.ModeRequest) int64 {
	number, _ := queryOne(&w.reader, requestTable, func(r *row) int64 { return r.number("number", maxNumber) },
		selectNextRequest, lastHandledRequest(&w.reader))
	mode, expected := "", ""
	if o.Action == control.SetMode {
		mode = o.Mode.String()
	}
	if o.Expected != nil {
		expected = o.Expected.String()
	}
	w.writeRow(requestTable.insertSQL(), number, time.Now().UnixMilli(), o.Pool, string(o.Action), mode, expected,
		btoi(o.DropOverdue), o.Actor, clean(o.Reason, maxReason))
	return number
}

var _ control.RollbackStore = (*Store)(nil)

// SaveRollbackState implements control.RollbackStore. When it returns nil, the state
// survives loss of power.
func (s *Store) SaveRollbackState(ctx context.Context, g control.RollbackState) error {
	const doing = "record automatic rollback"
	if err := cmp.Or(checkName("its pool", g.Pool), checkOneOf("its state", g.Phase, control.RollbackPhases())); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return s.writeOne(ctx, doing, rollbackTable.upsertSQL(),
		g.Pool, string(g.Phase), ms(g.Since), ms(g.Until), cleanName(g.Rule), cleanName(g.Incident), cleanName(g.ChangeID), encodeTimes(g.Rollbacks),
		ms(g.HoldUntil), cleanName(g.HoldActor), cleanName(g.HoldReason))
}

// RollbackStates implements control.RollbackStore, in the order of the pools' names.
func (s *Store) RollbackStates(ctx context.Context) ([]control.RollbackState, error) {
	return readAll(ctx, s, "read automatic rollback", rollbackTable, func(r *row) control.RollbackState {
		return control.RollbackState{
			Pool: r.keyName("pool"), Phase: oneOf(r, "state", control.RollbackPhases()),
			Since: r.optionalTime("since_ms"), Until: r.optionalTime("until_ms"), Rule: r.name("rule"),
			Incident: r.name("incident"), ChangeID: r.name("change_id"), Rollbacks: r.times("flips"),
			HoldUntil: r.optionalTime("latched_ms"), HoldActor: r.name("latched_by"), HoldReason: r.name("latch"),
		}
	}, rollbackTable.selectSQL()+"ORDER BY pool LIMIT ?", maxPools)
}

// HasAnnotation implements control.RollbackStore.
func (s *Store) HasAnnotation(ctx context.Context, incident, kind, actor string, since time.Time) (bool, error) {
	return read(ctx, s, "read the annotations of an incident", func(r *reader) bool {
		return exists(r, "SELECT 1 FROM incident_events WHERE incident = ? AND kind = ? AND actor = ? AND at_ms >= ? LIMIT 1",
			incident, kind, cleanName(actor), ms(since))
	})
}

var _ control.PauseStore = (*Store)(nil)

// SavePause implements control.PauseStore. When it returns nil, the pause, or
// its end, survives loss of power.
func (s *Store) SavePause(ctx context.Context, p control.Pause) error {
	const doing = "record a pause"
	if err := cmp.Or(checkName("its pool", p.Pool), checkOneOf("its origin", p.Via, control.Vias())); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return s.writeTx(ctx, doing, func(w *txWriter) {
		if p.Until.IsZero() {
			w.exec("DELETE FROM pauses WHERE pool = ?", p.Pool)
			return
		}
		w.writeRow(pauseTable.upsertSQL(),
			p.Pool, ms(p.Since), ms(p.Until), cleanName(p.Actor), string(p.Via), clean(p.Reason, maxReason))
	})
}

// Pauses implements control.PauseStore, in the order of the pools' names.
func (s *Store) Pauses(ctx context.Context) ([]control.Pause, error) {
	return readAll(ctx, s, "read the pauses", pauseTable, func(r *row) control.Pause {
		return control.Pause{
			Pool: r.keyName("pool"), Since: r.optionalTime("since_ms"), Until: r.optionalTime("until_ms"),
			Actor: r.name("actor"), Via: control.Via(r.word("via")), Reason: r.text("reason", maxReason),
		}
	}, pauseTable.selectSQL()+"ORDER BY pool LIMIT ?", maxPools)
}
