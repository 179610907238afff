package config

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Diagnostic is one refusal or warning. It is an error.
type Diagnostic struct {
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
func (p Diagnostic) Error() string {
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
func (p Diagnostic) Unwrap() error { return p.cause }

// Diagnostics are all refusals of one load, in the order of the file. It is an
// error with one problem per line.
type Diagnostics []Diagnostic

// Error returns one problem per line.
func (ps Diagnostics) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap returns the problems one by one, for errors.Is and errors.As.
func (ps Diagnostics) Unwrap() []error {
	errs := make([]error, len(ps))
	for i, p := range ps {
		errs[i] = p
	}
	return errs
}

// maxDiagnostics bounds what a hostile file can make us compute and print.
const maxDiagnostics = 200

// checker collects problems against the places of one file.
type checker struct {
	source      *sourceMap
	diagnostics Diagnostics
	refused     map[string]bool // paths that already have a problem
	dropped     int
}

func newChecker(src *sourceMap) *checker {
	return &checker{source: src, refused: map[string]bool{}}
}

// report records a problem at the place of path.
func (l *checker) report(path, message string) {
	l.reportAt(l.source.position(path), path, message)
}

// reportAt records a problem of path at a given place.
func (l *checker) reportAt(at position, path, message string) {
	l.refused[path] = true
	l.add(at, path, message)
}

// add notes a problem that leaves the setting at path itself usable.
func (l *checker) add(at position, path, message string) {
	if l.full() {
		l.dropped++
		return
	}
	l.diagnostics = append(l.diagnostics, Diagnostic{File: l.source.fileName(), Line: at.line, Col: at.col, Path: path, Message: message})
}

// ok reports whether neither the paths nor their parents have a problem yet:
// what is already refused is not worth a second opinion.
func (l *checker) ok(paths ...string) bool {
	for _, p := range paths {
		for ; p != ""; p = parent(p) {
			if l.refused[p] {
				return false
			}
		}
	}
	return true
}

func (l *checker) full() bool { return len(l.diagnostics) >= maxDiagnostics }

// err returns the problems sorted by position, or nil.
func (l *checker) err() error {
	if len(l.diagnostics) == 0 {
		return nil
	}
	slices.SortStableFunc(l.diagnostics, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	if l.dropped > 0 {
		more := Diagnostic{File: l.source.fileName(), Message: "and " + strconv.Itoa(l.dropped) + " more problems"}
		return append(l.diagnostics, more)
	}
	return l.diagnostics
}
