package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Diagnostic is one thing that is wrong with a file. It is an error.
type Diagnostic struct {
	// File is the file's name.
	File string
	// Line and Col count from 1; 0 means unknown.
	Line, Col int
	// Path is the setting, written rules[0].warn.at; empty for the whole file.
	Path string
	// Message says what is wrong and what would be right.
	Message string
}

// Error returns FILE:LINE:COL: path: message, without the parts that are unknown.
func (p Diagnostic) Error() string {
	text := p.File
	if p.Line > 0 {
		text += ":" + strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Col)
	}
	if text != "" {
		text += ": "
	}
	if p.Path != "" {
		text += p.Path + ": "
	}
	return text + p.Message
}

// Diagnostics are all that is wrong with files, in their order. It is an error with
// one problem per line.
type Diagnostics []Diagnostic

// Error returns one problem per line.
func (ps Diagnostics) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// MaxDiagnostics bounds what a hostile file can make us print.
const MaxDiagnostics = 200

// Position is where something stands in a file. Both count from 1; 0 means unknown.
type Position struct{ Line, Col int }

// Decoder collects problems against the places of one file. It is for one
// goroutine.
type Decoder struct {
	file        string
	positions   map[string]Position
	diagnostics Diagnostics
	dropped     int
}

// NewDecoder returns an empty ledger of a file.
func NewDecoder(file string) *Decoder { return &Decoder{file: file, positions: map[string]Position{}} }

// Report records a problem at the place of a path, or of the nearest path above it
// that was written.
func (l *Decoder) Report(path, message string) {
	path = strings.TrimSuffix(path, ".")
	at, up := l.positions[path], path
	for at.Line == 0 && up != "" {
		up = up[:max(0, strings.LastIndexAny(up, ".["))]
		at = l.positions[up]
	}
	l.ReportAt(at, path, message)
}

// Reportf is Refuse with a format.
func (l *Decoder) Reportf(path, format string, args ...any) {
	l.Report(path, fmt.Sprintf(format, args...))
}

// ReportAt records a problem at a place.
func (l *Decoder) ReportAt(at Position, path, message string) {
	if len(l.diagnostics) >= MaxDiagnostics {
		l.dropped++
		return
	}
	l.diagnostics = append(l.diagnostics, Diagnostic{File: l.file, Line: at.Line, Col: at.Col, Path: path, Message: message})
}

// File returns the name of the file.
func (l *Decoder) File() string { return l.file }

// SetPosition notes where a setting stands.
func (l *Decoder) SetPosition(path string, at Position) { l.positions[path] = at }

// PositionAt returns where a setting stands; false if it was not written.
func (l *Decoder) PositionAt(path string) (Position, bool) {
	at, ok := l.positions[path]
	return at, ok
}

// Len returns how many problems there are so far, to a bound.
func (l *Decoder) Len() int { return len(l.diagnostics) }

// Diagnostics returns the problems so far, in the order in which they were found.
func (l *Decoder) Diagnostics() Diagnostics { return l.diagnostics }

// OK says whether there is no problem so far.
func (l *Decoder) OK() bool { return len(l.diagnostics) == 0 }

// Err returns the Diagnostics sorted by position, or nil.
func (l *Decoder) Err() error {
	if l.OK() {
		return nil
	}
	slices.SortStableFunc(l.diagnostics, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	if l.dropped > 0 {
		return append(l.diagnostics, Diagnostic{File: l.file, Message: "and " + strconv.Itoa(l.dropped) + " more problems"})
	}
	return l.diagnostics
}
