package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxFile is the size of the largest file that is read, in bytes.
const MaxFile = 1 << 20

var yamlLine = regexp.MustCompile(`line (\d+): `)

// Document parses the one YAML document of a file of 1 MiB at most, which must hold
// what is named; nil after a problem.
func (l *Decoder) Document(data []byte, what string) *yaml.Node {
	switch {
	case len(data) > MaxFile:
		l.ReportAt(Position{}, "", "must be at most 1 MiB")
		return nil
	case !utf8.Valid(data):
		l.ReportAt(Position{}, "", "must be UTF-8 text")
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		l.reportSyntax(err, what)
		return nil
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		l.ReportAt(Position{more.Line, more.Column}, "", "must hold one YAML document, and a second one begins here")
		return nil
	case !errors.Is(err, io.EOF):
		l.reportSyntax(err, what)
		return nil
	}
	return doc.Content[0]
}

func (l *Decoder) reportSyntax(err error, what string) {
	if errors.Is(err, io.EOF) {
		l.ReportAt(Position{}, "", "is empty: it must hold "+what)
		return
	}
	var at Position
	text := err.Error()
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ := strconv.Atoi(m[1]) // the pattern allows digits only
		at = Position{line, 1}
		text = strings.Replace(text, m[0], "", 1)
	}
	l.ReportAt(at, "", "is not valid YAML: "+strings.TrimPrefix(text, "yaml: "))
}

// Reader reads a node.
type Reader func(n *yaml.Node, path string)

// Field reads one setting of a mapping.
type Field struct {
	Name string
	Read Reader
}

// Key returns a field.
func Key(name string, read Reader) Field { return Field{Name: name, Read: read} }

// Mapping reads the settings of a mapping, each at most once, and no others.
func (l *Decoder) Mapping(n *yaml.Node, path string, fields ...Field) {
	if !l.CheckPlain(n, path) {
		return
	}
	if n.Kind != yaml.MappingNode {
		l.ReportAt(PositionOf(n), path, "must be a mapping of settings, is "+KindName(n))
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := slices.IndexFunc(fields, func(f Field) bool { return f.Name == key.Value })
		p := Join(path, key.Value)
		switch {
		case at < 0 || key.Kind != yaml.ScalarNode:
			l.ReportAt(PositionOf(key), path, unknownKeyMessage(key, fields))
		case lines[key.Value] > 0:
			l.ReportAt(PositionOf(key), p, "is repeated: it is already set in line "+strconv.Itoa(lines[key.Value]))
		default:
			lines[key.Value] = key.Line
			l.positions[p] = PositionOf(key)
			if l.CheckPlain(n.Content[i+1], p) {
				fields[at].Read(n.Content[i+1], p)
			}
		}
	}
}

func unknownKeyMessage(key *yaml.Node, fields []Field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	known := strings.Join(names, ", ")
	if key.Kind != yaml.ScalarNode {
		return "this key is not a setting; known here: " + known
	}
	return fmt.Sprintf("unknown key %s; known here: %s", Quote(key.Value), known)
}

// CheckPlain refuses what YAML offers beyond plain values.
func (l *Decoder) CheckPlain(n *yaml.Node, path string) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		l.ReportAt(PositionOf(n), path, "YAML aliases are not supported: write the value out, and quote text that begins with *")
	case n.Anchor != "":
		l.ReportAt(PositionOf(n), path, "YAML anchors are not supported: remove it, and quote text that begins with &")
	case n.Style&yaml.TaggedStyle != 0:
		l.ReportAt(PositionOf(n), path, "YAML tags are not supported: remove it, and quote text that begins with !")
	case n.ShortTag() == "!!null":
		l.ReportAt(PositionOf(n), path, "has no value: give one, or remove the key")
	default:
		return true
	}
	return false
}

// List reads the items of a list of bounded length.
func (l *Decoder) List(most int, item Reader) Reader {
	return func(n *yaml.Node, path string) {
		switch {
		case n.Kind != yaml.SequenceNode:
			l.ReportAt(PositionOf(n), path, "must be a list, written [a, b] or with one - per line, is "+KindName(n))
			return
		case len(n.Content) > most:
			l.ReportAt(PositionOf(n), path, fmt.Sprintf("must have at most %d entries, has %d", most, len(n.Content)))
			return
		}
		for i, c := range n.Content {
			p := fmt.Sprintf("%s[%d]", path, i)
			l.SetPosition(p, PositionOf(c))
			if l.CheckPlain(c, p) {
				item(c, p)
			}
		}
	}
}

// Text reads text, which may look like a number or a date only in quotes.
func (l *Decoder) Text(to *string) Reader {
	return func(n *yaml.Node, path string) {
		switch {
		case n.Kind != yaml.ScalarNode:
			l.ReportAt(PositionOf(n), path, "must be text, is "+KindName(n))
		case n.ShortTag() != "!!str":
			l.ReportAt(PositionOf(n), path, "must be text, is "+KindName(n)+": put it in quotes")
		default:
			*to = strings.TrimSpace(n.Value)
		}
	}
}

// Bool reads true or false.
func (l *Decoder) Bool(to *bool) Reader {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
			l.ReportAt(PositionOf(n), path, "must be true or false, is "+Display(n))
			return
		}
		*to = strings.EqualFold(n.Value, "true")
	}
}

// PositionOf returns where a node stands.
func PositionOf(n *yaml.Node) Position { return Position{n.Line, n.Column} }

// Join returns the path of a setting below a path.
func Join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// Display returns what a node says, for people: quoted, or named.
func Display(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return KindName(n)
	}
	return Quote(n.Value)
}

// Quote quotes the beginning of a text.
func Quote(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "..."
	}
	return strconv.Quote(text)
}

// KindName names what a node is, in words for people.
func KindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!int", "!!float":
		return "a number"
	case "!!bool":
		return "true or false"
	case "!!timestamp":
		return "a date"
	}
	return "text"
}
