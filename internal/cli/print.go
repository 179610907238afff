package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"golang.org/x/term"

	"headgate/internal/format"
)

// IsTerminal reports whether w is a terminal.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// style is how a line stands out on a terminal.
type style string

const (
	plain   style = ""
	warning style = "33" // yellow
	alarm   style = "31" // red
)

// printer collects what a command shows. Arguments of its methods are made
// printable; format strings are trusted.
type printer struct {
	bytes.Buffer
	colour bool
}

// newPrinter colours what goes to a terminal, unless NO_COLOR is set.
func (s *Service) newPrinter() *printer {
	no, _ := s.LookupEnv("NO_COLOR")
	return &printer{colour: no == "" && IsTerminal(s.Out)}
}

// show writes v as JSON with --json, else what text prints.
func (s *Service) show(v any, text func(*printer)) error {
	if s.JSON {
		return printJSON(s.Out, v)
	}
	p := s.newPrinter()
	text(p)
	_, err := s.Out.Write(p.Bytes())
	return err
}

// messagef writes a message to stderr.
func (s *Service) messagef(text string, args ...any) {
	fmt.Fprintf(s.Err, "headgate: "+text+"\n", printable(args)...)
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

// printf writes formatted text.
func (p *printer) printf(text string, args ...any) {
	fmt.Fprintf(p, text, printable(args)...)
}

// line writes one line in a style.
func (p *printer) line(s style, text string, args ...any) {
	p.WriteString(p.paint(s, fmt.Sprintf(text, printable(args)...)) + "\n")
}

func (p *printer) paint(s style, line string) string {
	if !p.colour || s == plain {
		return line
	}
	return "\x1b[1;" + string(s) + "m" + line + "\x1b[0m"
}

// printable makes string arguments printable. Numbers and durations are already.
func printable(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		if s, ok := a.(string); ok {
			a = format.Printable(s)
		}
		out[i] = a
	}
	return out
}

// table aligns columns. Empty cells are shown as "-".
type table struct {
	p      *printer
	text   bytes.Buffer
	rows   *tabwriter.Writer
	styles []style
}

// table begins a table, after an empty line if something stands above it.
func (p *printer) table(header ...any) *table {
	t := &table{p: p}
	t.rows = tabwriter.NewWriter(&t.text, 0, 0, 2, ' ', 0)
	if len(header) > 0 {
		t.row(plain, header...)
	}
	return t
}

// blank is a cell that stays empty.
type blank struct{}

// row adds a row in a style.
func (t *table) row(s style, cells ...any) {
	t.styles = append(t.styles, s)
	for i, c := range cells {
		if i > 0 {
			io.WriteString(t.rows, "\t")
		}
		io.WriteString(t.rows, cell(c))
	}
	io.WriteString(t.rows, "\n")
}

// cell is the text of a cell: "-" for empty text.
func cell(v any) string {
	if v == (blank{}) {
		return ""
	}
	return cmp.Or(format.Printable(fmt.Sprint(v)), "-")
}

// fact adds a name and its value, unless that is empty.
func (t *table) fact(name, value string) {
	if value != "" {
		t.row(plain, name, value)
	}
}

// list shows a table with one row for each item, or what to say when there are none.
func list[T any](p *printer, items []T, none string, header []any, row func(t *table, item *T)) {
	if len(items) == 0 {
		p.printf("%s\n", none)
		return
	}
	t := p.table(header...)
	for i := range items {
		row(t, &items[i])
	}
	t.end()
}

// end writes the table.
func (t *table) end() {
	_ = t.rows.Flush() // into memory
	n := 0
	for line := range strings.Lines(t.text.String()) {
		t.p.WriteString(t.p.paint(t.styles[n], strings.TrimRight(line, " \n")) + "\n")
		n++
	}
}

// optional shows a number that may be absent.
func optional(v *float64, show func(float64) string) string {
	if v == nil {
		return "-"
	}
	return show(*v)
}

// amount shows a value with its unit, which may be unknown.
func amount(v *float64, unit string) string {
	if v == nil {
		return format.Unknown
	}
	return format.Table.Value(*v, unit)
}

// timestamp shows a time of the API to the second.
func timestamp(t time.Time) string { return timestampOr(t, format.Unknown) }

// timestampOr is timestamp for a time that may be absent.
func timestampOr(t time.Time, none string) string {
	if t.IsZero() {
		return none
	}
	return t.UTC().Format(time.RFC3339)
}

// elapsed shows a duration.
func elapsed(d time.Duration) string { return format.Table.Seconds(d.Seconds()) }

// clock shows a time, and how long ago it was.
func clock(t, now time.Time) string {
	if t.IsZero() {
		return "the start"
	}
	shown := t.UTC().Format("15:04:05Z")
	if now.Sub(t).Abs() > 20*time.Hour {
		shown = t.UTC().Format("2006-01-02 15:04Z")
	}
	return fmt.Sprintf("%s (%s ago)", shown, format.Table.Seconds(max(now.Sub(t).Seconds(), 0)))
}

// shellQuote quotes a word for a shell if it has to be.
func shellQuote(s string) string {
	safe := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("-_./:@%+=,", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !safe(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(format.Printable(s), "'", `'\''`) + "'"
}
