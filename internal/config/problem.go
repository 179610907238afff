package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Problem is one refusal or warning. It is an error.
type Problem struct {
	// File is the configuration file's name; empty when there is none.
	File string
	// Line and Col count from 1, Col in characters; 0 means unknown.
	Line, Col int
	// Path is the setting, written pools[0].workers; empty for the whole file.
	Path string
	// Message says what is wrong and what would be right. It never holds a secret
	// or anything that was filled in.
	Message string

	cause error
}

// Error returns FILE:LINE:COL: path: message, without the parts that are unknown.
func (p Problem) Error() string {
	var b strings.Builder
	if p.File != "" {
		b.WriteString(p.File)
		if p.Line > 0 {
			b.WriteString(":" + strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Col))
		}
		b.WriteString(": ")
	}
	if p.Path != "" {
		b.WriteString(p.Path + ": ")
	}
	b.WriteString(p.Message)
	return b.String()
}

// Unwrap returns the error that a room refused with, if one did.
func (p Problem) Unwrap() error { return p.cause }

// Problems are all refusals of one load, in the order of the file. It is an
// error with one problem per line.
type Problems []Problem

// Error returns one problem per line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the problems one by one, for errors.Is and errors.As.
func (ps Problems) Unwrap() []error {
	errs := make([]error, len(ps))
	for i, p := range ps {
		errs[i] = p
	}
	return errs
}

// maxProblems bounds what a hostile file can make us compute and print.
const maxProblems = 200

// ledger collects problems against the places of one file.
type ledger struct {
	src      *source
	problems Problems
	paths    map[string]bool // paths that already have a problem
	dropped  int
}

func newLedger(src *source) *ledger {
	return &ledger{src: src, paths: map[string]bool{}}
}

// refuse records a problem at the place of path.
func (l *ledger) refuse(path, message string) {
	l.refuseAt(l.src.place(path), path, message)
}

// refuseAt records a problem of path at a given place.
func (l *ledger) refuseAt(at place, path, message string) {
	l.paths[path] = true
	l.record(at, path, message)
}

// record notes a problem that leaves the setting at path itself usable.
func (l *ledger) record(at place, path, message string) {
	if l.full() {
		l.dropped++
		return
	}
	l.problems = append(l.problems, Problem{File: l.src.name(), Line: at.line, Col: at.col, Path: path, Message: message})
}

// clean reports whether neither the paths nor their parents have a problem yet:
// what is already refused is not worth a second opinion.
func (l *ledger) clean(paths ...string) bool {
	for _, p := range paths {
		for ; p != ""; p = parent(p) {
			if l.paths[p] {
				return false
			}
		}
	}
	return true
}

func (l *ledger) full() bool { return len(l.problems) >= maxProblems }

// err returns the problems sorted by position, or nil.
func (l *ledger) err() error {
	if len(l.problems) == 0 {
		return nil
	}
	slices.SortStableFunc(l.problems, func(a, b Problem) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	if l.dropped > 0 {
		more := Problem{File: l.src.name(), Message: "and " + strconv.Itoa(l.dropped) + " more problems"}
		return append(l.problems, more)
	}
	return l.problems
}
