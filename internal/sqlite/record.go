package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// requestsProgress is the name in progress of the highest request dealt with.
const requestsProgress = "mode_requests"

const insertModeChange = `
INSERT INTO mode_changes (id, at_ms, pool, action, from_mode, to_mode, before, actor, via, reason, running, queued, dropped, request, writer)
SELECT ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? WHERE NOT EXISTS (SELECT 1 FROM mode_changes WHERE id = ?)`

const upsertMode = `
INSERT INTO modes (pool, mode, before, since_ms, actor, reason, change_id, writer) VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (pool) DO UPDATE SET mode = excluded.mode, before = excluded.before, since_ms = excluded.since_ms,
actor = excluded.actor, reason = excluded.reason, change_id = excluded.change_id, writer = excluded.writer`

const upsertProgress = `
INSERT INTO progress (name, value, writer) VALUES (?, ?, ?)
ON CONFLICT (name) DO UPDATE SET value = excluded.value, writer = excluded.writer WHERE excluded.value > progress.value`

// RecordChanges implements control.Journal. When it returns nil, what it wrote
// survives loss of power. Texts that are too long to keep are cut.
func (s *Store) RecordChanges(ctx context.Context, changes []control.ModeChange, seen int64) error {
	for _, c := range changes {
		if err := validateModeChange(c); err != nil {
			return fmt.Errorf("record a change of mode: %w", err)
		}
	}
	return s.writeTx(ctx, "record a change of mode", func(ctx context.Context, tx *sql.Tx) error {
		for _, c := range changes {
			if err := recordChange(ctx, tx, c); err != nil {
				return err
			}
		}
		if seen <= 0 {
			return nil
		}
		_, err := tx.ExecContext(ctx, upsertProgress, requestsProgress, min(seen, maxNumber), s.writerName)
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
		return fmt.Errorf("no such way of an order: %.40q", c.Via)
	case !slices.Contains(modes, c.From), !slices.Contains(modes, c.To), !slices.Contains(modes, c.RestoreMode):
		return errors.New("no such mode")
	}
	return nil
}

// clampCount bounds a number of tasks to what is read back.
func clampCount(n int) int { return min(max(n, 0), math.MaxInt32) }

// recordChange writes a change and where it led, unless it is there already: then
// later ones may have led elsewhere.
func recordChange(ctx context.Context, tx *sql.Tx, c control.ModeChange) error {
	pool, actor, reason, writer := clean(c.Pool, maxName), clean(c.Actor, maxName), clean(c.Reason, maxReason), clean(c.Writer, maxName)
	at := min(max(c.At.UnixMilli(), 0), maxTime)
	done, err := tx.ExecContext(ctx, insertModeChange, c.ID, at, pool, string(c.Action), c.From.String(), c.To.String(),
		c.RestoreMode.String(), actor, string(c.Via), reason,
		clampCount(c.Running), clampCount(c.Queued), clampCount(c.Dropped), min(max(c.RequestNumber, 0), maxNumber), writer, c.ID)
	if err != nil {
		return err
	}
	if n, err := done.RowsAffected(); err != nil || n == 0 {
		return err
	}
	_, err = tx.ExecContext(ctx, upsertMode, pool, c.To.String(), c.RestoreMode.String(), at, actor, reason, c.ID, writer)
	return err
}
