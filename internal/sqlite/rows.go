package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"
	"unicode/utf8"

	"headgate/proxy/admission"
)

// Bounds of what is kept, in bytes.
const (
	maxID     = 64
	maxWord   = 32   // words that the program itself makes, such as kinds of events
	maxName   = 255  // pools, actors, writers
	maxReason = 2000 // what people write
	maxBody   = 60_000
)

const (
	maxItems = 1000 // of a list within a row
	// maxNumber bounds numbers, so that one more is always possible, and so that
	// JavaScript can hold them.
	maxNumber = 1<<53 - 1
	// maxTime is the end of the year 9999, the last that RFC 3339 can write, in milliseconds.
	maxTime = 253402300799999
)

// table names the columns of a table. The last column of each table, writer, is not among
// them: it is added when a row is written.
type table struct {
	name    string
	key     []string
	columns []string
}

// selectSQL begins a statement that reads rows.
func (t table) selectSQL(more ...string) string {
	return "SELECT " + strings.Join(append(slices.Clone(t.columns), more...), ", ") + " FROM " + t.name + " "
}

func (t table) insertSQL() string {
	return "INSERT INTO " + t.name + " (" + strings.Join(t.columns, ", ") + ", writer) VALUES (" + strings.Repeat("?, ", len(t.columns)) + "?)"
}

// insertIgnoreSQL writes a row unless one with its key is there.
func (t table) insertIgnoreSQL() string {
	return t.insertSQL() + " ON CONFLICT (" + strings.Join(t.key, ", ") + ") DO NOTHING"
}

