package config

import (
	"fmt"
	"reflect"
	"strconv"

	"go.yaml.in/yaml/v3"
)

const (
	noAlias  = "YAML aliases are not supported: write the value out, and quote text that begins with *"
	noAnchor = "YAML anchors are not supported: remove it, and quote text that begins with &"
	noTag    = "YAML tags are not supported: remove it, and quote text that begins with !"
	noMerge  = "YAML merge keys (<<) are not supported: write the settings out"
)

// maxItems bounds every list.
const maxItems = 10000

// decoder reads YAML nodes over the defaults that its target already holds.
type decoder struct {
	*checker
	expander *expander
}

// value reads n into v, which lives at path.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	if !d.plain(n, path) {
		return
	}
	switch target := v.Addr().Interface().(type) {
	case *Secret, *string, *bool, *int, *float64:
		d.scalar(n, target, path)
	case *Drill:
		d.drill(n, target, path)
	default:
		switch {
		case isText(v):
			d.scalar(n, target, path)
		case v.Kind() == reflect.Slice:
			d.list(n, v, path)
		default:
			d.mapping(n, v, path)
		}
	}
}

// plain refuses what YAML offers beyond plain values.
func (d *decoder) plain(n *yaml.Node, path string) bool {
	at := position{n.Line, n.Column}
	switch {
	case n.Kind == yaml.AliasNode:
		d.reportAt(at, path, noAlias)
	case n.Anchor != "":
		d.reportAt(at, path, noAnchor)
	case n.Style&yaml.TaggedStyle != 0:
		d.reportAt(at, path, noTag)
	case n.ShortTag() == "!!null":
		d.reportAt(at, path, `has no value: give one, or remove the key; an empty list is written []`)
	default:
		return true
	}
	return false
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.report(path, "must be a mapping of settings, is "+kindOf(n))
		return
	}
	known := fieldsOf(v.Type())
	lines := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		f, ok := known.find(key.Value)
		if !ok || key.Kind != yaml.ScalarNode {
			d.unknown(key, known, path)
			continue
		}
		at, p := position{key.Line, key.Column}, join(path, f.name)
		if first, again := lines[f.name]; again {
			d.reportAt(at, p, "is repeated: it is already set in line "+strconv.Itoa(first))
			continue
		}
		lines[f.name] = key.Line
		d.source.positions[p] = at
		d.value(n.Content[i+1], v.Field(f.index), p)
	}
}

// unknown refuses a key that is not a setting, and tells what may be meant.
func (d *decoder) unknown(key *yaml.Node, known fields, path string) {
	at := position{key.Line, key.Column}
	switch {
	case d.full():
		d.dropped++ // spare the search for a suggestion that is not printed
	case key.ShortTag() == "!!merge":
		d.add(at, path, noMerge)
	case key.Kind != yaml.ScalarNode || !looksLikeKey(key.Value):
		d.add(at, path, "this key is not a setting; known here: "+known.names())
	case unimplemented[withoutIndexes(join(path, key.Value))]:
		d.reportAt(at, join(path, key.Value), unimplementedMessage+"; remove it")
	default:
		d.add(at, path, fmt.Sprintf("unknown key %q; %s", key.Value, suggest(key.Value, known)))
	}
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	switch {
	case n.Kind != yaml.SequenceNode:
		d.report(path, "must be a list, written [a, b] or with one - per line, is "+kindOf(n))
		return
	case len(n.Content) > maxItems:
		d.report(path, fmt.Sprintf("must have at most %d entries, has %d", maxItems, len(n.Content)))
		return
	}
	v.SetZero()
	if len(n.Content) > 0 {
		v.Set(reflect.MakeSlice(v.Type(), len(n.Content), len(n.Content)))
	}
	for i, item := range n.Content {
		p := fmt.Sprintf("%s[%d]", path, i)
		d.source.positions[p] = position{item.Line, item.Column}
		if e, ok := v.Index(i).Addr().Interface().(interface{ preset() }); ok {
			e.preset()
		}
		d.value(item, v.Index(i), p)
	}
}
