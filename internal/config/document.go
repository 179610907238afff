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

// document parses data into its one YAML document. It returns nil when there is
// nothing to read: for an empty file, or after it has recorded a problem.
func document(l *ledger, data []byte) *yaml.Node {
	if len(data) > maxFile {
		l.record(place{}, "", "must be at most 1 MiB")
		return nil
	}
	if at, ok := firstInvalid(data); ok {
		l.record(at, "", "must be UTF-8 text, and has a byte here that is not")
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	if err := decoder.Decode(&first); err != nil {
		syntax(l, err)
		return nil
	}
	switch err := decoder.Decode(&second); {
	case err == nil:
		l.record(place{second.Line, second.Column}, "", "must hold one YAML document, and a second one begins here")
		return nil
	case !errors.Is(err, io.EOF):
		syntax(l, err)
		return nil
	}
	if root := first.Content[0]; root.ShortTag() != "!!null" || root.Value != "" {
		return root
	}
	return nil
}

// firstInvalid finds the first byte that is not UTF-8.
func firstInvalid(data []byte) (place, bool) {
	if utf8.Valid(data) {
		return place{}, false
	}
	at := place{1, 1}
	for len(data) > 0 {
		r, size := utf8.DecodeRune(data)
		if r == utf8.RuneError && size == 1 {
			break
		}
		at.col++
		if r == '\n' {
			at = place{at.line + 1, 1}
		}
		data = data[size:]
	}
	return at, true
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// fromZero matches what the YAML library finds wrong once it has the tokens: for
// these it counts lines from 0, for what is wrong within a token from 1.
var fromZero = regexp.MustCompile(`^(did not find expected ('-' indicator|',' or '.'|<document start>|key|node content)$|` +
	`found (undefined tag handle|incompatible YAML document|duplicate %(YAML|TAG) directive)$)`)

// inBraces is what it says about ${NAME} between braces, among others.
const inBraces = "did not find expected ',' or '}'"

// syntax records what the YAML parser said. Its messages are fixed texts, except
// those named here, which quote the file and might so quote a secret.
func syntax(l *ledger, err error) {
	if errors.Is(err, io.EOF) {
		return
	}
	text := err.Error()
	var at place
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ := strconv.Atoi(m[1]) // the pattern allows digits only
		at, text = place{line, 1}, text[len(m[0]):]
	}
	text = strings.TrimPrefix(text, "yaml: ")
	if fromZero.MatchString(text) {
		at = place{at.line + 1, 1}
	}
	switch {
	case text == inBraces:
		text += `; within { } a reference needs quotes, such as "${NAME}"`
	case strings.HasPrefix(text, "unknown anchor"):
		text = noAlias
	case strings.HasPrefix(text, "cannot decode"):
		text = noTag
	}
	l.record(at, "", "is not valid YAML: "+text)
}
