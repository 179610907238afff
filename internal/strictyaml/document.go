package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// MaxFile is the size of the largest file that is read, in bytes.
const MaxFile = 1 << 20

const (
	noAlias  = "YAML aliases are not supported: write the value out, and quote text that begins with *"
	noAnchor = "YAML anchors are not supported: remove it, and quote text that begins with &"
	noTag    = "YAML tags are not supported: remove it, and quote text that begins with !"
	noMerge  = "YAML merge keys (<<) are not supported: write the settings out"
	noValue  = "has no value: give one, or remove the key; an empty list is written []"
)

// ReadFile returns the content of a file, of one that is too large only as much as Document needs to refuse it.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, MaxFile+1))
}

// Document parses the one YAML document of a file, which must hold what is named. It returns nil after a problem, and
// for an empty file if nothing is named.
func (d *Decoder) Document(data []byte, what string) *yaml.Node {
	if len(data) > MaxFile {
		d.add(Position{}, "", "must be at most 1 MiB")
		return nil
	}
	if at, ok := firstInvalidUTF8(data); ok {
		d.add(at, "", "must be UTF-8 text, and has a byte here that is not")
		return nil
	}
	decoder := yaml.NewDecoder(bytes.NewReader(data))
	var first, second yaml.Node
	err := decoder.Decode(&first)
	empty := errors.Is(err, io.EOF) || err == nil && first.Content[0].ShortTag() == "!!null" &&
		first.Content[0].Value == ""
	if err != nil && !empty {
		d.reportSyntax(err)
		return nil
	}
	if err == nil {
		switch err := decoder.Decode(&second); {
		case err == nil:
			d.add(Position{second.Line, second.Column}, "", "must hold one YAML document, and a second one begins here")
			return nil
		case !errors.Is(err, io.EOF):
			d.reportSyntax(err)
			return nil
		}
	}
	if empty {
		if what != "" {
			d.add(Position{}, "", "is empty: it must hold "+what)
		}
		return nil
	}
	root := first.Content[0]
	d.SetPosition("", PositionOf(root))
	return root
}

// firstInvalidUTF8 finds the first byte that is not UTF-8.
func firstInvalidUTF8(data []byte) (Position, bool) {
	at := Position{1, 1}
	for i, r := range string(data) {
		if r == utf8.RuneError && !bytes.HasPrefix(data[i:], []byte(string(utf8.RuneError))) {
			return at, true
		}
		at.Col++
		if r == '\n' {
			at = Position{at.Line + 1, 1}
		}
	}
	return Position{}, false
}

var yamlLine = regexp.MustCompile(`^yaml: line (\d+): `)

// zeroBasedLineErrors matches what the YAML library finds wrong with its tokens: for these it counts lines from 0, for
// what is wrong within a token from 1.
var zeroBasedLineErrors = regexp.MustCompile(
	`^(did not find expected ('-' indicator|',' or '.'|<document start>|key|node content)$|` +
		`found (undefined tag handle|incompatible YAML document|duplicate %(YAML|TAG) directive)$)`)

// flowMappingError is the library's message for ${NAME} between braces, among others.
const flowMappingError = "did not find expected ',' or '}'"

// reportSyntax records an error of the YAML library. Its messages are fixed texts, except for those named here, which
// quote the file and so could quote a secret.
func (d *Decoder) reportSyntax(err error) {
	text := err.Error()
	var at Position
	if m := yamlLine.FindStringSubmatch(text); m != nil {
		line, _ := strconv.Atoi(m[1]) // the pattern allows digits only
		at, text = Position{line, 1}, text[len(m[0]):]
	}
	text = strings.TrimPrefix(text, "yaml: ")
	if zeroBasedLineErrors.MatchString(text) {
		at = Position{at.Line + 1, 1}
	}
	switch {
	case text == flowMappingError && d.expander != nil:
		text += `; within { } a reference needs quotes, such as "${NAME}"`
	case strings.HasPrefix(text, "unknown anchor"):
		text = noAlias
	case strings.HasPrefix(text, "cannot decode"):
		text = noTag
	}
	d.add(at, "", "is not valid YAML: "+text)
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
func (d *Decoder) Mapping(n *yaml.Node, path string, fields ...Field) {
	if !d.CheckPlain(n, path) {
		return
	}
	if n.Kind != yaml.MappingNode {
		d.Report(path, "must be a mapping of settings, is "+KindName(n))
		return
	}
	known := make(map[string]Reader, len(fields))
	for _, f := range fields {
		known[f.Name] = f.Read
	}
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		read, ok := known[key.Value]
		if !ok || key.Kind != yaml.ScalarNode {
			d.unknownKey(key, fields, path)
			continue
		}
		p := Join(path, key.Value)
		if first, again := lines[key.Value]; again {
			d.ReportAt(PositionOf(key), p, "is repeated: it is already set in line "+strconv.Itoa(first))
			continue
		}
		lines[key.Value] = key.Line
		d.SetPosition(p, PositionOf(key))
		if d.CheckPlain(n.Content[i+1], p) {
			read(n.Content[i+1], p)
		}
	}
}

// CheckPlain refuses what YAML offers beyond plain values.
func (d *Decoder) CheckPlain(n *yaml.Node, path string) bool {
	switch {
	case n.Kind == yaml.AliasNode:
		d.ReportAt(PositionOf(n), path, noAlias)
	case n.Anchor != "":
		d.ReportAt(PositionOf(n), path, noAnchor)
	case n.Style&yaml.TaggedStyle != 0:
		d.ReportAt(PositionOf(n), path, noTag)
	case n.ShortTag() == "!!null":
		d.ReportAt(PositionOf(n), path, noValue)
	default:
		return true
	}
	return false
}

// List reads the items of a list of bounded length.
func (d *Decoder) List(most int, item Reader) Reader {
	return func(n *yaml.Node, path string) {
		if d.checkList(n, most, path) {
			d.items(n, path, func(_ int, n *yaml.Node, path string) { item(n, path) })
		}
	}
}

func (d *Decoder) checkList(n *yaml.Node, most int, path string) bool {
	switch {
	case n.Kind != yaml.SequenceNode:
		d.Report(path, "must be a list, written [a, b] or with one - per line, is "+KindName(n))
	case len(n.Content) > most:
		d.Reportf(path, "must have at most %d entries, has %d", most, len(n.Content))
	default:
		return true
	}
	return false
}

func (d *Decoder) items(n *yaml.Node, path string, read func(i int, n *yaml.Node, path string)) {
	for i, item := range n.Content {
		p := fmt.Sprintf("%s[%d]", path, i)
		d.SetPosition(p, PositionOf(item))
		if d.CheckPlain(item, p) {
			read(i, item, p)
		}
	}
}

// PositionOf returns the place of a node.
func PositionOf(n *yaml.Node) Position { return Position{n.Line, n.Column} }

// Display returns the content of a node for people: quoted, or the name of its kind.
func Display(n *yaml.Node) string {
	if n.Kind != yaml.ScalarNode {
		return KindName(n)
	}
	return Quote(n.Value)
}

// Quote quotes the beginning of a text, on one line.
func Quote(text string) string {
	const most = 60
	if runes := []rune(text); len(runes) > most {
		text = string(runes[:most]) + "..."
	}
	return strconv.Quote(text)
}

// KindName names the kind of a node, for people. It never shows its content.
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
