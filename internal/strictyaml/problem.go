package strictyaml

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong with a file. It is an error.
type Problem struct {
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
func (p Problem) Error() string {
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

// Problems are all that is wrong with files, in their order. It is an error with
// one problem per line.
type Problems []Problem

// Error returns one problem per line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// MaxProblems bounds what a hostile file can make us print.
const MaxProblems = 200

// Place is where something stands in a file. Both count from 1; 0 means unknown.
type Place struct{ Line, Col int }

// Ledger collects problems against the places of one file. It is for one
// goroutine.
type Ledger struct {
	file     string
	places   map[string]Place
	problems Problems
	dropped  int
}

// NewLedger returns an empty ledger of a file.
func NewLedger(file string) *Ledger { return &Ledger{file: file, places: map[string]Place{}} }

// Refuse records a problem at the place of a path, or of the nearest path above it
// that was written.
func (l *Ledger) Refuse(path, message string) {
	path = strings.TrimSuffix(path, ".")
	at, up := l.places[path], path
	for at.Line == 0 && up != "" {
		up = up[:max(0, strings.LastIndexAny(up, ".["))]
		at = l.places[up]
	}
	l.RefuseAt(at, path, message)
}

// Refusef is Refuse with a format.
func (l *Ledger) Refusef(path, format string, args ...any) {
	l.Refuse(path, fmt.Sprintf(format, args...))
}

// RefuseAt records a problem at a place.
func (l *Ledger) RefuseAt(at Place, path, message string) {
	if len(l.problems) >= MaxProblems {
		l.dropped++
		return
	}
	l.problems = append(l.problems, Problem{File: l.file, Line: at.Line, Col: at.Col, Path: path, Message: message})
}

// File returns the name of the file.
func (l *Ledger) File() string { return l.file }

// Put notes where a setting stands.
func (l *Ledger) Put(path string, at Place) { l.places[path] = at }

// At returns where a setting stands; false if it was not written.
func (l *Ledger) At(path string) (Place, bool) {
	at, ok := l.places[path]
	return at, ok
}

// Count returns how many problems there are so far, to a bound.
func (l *Ledger) Count() int { return len(l.problems) }

// Problems returns the problems so far, in the order in which they were found.
func (l *Ledger) Problems() Problems { return l.problems }

// Clean says whether there is no problem so far.
func (l *Ledger) Clean() bool { return len(l.problems) == 0 }

// Err returns the Problems sorted by position, or nil.
func (l *Ledger) Err() error {
	if l.Clean() {
		return nil
	}
	slices.SortStableFunc(l.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	if l.dropped > 0 {
		return append(l.problems, Problem{File: l.file, Message: "and " + strconv.Itoa(l.dropped) + " more problems"})
	}
	return l.problems
}
