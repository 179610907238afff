package sqlite

import (
	"context"
	"database/sql"
	"slices"
	"strings"
)

// table is how the rows of a table are written and read. Its last column, writer,
// is only written.
type table struct {
	name    string
	key     []string
	columns []string // all but writer, in the order in which rows are passed about
}

// selectSQL begins a statement that reads rows.
func (t table) selectSQL() string {
	return "SELECT " + strings.Join(t.columns, ", ") + " FROM " + t.name + " "
}

func (t table) insertSQL() string {
	return "INSERT INTO " + t.name + " (" + strings.Join(t.columns, ", ") + ", writer) VALUES (" + strings.Repeat("?, ", len(t.columns)) + "?)"
}

// insertIgnoreSQL writes a row unless one with its key is there.
func (t table) insertIgnoreSQL() string {
	return t.insertSQL() + " ON CONFLICT (" + strings.Join(t.key, ", ") + ") DO NOTHING"
}

// upsertSQL writes a row in the place of the one with its key, if there is one, whose
// columns in kept stay as they are.
func (t table) upsertSQL(kept ...string) string {
	var set []string
	for _, c := range append(slices.Clone(t.columns), "writer") {
		if !slices.Contains(t.key, c) && !slices.Contains(kept, c) {
			set = append(set, c+" = excluded."+c)
		}
	}
	return t.insertSQL() + " ON CONFLICT (" + strings.Join(t.key, ", ") + ") DO UPDATE SET " + strings.Join(set, ", ")
}

// toMap names the values of a row.
func (t table) toMap(values []any) map[string]any {
	o := make(map[string]any, len(values))
	for n, c := range t.columns {
		o[c] = values[n]
	}
	return o
}

// fromMap is object the other way; what is missing is nil, which no field takes.
func (t table) fromMap(o map[string]any) []any {
	values := make([]any, len(t.columns))
	for n, c := range t.columns {
		values[n] = o[c]
	}
	return values
}

// txWriter writes rows in one transaction, each statement prepared once: what has
// gathered while the record could not be written may be ten thousand events.
type txWriter struct {
	tx     *sql.Tx
	writer string
	stmts  map[string]*sql.Stmt // closed with the transaction
}

func (s *Store) newTxWriter(tx *sql.Tx) *txWriter {
	return &txWriter{tx: tx, writer: s.writerName, stmts: make(map[string]*sql.Stmt)}
}

// writeRow writes a row, and returns whether that has changed anything.
func (l *txWriter) writeRow(ctx context.Context, text string, values []any) (bool, error) {
	return l.exec(ctx, text, append(values, l.writer)...)
}

func (l *txWriter) exec(ctx context.Context, text string, args ...any) (bool, error) {
	stmt, err := l.stmt(ctx, text)
	if err != nil {
		return false, err
	}
	done, err := stmt.ExecContext(ctx, args...)
	if err != nil {
		return false, err
	}
	n, err := done.RowsAffected()
	return n > 0, err
}

func (l *txWriter) stmt(ctx context.Context, text string) (*sql.Stmt, error) {
	if stmt, ok := l.stmts[text]; ok {
		return stmt, nil
	}
	stmt, err := l.tx.PrepareContext(ctx, text)
	if err != nil {
		return nil, err
	}
	l.stmts[text] = stmt
	return stmt, nil
}
