package drill

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	maxFile  = 1 << 20
	maxText  = 200
	maxNote  = 4000
	maxItems = 100
)

var yamlLine = regexp.MustCompile(`line (\d+): `)

// document parses the one YAML document of a file; nil after a problem.
func (l *ledger) document(data []byte) *yaml.Node {
	switch {
	case len(data) > maxFile:
		l.refuseAt(place{}, "", "must be at most 1 MiB")
		return nil
	case !utf8.Valid(data):
		l.refuseAt(place{}, "", "must be UTF-8 text")
		return nil
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var doc, more yaml.Node
	if err := dec.Decode(&doc); err != nil {
		l.syntax(err)
		return nil
	}
	switch err := dec.Decode(&more); {
	case err == nil:
		l.refuseAt(place{more.Line, more.Column}, "", "must hold one YAML document, and a second one begins here")
		return nil
	case !errors.Is(err, io.EOF):
		l.syntax(err)
		return nil
	}
	return doc.Content[0]
}

func (l *ledger) syntax(err error) {
	if errors.Is(err, io.EOF) {
		l.refuseAt(place{}, "", "is empty: it must hold a drill")
		return
	}
	var at place
	text := err.Error()
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ := strconv.Atoi(m[1]) // the pattern allows digits only
		at = place{line, 1}
		text = strings.Replace(text, m[0], "", 1)
	}
	l.refuseAt(at, "", "is not valid YAML: "+strings.TrimPrefix(text, "yaml: "))
}

// field reads one setting of a mapping.
type field struct {
	name string
	read func(n *yaml.Node, path string)
}

// mapping reads the settings of a mapping, each at most once, and no others.
func (l *ledger) mapping(n *yaml.Node, path string, fields ...field) {
	if !l.plain(n, path) {
		return
	}
	if n.Kind != yaml.MappingNode {
		l.refuseAt(placeOf(n), path, "must be a mapping of settings, is "+nodeKind(n))
		return
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		at := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value })
		p := join(path, key.Value)
		switch {
		case at < 0 || key.Kind != yaml.ScalarNode:
			l.refuseAt(placeOf(key), path, unknownKey(key, fields))
		case lines[key.Value] > 0:
			l.refuseAt(placeOf(key), p, "is repeated: it is already set in line "+strconv.Itoa(lines[key.Value]))
		default:
			lines[key.Value] = key.Line
			l.places[p] = placeOf(key)
			if l.plain(n.Content[i+1], p) {
				fields[at].read(n.Content[i+1], p)
			}
		}
	}
}

func unknownKey(key *yaml.Node, fields []field) string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	known := strings.Join(names, ", ")
	if key.Kind != yaml.ScalarNode {
		return "this key is not a setting; known here: " + known
	}
	return fmt.Sprintf("unknown key %s; known here: %s", quote(key.Value), known)
}

// plain refuses what YAML offers beyond plain values.
func (l *ledger) plain(n *yaml.Node, path string) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		l.refuseAt(placeOf(n), path, "YAML aliases are not supported: write the value out, and quote text that begins with *")
	case n.Anchor != "":
		l.refuseAt(placeOf(n), path, "YAML anchors are not supported: remove it, and quote text that begins with &")
	case n.Style&yaml.TaggedStyle != 0:
		l.refuseAt(placeOf(n), path, "YAML tags are not supported: remove it, and quote text that begins with !")
	case n.ShortTag() == "!!null":
		l.refuseAt(placeOf(n), path, "has no value: give one, or remove the key")
	default:
		return true
	}
	return false
}

// list reads the items of a list.
func (l *ledger) list(item func(n *yaml.Node, path string)) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		switch {
		case n.Kind != yaml.SequenceNode:
			l.refuseAt(placeOf(n), path, "must be a list, written [a, b] or with one - per line, is "+nodeKind(n))
			return
		case len(n.Content) > maxItems:
			l.refuseAt(placeOf(n), path, fmt.Sprintf("must have at most %d entries, has %d", maxItems, len(n.Content)))
			return
		}
		for i, c := range n.Content {
			p := fmt.Sprintf("%s[%d]", path, i)
			l.places[p] = placeOf(c)
			if l.plain(c, p) {
				item(c, p)
			}
		}
	}
}

// text reads text, which may look like a number or a date only in quotes.
func (l *ledger) text(to *string, most int) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		switch {
		case n.Kind != yaml.ScalarNode:
			l.refuseAt(placeOf(n), path, "must be text, is "+nodeKind(n))
		case n.ShortTag() != "!!str":
			l.refuseAt(placeOf(n), path, "must be text, is "+nodeKind(n)+": put it in quotes")
		case utf8.RuneCountInString(n.Value) > most:
			l.refuseAt(placeOf(n), path, fmt.Sprintf("must be at most %d characters", most))
		case strings.ContainsFunc(n.Value, hidden):
			l.refuseAt(placeOf(n), path, "must not have control characters")
		default:
			*to = strings.TrimSpace(n.Value)
		}
	}
}

// hidden says whether a rune could make text show as something else.
func hidden(r rune) bool {
	return r != '\n' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r))
}

// number reads a finite number from least to most.
func (l *ledger) number(to *float64, least, most float64) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		v, err := strconv.ParseFloat(n.Value, 64)
		if n.Kind != yaml.ScalarNode || err != nil || math.IsNaN(v) || v < least || v > most {
			l.refuseAt(placeOf(n), path, fmt.Sprintf("must be a number from %v to %v, is %s", least, most, shown(n)))
			return
		}
		*to = v
	}
}

// whole reads a whole number from least to most.
func (l *ledger) whole(to *int, least, most int) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		v, err := strconv.Atoi(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil || v < least || v > most {
			l.refuseAt(placeOf(n), path, fmt.Sprintf("must be a whole number from %d to %d, is %s", least, most, shown(n)))
			return
		}
		*to = v
	}
}

// share reads a part of 1, as a number or a percentage.
func (l *ledger) share(to *float64) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		v, err := parseShare(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			l.refuseAt(placeOf(n), path, "must be 0 to 1 or 0% to 100%, is "+shown(n))
			return
		}
		*to = v
	}
}

// duration reads 90s, 5m or 7d.
func (l *ledger) duration(to *time.Duration) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		d, err := parseDuration(n.Value)
		if n.Kind != yaml.ScalarNode || err != nil {
			l.refuseAt(placeOf(n), path, "must be a duration such as 90s, 5m or 7d, is "+shown(n))
			return
		}
		*to = d
	}
}

// truth reads true or false.
func (l *ledger) truth(to *bool) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.ScalarNode || n.ShortTag() != "!!bool" {
			l.refuseAt(placeOf(n), path, "must be true or false, is "+shown(n))
			return
		}
		*to = strings.EqualFold(n.Value, "true")
	}
}

func placeOf(n *yaml.Node) place { return place{n.Line, n.Column} }

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func shown(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return nodeKind(n)
	}
	return quote(n.Value)
}

func quote(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "..."
	}
	return strconv.Quote(text)
}

// nodeKind names what a node is, in words for people.
func nodeKind(n *yaml.Node) string {
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