// insertOnceSQL is insertIgnoreSQL for a table whose triggers refuse a second row with the
// same ID. The ID is the argument after the writer.
func (t table) insertOnceSQL() string {
	return "INSERT INTO " + t.name + " (" + strings.Join(t.columns, ", ") + ", writer) SELECT " + strings.Repeat("?, ", len(t.columns)) +
		"? WHERE NOT EXISTS (SELECT 1 FROM " + t.name + " WHERE id = ?)"
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

// txWriter reads and writes in one transaction. Each statement is prepared once: a batch that
// accumulated while the record could not be written may hold ten thousand events. After the
// first error nothing more is written, as in its reader.
type txWriter struct {
	reader
	tx      *sql.Tx
	writer  string
	session string
	stmts   map[string]*sql.Stmt // closed with the transaction
}

// writeRow writes a row, and returns whether that has changed anything.
func (w *txWriter) writeRow(text string, values ...any) bool {
	return w.exec(text, append(values, w.writer)...)
}

// exec executes a statement, and returns whether that has changed anything.
func (w *txWriter) exec(text string, args ...any) bool {
	if w.err != nil {
		return false
	}
	stmt := w.stmts[text]
	if stmt == nil {
		if stmt, w.err = w.tx.PrepareContext(w.ctx, text); w.err != nil {
			return false
		}
		w.stmts[text] = stmt
	}
	done, err := stmt.ExecContext(w.ctx, args...)
	if err != nil {
		w.err = err
		return false
	}
	n, err := done.RowsAffected()
	w.err = err
	return n > 0
}

// writeBody writes a row whose last column is the body of v.
func writeBody[T any](w *txWriter, text string, v T, values ...any) bool {
	body, err := encodeBody(v)
	if err != nil {
		w.fail(err)
		return false
	}
	return w.writeRow(text, append(values, body)...)
}

// queryer is what a connection and a transaction have in common.
type queryer interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

// query makes a T of each row of a table. The rows are closed when it returns: an open
// one would keep the -wal file growing.
func query[T any](r *reader, t table, from func(*row) T, text string, args ...any) (all []T) {
	queryEach(r, t, func(row *row) { all = append(all, from(row)) }, text, args...)
	if r.err != nil {
		return nil
	}
	return all
}

// queryEach is query for a function without a result.
func queryEach(r *reader, t table, f func(*row), text string, args ...any) {
	if r.err != nil {
		return
	}
	rows, err := r.q.QueryContext(r.ctx, text, args...)
	if err != nil {
		r.err = err
		return
	}
	r.err = errors.Join(readRows(rows, t.name, f), rows.Close())
}

func readRows(rows *sql.Rows, table string, f func(*row)) error {
	columns, err := rows.Columns()
	if err != nil {
		return err
	}
	values, targets := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		targets[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(targets...); err != nil {
			return err
		}
		r := row{table: table, columns: columns, values: values}
		if f(&r); r.err != nil {
			return r.err
		}
	}
	return rows.Err()
}

// queryOne is query for a statement that finds one row at most. Without a row, found is
// false.
func queryOne[T any](r *reader, t table, from func(*row) T, text string, args ...any) (v T, found bool) {
	if all := query(r, t, from, text, args...); len(all) > 0 {
		return all[0], true
	}
	return v, false
}

// exists says whether a statement finds a row.
func exists(r *reader, text string, args ...any) bool {
	_, found := queryOne(r, table{}, func(*row) struct{} { return struct{}{} }, text, args...)
	return found
}

// queryAtMost is query for a statement whose last argument, the limit, it adds. ErrCorrupt:
// there are more than most rows, which is more than can ever have been written.
func queryAtMost[T any](r *reader, most int, t table, from func(*row) T, text string, args ...any) []T {
	out := query(r, t, from, text, append(args, most+1)...)
	if len(out) > most {
		r.fail(fmt.Errorf("%w: %s has more than %d rows", ErrCorrupt, t.name, most))
	}
	return out
}

// row is a row that has been read. The first invalid value is kept in err,
// which names its column but not its value.
type row struct {
	table   string
	columns []string
	values  []any
	err     error
}

func (r *row) fail(column string) {
	if r.err == nil {
		r.err = fmt.Errorf("%w: invalid value of %s.%s", ErrCorrupt, r.table, column)
	}
}

// value returns a value as SQLite has it.
func (r *row) value(column string) any {
	if n := slices.Index(r.columns, column); n >= 0 {
		return r.values[n]
	}
	return nil
}

// raw reads a text as it is.
func (r *row) raw(column string) string {
	s, ok := r.value(column).(string)
	if !ok || len(s) > maxLength {
		r.fail(column)
		return ""
	}
	return s
}

// text reads a text for people. Characters that could play tricks on a terminal become
// spaces.
func (r *row) text(column string, most int) string {
	s, ok := r.value(column).(string)
	if !ok || len(s) > most || !utf8.ValidString(s) {
		r.fail(column)
		return ""
	}
	return clean(s, most)
}

// name reads a name that need not be part of a key.
func (r *row) name(column string) string { return r.text(column, maxName) }

// valid reads a text that must satisfy ok.
func (r *row) valid(column string, ok func(string) bool) string {
	s, isText := r.value(column).(string)
	if !isText || !ok(s) {
		r.fail(column)
		return ""
	}
	return s
}

// id reads an ID.
func (r *row) id(column string) string { return r.valid(column, validID) }

// optionalID reads an ID, or the empty text.
func (r *row) optionalID(column string) string {
	return r.valid(column, func(s string) bool { return s == "" || validID(s) })
}

// keyName reads a name that is part of a key: it must not have to be altered.
func (r *row) keyName(column string) string { return r.valid(column, isName) }

// word reads a word that the program has made, or the empty text. Unknown words pass:
// later versions may know more.
func (r *row) word(column string) string { return r.valid(column, isWord) }

// oneOf reads a word that must be one of those given.
func oneOf[T ~string](r *row, column string, words []T) T {
	return T(r.valid(column, func(s string) bool { return slices.Contains(words, T(s)) }))
}

// number reads a whole number from 0 to most.
func (r *row) number(column string, most int64) int64 {
	n, ok := r.value(column).(int64)
	if !ok || n < 0 || n > most {
		r.fail(column)
		return 0
	}
	return n
}

// flag reads 0 or 1.
func (r *row) flag(column string) bool { return r.number(column, 1) == 1 }

// count reads a number of things.
func (r *row) count(column string) int { return int(r.number(column, math.MaxInt32)) }

// time reads milliseconds.
func (r *row) time(column string) time.Time { return time.UnixMilli(r.number(column, maxTime)).UTC() }

// optionalTime reads a time that is 0 while it is missing.
func (r *row) optionalTime(column string) time.Time {
	if r.value(column) == int64(0) {
		return time.Time{}
	}
	return r.time(column)
}

// finite reads a finite number. One without a fraction may come as a whole one.
func (r *row) finite(column string) float64 {
	switch n := r.value(column).(type) {
	case int64:
		return float64(n)
	case float64:
		if n == finiteOrZero(n) {
			return n
		}
	}
	r.fail(column)
	return 0
}

// mode reads the name of a mode.
func (r *row) mode(column string) admission.Mode {
	m, err := admission.ParseMode(r.name(column))
	if err != nil {
		r.fail(column)
	}
	return m
}

// ms writes a time that may be missing: 0 while it is.
func ms(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return min(max(t.UnixMilli(), 1), maxTime)
}

// btoi writes a flag.
func btoi(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// clampCount bounds a number of things to what is read back.
func clampCount(n int) int { return min(max(n, 0), math.MaxInt32) }

// finiteOrZero writes a number that need not be whole. SQL and JSON know no others than
// finite ones.
func finiteOrZero(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// validID says whether a text can be the ID of a row and part of a key.
func validID(s string) bool {
	return s != "" && len(s) <= maxID && strings.IndexFunc(s, func(r rune) bool {
		return r != '-' && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	}) < 0
}

func isWord(s string) bool {
	return len(s) <= maxWord && strings.IndexFunc(s, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) < 0
}

// isToken is isWord for words with digits, such as names of measures, and for comparisons.
func isToken(s string) bool {
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_-<>=") == ""
}

// isName says whether a text can be a name that is part of a key.
func isName(s string) bool { return s != "" && cleanName(s) == s }

// checkID returns an error unless id can be an ID.
func checkID(what, id string) error {
	if !validID(id) {
		return fmt.Errorf("%s must be 1 to %d letters, digits and dashes", what, maxID)
	}
	return nil
}

// checkName returns an error unless a name can be part of a key.
func checkName(what, name string) error {
	if !isName(name) {
		return fmt.Errorf("%s must be a name of 1 to %d bytes", what, maxName)
	}
	return nil
}

// checkOptionalName is checkName for a name that may be empty.
func checkOptionalName(what, name string) error {
	if name == "" {
		return nil
	}
	return checkName(what, name)
}

// checkOneOf returns an error unless a word is one of those given.
func checkOneOf[T ~string](what string, word T, words []T) error {
	if !slices.Contains(words, word) {
		return fmt.Errorf("%s must be one of %q, is %.40q", what, words, word)
	}
	return nil
}

// checkMode returns an error unless there is such a mode.
func checkMode(m admission.Mode) error {
	if !slices.Contains(admission.Modes(), m) {
		return fmt.Errorf("no such mode: %d", m)
	}
	return nil
}

// cleanName writes a name.
func cleanName(s string) string { return clean(s, maxName) }

// clean makes a text fit to be kept and shown: valid, on one line, not too long.
// Refusing it instead would keep the change that it belongs to out of the record.
func clean(s string, most int) string {
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return truncate(s, most)
}

// truncate cuts a text between two characters.
func truncate(s string, most int) string {
	if len(s) <= most {
		return s
	}
	for !utf8.RuneStart(s[most]) {
		most--
	}
	return s[:most]
}

// encodeBody writes a value as the JSON body of a row: its texts fit to be kept, its
// numbers and times within bounds.
func encodeBody[T any](v T) (string, error) {
	bound(reflect.ValueOf(&v).Elem(), maxName, false)
	return encodeJSON(v)
}

func encodeJSON(v any) (string, error) {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(out.String(), "\n"), err
}

// decodeBody reads what encodeBody has written. Values out of bounds are wrong with their
// column.
func decodeBody[T any](r *row, column string) (v T) {
	text := r.raw(column)
	if err := json.Unmarshal([]byte(text), &v); err != nil || !utf8.ValidString(text) || !bound(reflect.ValueOf(&v).Elem(), maxName, true) {
		r.fail(column)
		return *new(T)
	}
	return v
}

// longTexts are the names of fields that hold sentences. All texts of a drill's definition
// may be as long: its parser has bounded them.
var longTexts = []string{"Summary", "Impact", "Reason", "FallbackReason", "Evidence", "Text", "Note", "What"}

// multiline are the fields that may have more than one line, each of at most maxReason.
var multiline = []string{"Message.Text", "Spec.Note"}

// fieldBounds are how the fields of a struct are bounded.
type fieldBounds struct {
	most  int // bytes of a text; 0: as the struct's own
	lines bool
}

// boundsOf caches the bounds of types: reflection on fields takes longer than decoding them.
var boundsOf sync.Map // reflect.Type to []fieldBounds

func boundsOfType(t reflect.Type) []fieldBounds {
	if known, ok := boundsOf.Load(t); ok {
		return known.([]fieldBounds)
	}
	all := make([]fieldBounds, t.NumField())
	for n := range all {
		name := t.Field(n).Name
		if t.Name() == "Spec" || slices.Contains(longTexts, name) {
			all[n].most = maxReason
		}
		all[n].lines = slices.Contains(multiline, t.Name()+"."+name)
	}
	boundsOf.Store(t, all)
	return all
}

// bound cleans the texts of a value and of all in it. It corrects texts that are too long and other
// values out of bounds; with strict it rejects them by returning false.
func bound(v reflect.Value, most int, strict bool) bool {
	ok := true
	switch v.Kind() {
	case reflect.String:
		if v.Type() != reflect.TypeFor[string]() { // a word of the program
			most = maxWord
			ok = isToken(v.String())
		}
		ok = ok && len(v.String()) <= most
		if text := clean(v.String(), most); text != v.String() {
			v.SetString(text)
		}
	case reflect.Float64:
		v.SetFloat(finiteOrZero(v.Float())) // JSON has no others
	case reflect.Int:
		n := int64(clampCount(int(v.Int())))
		ok = v.Int() == n
		v.SetInt(n)
	case reflect.Int64:
		ok = v.Int() >= 0
		v.SetInt(max(v.Int(), 0))
	case reflect.Slice:
		ok = v.Len() <= maxItems
		if !strict && v.Len() > 0 { // the original may be in use
			all := reflect.MakeSlice(v.Type(), min(v.Len(), maxItems), min(v.Len(), maxItems))
			reflect.Copy(all, v)
			v.Set(all)
		}
		for n := range v.Len() {
			ok = bound(v.Index(n), most, strict) && ok
		}
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			ok = boundTime(v.Addr().Interface().(*time.Time))
			break
		}
		for n, b := range boundsOfType(v.Type()) {
			field := v.Field(n)
			if b.lines {
				ok = boundLines(field, strict) && ok
				continue
			}
			ok = bound(field, cmp.Or(b.most, most), strict) && ok
		}
	}
	return ok || !strict
}

// boundTime cuts a time to milliseconds.
func boundTime(t *time.Time) bool {
	if t.IsZero() {
		return true
	}
	at, before := ms(*t), t.UnixMilli()
	*t = time.UnixMilli(at).UTC()
	return at == before
}

// boundLines is bound for a text of several lines, each of at most maxReason bytes.
func boundLines(v reflect.Value, strict bool) bool {
	text := v.String()
	if !strict {
		text = truncate(strings.ToValidUTF8(text, "?"), maxReason)
	}
	lines := strings.Split(text, "\n")
	ok := bound(reflect.ValueOf(&lines).Elem(), maxReason, strict)
	v.SetString(strings.Join(lines, "\n"))
	return ok
}

// fitItems returns as many of the first items of a list as fit into size bytes of JSON.
func fitItems[T any](all []T, size int) []T {
	for n, v := range all[:min(len(all), maxItems)] {
		text, err := encodeBody(v)
		if size -= len(text) + 1; err != nil || size < 2 {
			return all[:n]
		}
	}
	return all[:min(len(all), maxItems)]
}

// encodeTimes writes the latest times of a list, with commas between them.
func encodeTimes(times []time.Time) string {
	times = times[max(0, len(times)-maxItems):]
	texts := make([]string, len(times))
	for n, at := range times {
		texts[n] = strconv.FormatInt(ms(at), 10)
	}
	return strings.Join(texts, ",")
}

// times reads what encodeTimes has written.
func (r *row) times(column string) (times []time.Time) {
	var all []int64
	err := json.Unmarshal([]byte("["+r.raw(column)+"]"), &all)
	for _, at := range all {
		if at < 1 || at > maxTime { // 0 stands for no time, and is never written here
			r.fail(column)
		}
		times = append(times, time.UnixMilli(at).UTC())
	}
	if err != nil || len(all) > maxItems {
		r.fail(column)
	}
	return times
}
