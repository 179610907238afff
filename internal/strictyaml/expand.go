package strictyaml

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

const (
	maxReferencedFile = 64 << 10 // content of one ${file:...}
	maxExpanded       = 1 << 20  // everything filled into one configuration
)

var (
	variableName  = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	dollarPattern = regexp.MustCompile(`\$(\$|\{[^}]*\}?)?`) // an escaped $, a reference, or an error
)

var (
	errDollar = errors.New("has a single $: write $$ for the sign itself, ${NAME} for an environment variable, " +
		"${file:PATH} for a file's content")
	errReference        = errors.New("has a reference that is neither ${NAME} (letters, digits, _) nor ${file:PATH}")
	errUnclosed         = errors.New("has a ${ without its }")
	errExpandedTooLarge = errors.New("fills in too much: all references of a file together may give 1 MiB")
)

// ExpandReferences makes the decoder fill in references in single values: ${NAME} from env, which works as os.LookupEnv
// does (nil: there are no variables), and ${file:PATH} with the content of a file, relative to dir.
func (d *Decoder) ExpandReferences(dir string, env func(string) (string, bool)) {
	if env == nil {
		env = func(string) (string, bool) { return "", false }
	}
	d.expander = &expander{dir: dir, env: env}
}

// expander replaces references in single values.
type expander struct {
	dir  string // where relative paths start
	env  func(string) (string, bool)
	used int // bytes filled in so far
}

// expand replaces the references in text. refs names them, for messages; it is
// empty when there were none. What was filled in is not expanded again.
func (f *expander) expand(text string) (filled, refs string, err error) {
	var names []string
	filled = dollarPattern.ReplaceAllStringFunc(text, func(ref string) (value string) {
		if ref == "$$" || err != nil {
			return "$"
		}
		if value, err = f.resolve(ref); !slices.Contains(names, ref) {
			names = append(names, ref)
		}
		return value
	})
	if err != nil {
		return "", "", err
	}
	return filled, strings.Join(names, " and "), nil
}

// resolve returns what a reference stands for. Its errors never hold a value.
func (f *expander) resolve(ref string) (string, error) {
	inner, braced := strings.CutPrefix(ref, "${")
	name, closed := strings.CutSuffix(inner, "}")
	var value string
	path, isFile := strings.CutPrefix(name, "file:")
	switch {
	case !braced:
		return "", errDollar
	case !closed:
		return "", errUnclosed
	case isFile:
		content, err := f.readFile(path)
		if err != nil {
			return "", fmt.Errorf("needs the file %s, which %w", Quote(path), err)
		}
		value = content
	case !variableName.MatchString(name):
		return "", errReference
	default:
		content, ok := f.env(name)
		if !ok {
			return "", fmt.Errorf("needs the environment variable %s, which is not set", name)
		}
		value = content
	}
	if !utf8.ValidString(value) {
		return "", fmt.Errorf("must be UTF-8 text, unlike the value of %s", ref)
	}
	if f.used += len(value); f.used > maxExpanded {
		return "", errExpandedTooLarge
	}
	return value, nil
}

// readFile returns a file's content without trailing line ends. Only regular files
// are read: opening a pipe could block indefinitely.
func (f *expander) readFile(path string) (string, error) {
	if path == "" {
		return "", errors.New("has no name")
	}
	if !filepath.IsAbs(path) {
		path = filepath.Join(f.dir, path)
	}
	info, err := os.Stat(path)
	if err != nil {
		return "", pathErrorCause(err)
	}
	if !info.Mode().IsRegular() {
		return "", errors.New("is not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return "", pathErrorCause(err)
	}
	defer file.Close()
	content, err := io.ReadAll(io.LimitReader(file, maxReferencedFile+1))
	switch {
	case err != nil:
		return "", pathErrorCause(err)
	case len(content) > maxReferencedFile:
		return "", errors.New("is larger than 64 KiB")
	}
	return strings.TrimRight(string(content), "\r\n"), nil
}

// pathErrorCause keeps the cause of a file error; the path is already in the message.
func pathErrorCause(err error) error {
	if pathError, ok := errors.AsType[*fs.PathError](err); ok {
		err = pathError.Err
	}
	return fmt.Errorf("cannot be read: %w", err)
}
