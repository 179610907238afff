package strictyaml

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

// MaxDiagnostics bounds what an untrusted file can make us compute and print.
const MaxDiagnostics = 200

// Diagnostic is one thing that is wrong with a file. It is an error.
type Diagnostic struct {
	// File is the file's name; empty when there is none.
	File string
	// Line and Col count from 1, Col in characters; 0 means unknown.
	Line, Col int
	// Path is the setting, written rules[0].warn.at; empty for the whole file.
	Path string
	// Message says what is wrong and what would be right. It holds nothing that was filled in.
	Message string

	cause error
}

// Error returns FILE:LINE:COL: path: message, without the parts that are unknown.
func (p Diagnostic) Error() string {
	text := p.File
	if text != "" {
		if p.Line > 0 {
			text += ":" + strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Col)
		}
		text += ": "
	}
	if p.Path != "" {
		text += p.Path + ": "
	}
	return text + p.Message
}

// Unwrap returns the error that Source.At was given, if one was.
func (p Diagnostic) Unwrap() error { return p.cause }

// Diagnostics are all problems of a file, in its order. It is an error with one problem per line.
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

// Position is a place in a file. Both count from 1; 0 means unknown.
type Position struct{ Line, Col int }

// Source knows where the settings of a file were written, and which of them were filled in and must not be shown. The
// zero Source knows nothing.
type Source struct {
	file       string
	positions  map[string]Position
	references map[string]string // path to the reference that it was filled in from
}

// NewSource returns a Source of a file that knows no setting yet.
func NewSource(file string) *Source {
	return &Source{file: file, positions: map[string]Position{}, references: map[string]string{}}
}

// File returns the name of the file.
func (s *Source) File() string { return s.file }

// SetPosition records where a setting was written.
func (s *Source) SetPosition(path string, at Position) { s.positions[path] = at }

// SetReference records what a setting was filled in from.
func (s *Source) SetReference(path, reference string) { s.references[path] = reference }

// Position returns the place of a setting, or of the nearest one above it that was written.
func (s *Source) Position(path string) Position {
	for {
		if at, ok := s.positions[path]; ok || path == "" {
			return at
		}
		path = parent(path)
	}
}

// IsSet says whether a setting was written or filled in, or whether that is unknown.
func (s *Source) IsSet(path string) bool {
	_, written := s.positions[path]
	return s.positions == nil || written || s.references[path] != ""
}

// Reference names what a setting was filled in from; empty if it was not.
func (s *Source) Reference(path string) string { return s.references[path] }

// At returns err as a Diagnostic at the place of a setting. It lets another package refuse a setting with its place.
// A nil err gives nil.
func (s *Source) At(path string, err error) error {
	if err == nil {
		return nil
	}
	at := s.Position(path)
	return Diagnostic{File: s.File(), Line: at.Line, Col: at.Col, Path: path, Message: err.Error(), cause: err}
}

// parent removes the last step of a path: pools[0].name, pools[0], pools, "".
func parent(path string) string { return path[:max(strings.LastIndexAny(path, ".["), 0)] }

// Join returns the path of a setting below a path.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Decoder reads the settings of one file and collects its problems. It is for one goroutine.
type Decoder struct {
	*Source
	// Unimplemented holds paths, with [] for the elements of lists, of settings that are planned and so refused by
	// name. PATH=VALUE stands for one value of a setting.
	Unimplemented map[string]bool

	expander    *expander    // nil: $ has no meaning
	root        reflect.Type // of the settings of the file, for suggestions; nil: unknown
	diagnostics Diagnostics
	refused     map[string]bool // paths that have a problem
	dropped     int
}

// NewDecoder returns a Decoder of a file.
func NewDecoder(file string) *Decoder { return NewSource(file).Decoder() }

// Decoder returns a Decoder for more checks of settings that were read from the source.
func (s *Source) Decoder() *Decoder { return &Decoder{Source: s, refused: map[string]bool{}} }

// Report records a problem at the place of a path.
func (d *Decoder) Report(path, message string) {
	path = strings.TrimSuffix(path, ".")
	d.ReportAt(d.Position(path), path, message)
}

// Reportf is Report with a format.
func (d *Decoder) Reportf(path, format string, args ...any) {
	d.Report(path, fmt.Sprintf(format, args...))
}

// ReportAt records a problem of a path at a given place.
func (d *Decoder) ReportAt(at Position, path, message string) {
	d.refused[path] = true
	d.add(at, path, message)
}

// add records a problem that leaves the setting at the path usable.
func (d *Decoder) add(at Position, path, message string) {
	if d.full() {
		d.dropped++
		return
	}
	d.diagnostics = append(d.diagnostics, Diagnostic{File: d.File(), Line: at.Line, Col: at.Col, Path: path,
		Message: message})
}

func (d *Decoder) full() bool { return len(d.diagnostics) >= MaxDiagnostics }

// Refuse records a value that breaks a rule, with the value shown, unless its setting has a problem already.
func (d *Decoder) Refuse(path, rule, shown string) {
	if d.Valid(path) {
		d.Report(path, d.withActual(path, rule, shown))
	}
}

// RefuseHidden is Refuse for a value that may be secret.
func (d *Decoder) RefuseHidden(path, rule string) {
	if !d.Valid(path) {
		return
	}
	if d.Reference(path) != "" {
		rule = d.withActual(path, rule, "")
	}
	d.Report(path, rule)
}

// withActual adds the actual value to a rule. Of a value that was filled in, only the origin is named.
func (d *Decoder) withActual(path, rule, shown string) string {
	if origin := d.Reference(path); origin != "" {
		return rule + ", unlike the value of " + origin
	}
	return rule + ", is " + shown + d.DefaultSuffix(path)
}

// DefaultSuffix returns " by default" if a setting was not written.
func (d *Decoder) DefaultSuffix(path string) string {
	if d.IsSet(path) {
		return ""
	}
	return " by default"
}

// Valid says whether neither the paths nor their parents have a problem yet.
func (d *Decoder) Valid(paths ...string) bool {
	for _, p := range paths {
		for ; p != ""; p = parent(p) {
			if d.refused[p] {
				return false
			}
		}
	}
	return true
}

// OK says whether there is no problem so far.
func (d *Decoder) OK() bool { return len(d.diagnostics) == 0 }

// Len returns how many problems there are so far, up to MaxDiagnostics.
func (d *Decoder) Len() int { return len(d.diagnostics) }

// Diagnostics returns the problems so far, in the order in which they were found.
func (d *Decoder) Diagnostics() Diagnostics { return d.diagnostics }

// Err returns the Diagnostics sorted by position, or nil.
func (d *Decoder) Err() error {
	if d.OK() {
		return nil
	}
	slices.SortStableFunc(d.diagnostics, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Col, b.Col))
	})
	if d.dropped > 0 {
		return append(d.diagnostics, Diagnostic{File: d.File(),
			Message: "and " + strconv.Itoa(d.dropped) + " more problems"})
	}
	return d.diagnostics
}
