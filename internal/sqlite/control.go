package sqlite

import (
	"context"
	"database/sql"
	"errors"
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
	modeTable = table{name: "modes", key: []string{"pool"}, columns: []string{
		"pool", "mode", "before", "since_ms", "actor", "reason", "change_id",
	}}
	modeChangeTable = table{name: "mode_changes", key: []string{"id"}, columns: []string{
		"id", "at_ms", "pool", "action", "from_mode", "to_mode", "before", "actor", "via", "reason", "running", "queued", "dropped", "request",
	}}
	requestTable = table{name: "mode_requests", key: []string{"number"}, columns: []string{
		"at_ms", "pool", "action", "mode", "expected", "drop_overdue", "actor", "reason",
	}}
	progressTable = table{name: "progress", key: []string{"name"}, columns: []string{"name", "value"}}
	rollbackTable = table{name: "guards", key: []string{"pool"}, columns: []string{
		"pool", "state", "since_ms", "until_ms", "rule", "incident", "change_id", "flips", "latched_ms", "latched_by", "latch",
	}}
	pauseTable = table{name: "pauses", key: []string{"pool"}, columns: []string{"pool", "since_ms", "until_ms", "actor", "via", "reason"}}
)

// ModeStates implements control.Journal, in the order of the pools' names.
func (s *Store) ModeStates(ctx context.Context) ([]control.ModeState, error) {
	return read(ctx, s, "read the modes", func(ctx context.Context, conn *sql.Conn) ([]control.ModeState, error) {
		return queryAtMost(ctx, conn, maxPools, modeTable.name, decodeModeState,
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
	return s.writeTx(ctx, doing, func(ctx context.Context, w *txWriter) error {
		for _, c := range changes {
			if err := w.recordChange(ctx, c); err != nil {
				return err
			}
		}
		if seen <= 0 {
			return nil
		}
		_, err := w.writeRow(ctx, progressTable.upsertSQL()+" WHERE excluded.value > progress.value", requestsProgress, min(seen, maxNumber))
		return err
	})
}

// validateModeChange refuses what could not be read back. Only a mistake in the program
// makes such a change.
func validateModeChange(c control.ModeChange) error {
	modes := admission.Modes()
	switch {
	case !validID(c.ID):
		return fmt.Errorf("its ID must be 1 to %d letters, digits and dashes", maxID)
	case !isRequestAction(c.Action) && c.Action != control.InitialMode:
		return fmt.Errorf("no such action: %.40q", c.Action)
	case !slices.Contains(control.Vias(), c.Via):
		return fmt.Errorf("unknown origin of the change: %.40q", c.Via)
	case !slices.Contains(modes, c.From), !slices.Contains(modes, c.To), !slices.Contains(modes, c.RestoreMode):
		return errors.New("no such mode")
	}
	return nil
}

// isRequestAction says whether a request may ask for an action.
func isRequestAction(a control.ModeAction) bool {
	return a == control.Rollback || a == control.Restore || a == control.SetMode
}

// recordChange writes a change and where it led, unless it is there already: then
// later ones may have led elsewhere. Both rows keep the writer of the change.
func (l *txWriter) recordChange(ctx context.Context, c control.ModeChange) error {
	pool, actor, reason, writer := cleanName(c.Pool), cleanName(c.Actor), clean(c.Reason, maxReason), cleanName(c.Writer)
	at := min(max(c.At.UnixMilli(), 0), maxTime)
	isNew, err := l.exec(ctx, modeChangeTable.insertOnceSQL(), c.ID, at, pool, string(c.Action), c.From.String(), c.To.String(),
		c.RestoreMode.String(), actor, string(c.Via), reason,
		clampCount(c.Running), clampCount(c.Queued), clampCount(c.Dropped), min(max(c.RequestNumber, 0), maxNumber), writer, c.ID)
	if err != nil || !isNew {
		return err
	}
	_, err = l.exec(ctx, modeTable.upsertSQL(), pool, c.To.String(), c.RestoreMode.String(), at, actor, reason, c.ID, writer)
	return err
}

func decodeModeChange(r *row) control.ModeChange {
	actions := []control.ModeAction{control.Rollback, control.Restore, control.SetMode, control.InitialMode}
	return control.ModeChange{
		ID: r.id("id"), At: r.time("at_ms"), Pool: r.name("pool"), Action: oneOf(r, "action", actions),
		From: r.mode("from_mode"), To: r.mode("to_mode"), RestoreMode: r.mode("before"),
		Actor: r.name("actor"), Via: oneOf(r, "via", control.Vias()), Reason: r.text("reason", maxReason),
		Running: r.count("running"), Queued: r.count("queued"), Dropped: r.count("dropped"), RequestNumber: r.number("request", maxNumber),
		Writer: r.name("writer"),
	}
}

// QueuedRequests implements control.Journal. It returns at most 100.
func (s *Store) QueuedRequests(ctx context.Context, after int64) ([]control.QueuedRequest, error) {
	return read(ctx, s, "read the requests", func(ctx context.Context, conn *sql.Conn) ([]control.QueuedRequest, error) {
		done, err := lastHandledRequest(ctx, conn)
		if err != nil {
			return nil, err
		}
		return query(ctx, conn, requestTable.name, decodeRequest, selectRequests(), max(after, done), maxRequests)
	})
}

func selectRequests() string {
	return requestTable.selectSQL("number") + "WHERE number > ? ORDER BY number LIMIT ?"
}

// lastHandledRequest returns the highest request that was handled, 0 for none.
func lastHandledRequest(ctx context.Context, q queryer) (int64, error) {
	n, _, err := queryOne(ctx, q, progressTable.name, func(r *row) int64 { return r.number("value", maxNumber) },
		progressTable.selectSQL()+"WHERE name = ?", requestsProgress)
	return n, err
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
		Pool: r.name("pool"), Action: oneOf(r, "action", []control.ModeAction{control.Rollback, control.Restore, control.SetMode}),
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
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	number, err = withDatabase(ctx, dir, accessWrite, func(db *sql.DB) (n int64, err error) {
		err = inTx(ctx, db, func(ctx context.Context, tx *sql.Tx) error {
			n, err = queueRequest(ctx, tx, o)
			return err
		})
		return n, err
	})
	return number, wrapErr(doing, err)
}

// validateRequest refuses requests that the service would pass over, or that would be cut.
func validateRequest(o control.ModeRequest) error {
	modes := admission.Modes()
	switch {
	case !isRequestAction(o.Action):
		return fmt.Errorf("its action must be rollback, restore or mode, is %.40q", o.Action)
	case !slices.Contains(modes, o.Mode), o.Expected != nil && !slices.Contains(modes, *o.Expected):
		return errors.New("no such mode")
	case cleanName(o.Pool) != o.Pool:
		return fmt.Errorf("its pool must be a name of at most %d bytes", maxName)
	case cleanName(o.Actor) != o.Actor:
		return fmt.Errorf("its actor must be a name of at most %d bytes", maxName)
	}
	return nil
}

// queueRequest inserts a request. Its number must be above all that were handled, or
// it would be passed over; AUTOINCREMENT alone does not promise that, since the
// two are kept in different tables.
func queueRequest(ctx context.Context, tx *sql.Tx, o control.ModeRequest) (number int64, err error) {
	done, err := lastHandledRequest(ctx, tx)
	if err != nil {
		return 0, err
	}
	mode, expected := "", ""
	if o.Action == control.SetMode {
		mode = o.Mode.String()
	}
	if o.Expected != nil {
		expected = o.Expected.String()
	}
	host, _ := os.Hostname()
	insert := func(t table, more ...any) error {
		result, err := tx.ExecContext(ctx, t.insertSQL(), append([]any{
			time.Now().UnixMilli(), o.Pool, string(o.Action), mode, expected, btoi(o.DropOverdue), o.Actor, clean(o.Reason, maxReason),
		}, append(more, cleanName(fmt.Sprintf("command %d on %s", os.Getpid(), host)))...)...)
		if err != nil {
			return err
		}
		if number, err = result.LastInsertId(); err == nil && (number <= 0 || number > maxNumber) {
			err = fmt.Errorf("%w: no number is left for a request", ErrCorrupt)
		}
		return err
	}
	if err := insert(requestTable); err != nil || number > done {
		return number, err
	}
	if _, err := tx.ExecContext(ctx, "DELETE FROM mode_requests WHERE number = ?", number); err != nil {
		return 0, err
	}
	numbered := requestTable
	numbered.columns = append(slices.Clone(requestTable.columns), "number")
	return number, insert(numbered, done+1)
}

var _ control.RollbackStore = (*Store)(nil)

// SaveRollbackState implements control.RollbackStore. When it returns nil, the state
// survives loss of power.
func (s *Store) SaveRollbackState(ctx context.Context, g control.RollbackState) error {
	const doing = "record automatic rollback"
	switch {
	case !isName(g.Pool):
		return fmt.Errorf("%s: its pool must be a name of 1 to %d bytes", doing, maxName)
	case !slices.Contains(control.RollbackPhases(), g.Phase):
		return fmt.Errorf("%s: no such state: %.40q", doing, g.Phase)
	}
	return s.writeOne(ctx, doing, rollbackTable.upsertSQL(),
		g.Pool, string(g.Phase), ms(g.Since), ms(g.Until), cleanName(g.Rule), cleanName(g.Incident), cleanName(g.ChangeID), encodeTimes(g.Rollbacks),
		ms(g.HoldUntil), cleanName(g.HoldActor), cleanName(g.HoldReason))
}

// RollbackStates implements control.RollbackStore, in the order of the pools' names.
func (s *Store) RollbackStates(ctx context.Context) ([]control.RollbackState, error) {
	return readAll(ctx, s, "read automatic rollback", rollbackTable.name, func(r *row) control.RollbackState {
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
	found, err := readAll(ctx, s, "read the annotations of an incident", eventTable.name, func(*row) bool { return true },
		"SELECT 1 FROM incident_events WHERE incident = ? AND kind = ? AND actor = ? AND at_ms >= ? LIMIT 1", incident, kind, cleanName(actor), ms(since))
	return len(found) > 0, err
}

var _ control.PauseStore = (*Store)(nil)

// SavePause implements control.PauseStore. When it returns nil, the pause, or
// its end, survives loss of power.
func (s *Store) SavePause(ctx context.Context, p control.Pause) error {
	const doing = "record a pause"
	switch {
	case !isName(p.Pool):
		return fmt.Errorf("%s: its pool must be a name of 1 to %d bytes", doing, maxName)
	case !slices.Contains(control.Vias(), p.Via):
		return fmt.Errorf("%s: unknown origin of the request: %.40q", doing, p.Via)
	}
	return s.writeTx(ctx, doing, func(ctx context.Context, w *txWriter) (err error) {
		if p.Until.IsZero() {
			_, err = w.exec(ctx, "DELETE FROM pauses WHERE pool = ?", p.Pool)
			return err
		}
		_, err = w.writeRow(ctx, pauseTable.upsertSQL(), p.Pool, ms(p.Since), ms(p.Until), cleanName(p.Actor), string(p.Via), clean(p.Reason, maxReason))
		return err
	})
}

// Pauses implements control.PauseStore, in the order of the pools' names.
func (s *Store) Pauses(ctx context.Context) ([]control.Pause, error) {
	return readAll(ctx, s, "read the pauses", pauseTable.name, func(r *row) control.Pause {
		return control.Pause{
			Pool: r.keyName("pool"), Since: r.optionalTime("since_ms"), Until: r.optionalTime("until_ms"),
			Actor: r.name("actor"), Via: control.Via(r.word("via")), Reason: r.text("reason", maxReason),
		}
	}, pauseTable.selectSQL()+"ORDER BY pool LIMIT ?", maxPools)
}
