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

var guardTable = table{name: "guards", key: []string{"pool"}, columns: []string{
	"pool", "state", "since_ms", "until_ms", "rule", "incident", "change_id", "flips", "latched_ms", "latched_by", "latch",
}}

// SaveGuard implements control.GuardJournal. When it returns nil, the guard
// survives loss of power.
func (s *Store) SaveGuard(ctx context.Context, g control.Guard) error {
	switch {
	case !isName(g.Pool):
		return fmt.Errorf("record automatic rollback: its pool must be a name of 1 to %d bytes", maxName)
	case !slices.Contains(control.GuardStates(), g.State):
		return fmt.Errorf("record automatic rollback: no such state: %.40q", g.State)
	}
	return s.write(ctx, "record automatic rollback", func(ctx context.Context, tx *sql.Tx) error {
		_, err := s.ledger(tx).write(ctx, guardTable.put(), guardValues(g))
		return err
	})
}

// Guards implements control.GuardJournal, in the order of the pools' names.
func (s *Store) Guards(ctx context.Context) ([]control.Guard, error) {
	return read(ctx, s, "read automatic rollback", func(ctx context.Context, conn *sql.Conn) ([]control.Guard, error) {
		return query(ctx, conn, len(guardTable.columns), guardRow, guardTable.selects()+"ORDER BY pool LIMIT ?", maxPools)
	})
}

// Told implements control.GuardJournal.
func (s *Store) Told(ctx context.Context, incident, kind, actor string, since time.Time) (bool, error) {
	return read(ctx, s, "read what was told", func(ctx context.Context, conn *sql.Conn) (bool, error) {
		var one int
		err := conn.QueryRowContext(ctx, "SELECT 1 FROM incident_events WHERE incident = ? AND kind = ? AND actor = ? AND at_ms >= ? LIMIT 1",
			incident, kind, short(actor), ms(since)).Scan(&one)
		if errors.Is(err, sql.ErrNoRows) {
			return false, nil
		}
		return err == nil, err
	})
}

func guardValues(g control.Guard) []any {
	return []any{
		g.Pool, string(g.State), ms(g.Since), ms(g.Until), short(g.Rule), short(g.Incident), short(g.Change), flipsText(g.Flips),
		ms(g.LatchedUntil), short(g.LatchedBy), short(g.Latch),
	}
}

func guardRow(v []any) (control.Guard, error) {
	f := fields{table: guardTable.name}
	g := control.Guard{
		Pool: f.named("pool", v[0]), State: control.GuardState(f.one("state", v[1], guardStates())),
		Since: f.when("since_ms", v[2]), Until: f.when("until_ms", v[3]), Rule: f.text("rule", v[4], maxName),
		Incident: f.text("incident", v[5], maxName), Change: f.text("change_id", v[6], maxName), Flips: f.flips("flips", v[7]),
		LatchedUntil: f.when("latched_ms", v[8]), LatchedBy: f.text("latched_by", v[9], maxName), Latch: f.text("latch", v[10], maxName),
	}
	return g, f.bad
}

func guardStates() []string {
	var all []string
	for _, s := range control.GuardStates() {
		all = append(all, string(s))
	}
	return all
}
