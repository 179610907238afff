package sqlite

import (
	"context"
	"database/sql"
	"fmt"
	"slices"

	"headgate/runbooks/control"
)

var pauseTable = table{name: "pauses", key: []string{"pool"}, columns: []string{"pool", "since_ms", "until_ms", "actor", "via", "reason"}}

// SavePause implements control.PauseStore. When it returns nil, the pause, or
// its end, survives loss of power.
func (s *Store) SavePause(ctx context.Context, p control.Pause) error {
	switch {
	case !isName(p.Pool):
		return fmt.Errorf("record a pause: its pool must be a name of 1 to %d bytes", maxName)
	case !slices.Contains(control.Vias(), p.Via):
		return fmt.Errorf("record a pause: no such way: %.40q", p.Via)
	}
	return s.writeTx(ctx, "record a pause", func(ctx context.Context, tx *sql.Tx) (err error) {
		l := s.newTxWriter(tx)
		if p.Until.IsZero() {
			_, err = l.exec(ctx, "DELETE FROM pauses WHERE pool = ?", p.Pool)
			return err
		}
		_, err = l.writeRow(ctx, pauseTable.upsertSQL(), []any{p.Pool, ms(p.Since), ms(p.Until), cleanName(p.Actor), string(p.Via), clean(p.Reason, maxReason)})
		return err
	})
}

// Pauses implements control.PauseStore, in the order of the pools' names.
func (s *Store) Pauses(ctx context.Context) ([]control.Pause, error) {
	return read(ctx, s, "read the pauses", func(ctx context.Context, conn *sql.Conn) ([]control.Pause, error) {
		return query(ctx, conn, len(pauseTable.columns), decodePause, pauseTable.selectSQL()+"ORDER BY pool LIMIT ?", maxPools)
	})
}

func decodePause(v []any) (control.Pause, error) {
	f := rowDecoder{table: pauseTable.name}
	p := control.Pause{
		Pool: f.keyName("pool", v[0]), Since: f.optionalTime("since_ms", v[1]), Until: f.optionalTime("until_ms", v[2]),
		Actor: f.text("actor", v[3], maxName), Via: control.Via(f.word("via", v[4])), Reason: f.text("reason", v[5], maxReason),
	}
	return p, f.err
}
