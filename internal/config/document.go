package config

import (
	"bytes"
	"errors"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// maxFile bounds a configuration file.
const maxFile = 1 * mib

// parseDocument parses data into its one YAML document. It returns nil when there is
// nothing to read: for an empty file, or after it has recorded a problem.
func parseDocument(l *checker, data []byte) *yaml.Node {
	if len(data) > maxFile {
		l.add(position{}, "", "must be at most 1 MiB")
		return nil
	}
	if at, ok := firstInvalidUTF8(data); ok {
		l.add(at, "", "must be UTF-8 text, and has a byte here that is not")
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := decoder.Decode(&first); err != nil {
		reportSyntax(l, err)
		return nil
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		l.add(position{second.Line, second.Column}, "", "must hold one YAML document, and a second one begins here")
		return nil
	case !errors.Is(err, io.EOF):
		reportSyntax(l, err)
		return nil
	}
	if root := first.Content[0]; root.ShortTag() != "!!null" || root.Value != "" {
		return root
	}
	return nil
}

// firstInvalidUTF8 finds the first byte that is not UTF-8.
func firstInvalidUTF8(data []byte) (position, bool) {
	if utf8.Valid(data) {
		return position{}, false
	}
	at := position{1, 1}
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			break
		}
		at.col++
		if r == '\n' {
			at = position{at.line + 1, 1}
		}
		data = data[size:]
	}
	return at, true
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// zeroBasedLineErrors matches what the YAML library finds wrong once it has the tokens: for
// these it counts lines from 0, for what is wrong within a token from 1.
var zeroBasedLineErrors = regexp.MustCompile(`^(did not find expected ('-' indicator|',' or '.'|<document start>|key|node content)$|` +
	`found (undefined tag handle|incompatible YAML document|duplicate %(YAML|TAG) directive)$)`)

// flowMappingError is what it says about ${NAME} between braces, among others.
const flowMappingError = "did not find expected ',' or '}'"

// reportSyntax records what the YAML parser said. Its messages are fixed texts, except
// those named here, which quote the file and might so quote a secret.
func reportSyntax(l *checker, err error) {
	if errors.Is(err, io.EOF) {
		return
	}
	text := err.Error()
	var at position
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ := strconv.Atoi(m[1]) // the pattern allows digits only
		at, text = position{line, 1}, text[len(m[0]):]
	}
	text = strings.TrimPrefix(text, "yaml: ")
	if zeroBasedLineErrors.MatchString(text) {
		at = position{at.line + 1, 1}
	}
	switch {
	case text == flowMappingError:
		text += `; within { } a reference needs quotes, such as "${NAME}"`
	case strings.HasPrefix(text, "unknown anchor"):
		text = noAlias
	case strings.HasPrefix(text, "cannot decode"):
		text = noTag
	}
	l.add(at, "", "is not valid YAML: "+text)
}
