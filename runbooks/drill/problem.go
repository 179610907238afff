package drill

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong with a definition. It is an error.
type Problem struct {
	// File is where the definition stands.
	File string
	// Line and Col count from 1; 0 means unknown.
	Line, Col int
	// Path is the setting, written expect[0]; empty for all of it.
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

// Problems are all that is wrong with definitions, in the order of their file. It
// is an error with one problem per line.
type Problems []Problem

// Error returns one problem per line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// maxProblems bounds what a hostile file can make us print.
const maxProblems = 100

type place struct{ line, col int }

// ledger collects problems against the places of one file.
type ledger struct {
	file     string
	places   map[string]place
	problems Problems
	dropped  int
}

func newLedger(file string) *ledger { return &ledger{file: file, places: map[string]place{}} }

// refuse records a problem at the place of a path, or of the nearest path above it
// that was written.
func (l *ledger) refuse(path, message string) {
	at, up := l.places[path], path
	for at.line == 0 && up != "" {
		up = up[:max(0, strings.LastIndexAny(up, ".["))]
		at = l.places[up]
	}
	l.refuseAt(at, path, message)
}

func (l *ledger) refusef(path, format string, args ...any) {
	l.refuse(path, fmt.Sprintf(format, args...))
}

func (l *ledger) refuseAt(at place, path, message string) {
	if len(l.problems) >= maxProblems {
		l.dropped++
		return
	}
	l.problems = append(l.problems, Problem{File: l.file, Line: at.line, Col: at.col, Path: path, Message: message})
}

// err returns the problems sorted by position, or nil.
func (l *ledger) err() error {
	if len(l.problems) == 0 {
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
