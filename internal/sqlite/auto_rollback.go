package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"headgate/runbooks/control"
)

var autoRollbackTable = table{name: "guards", key: []string{"pool"}, columns: []string{
	"pool", "state", "since_ms", "until_ms", "rule", "incident", "change_id", "flips", "latched_ms", "latched_by", "latch",
}}

// SaveRollbackState implements control.RollbackStore. When it returns nil, the guard
// survives loss of power.
func (s *Store) SaveRollbackState(ctx context.Context, g control.RollbackState) error {
	switch {
	case !isName(g.Pool):
		return fmt.Errorf("record automatic rollback: its pool must be a name of 1 to %d bytes", maxName)
	case !slices.Contains(control.RollbackPhases(), g.Phase):
		return fmt.Errorf("record automatic rollback: no such state: %.40q", g.Phase)
	}
	return s.writeTx(ctx, "record automatic rollback", func(ctx context.Context, tx *sql.Tx) error {
		_, err := s.newTxWriter(tx).writeRow(ctx, autoRollbackTable.upsertSQL(), autoRollbackValues(g))
		return err
	})
}

// RollbackStates implements control.RollbackStore, in the order of the pools' names.
func (s *Store) RollbackStates(ctx context.Context) ([]control.RollbackState, error) {
	return read(ctx, s, "read automatic rollback", func(ctx context.Context, conn *sql.Conn) ([]control.RollbackState, error) {
		return query(ctx, conn, len(autoRollbackTable.columns), decodeAutoRollback, autoRollbackTable.selectSQL()+"ORDER BY pool LIMIT ?", maxPools)
	})
}

// HasAnnotation implements control.RollbackStore.
func (s *Store) HasAnnotation(ctx context.Context, incident, kind, actor string, since time.Time) (bool, error) {
	return read(ctx, s, "read what was told", func(ctx context.Context, conn *sql.Conn) (bool, error) {
		var one int
		err := conn.QueryRowContext(ctx, "SELECT 1 FROM incident_events WHERE incident = ? AND kind = ? AND actor = ? AND at_ms >= ? LIMIT 1",
			incident, kind, cleanName(actor), ms(since)).Scan(&one)
		if errors.Is(err, sql.ErrNoRows) {
			return false, nil
		}
		return err == nil, err
	})
}

func autoRollbackValues(g control.RollbackState) []any {
	return []any{
		g.Pool, string(g.Phase), ms(g.Since), ms(g.Until), cleanName(g.Rule), cleanName(g.Incident), cleanName(g.ChangeID), encodeTimes(g.Rollbacks),
		ms(g.HoldUntil), cleanName(g.HoldActor), cleanName(g.HoldReason),
	}
}

func decodeAutoRollback(v []any) (control.RollbackState, error) {
	f := rowDecoder{table: autoRollbackTable.name}
	g := control.RollbackState{
		Pool: f.keyName("pool", v[0]), Phase: control.RollbackPhase(f.oneOf("state", v[1], autoRollbackStates())),
		Since: f.optionalTime("since_ms", v[2]), Until: f.optionalTime("until_ms", v[3]), Rule: f.text("rule", v[4], maxName),
		Incident: f.text("incident", v[5], maxName), ChangeID: f.text("change_id", v[6], maxName), Rollbacks: f.times("flips", v[7]),
		HoldUntil: f.optionalTime("latched_ms", v[8]), HoldActor: f.text("latched_by", v[9], maxName), HoldReason: f.text("latch", v[10], maxName),
	}
	return g, f.err
}

func autoRollbackStates() []string {
	var all []string
	for _, s := range control.RollbackPhases() {
		all = append(all, string(s))
	}
	return all
}
