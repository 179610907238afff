package config

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

// Drill is the definition of a drill as it stands in the file. What it means, and
// whether it is right, is the business of who rehearses: references such as ${NAME}
// are not filled in.
type Drill struct {
	node *yaml.Node
	file string
	path string
}

// Node is the definition, with its places in File.
func (d Drill) Node() *yaml.Node { return d.node }

// File is the file that the definition stands in.
func (d Drill) File() string { return d.file }

// Path is where it stands there, such as drills[0].
func (d Drill) Path() string { return d.path }

// Equal says whether two definitions read the same, wherever they stand.
func (d Drill) Equal(o Drill) bool {
	a, errA := yaml.Marshal(d.node)
	b, errB := yaml.Marshal(o.node)
	return errA == nil && errB == nil && bytes.Equal(a, b)
}

func (d *Drill) preset() { *d = Drill{node: &yaml.Node{Kind: yaml.MappingNode}} }

// drill takes a definition over as it is.
func (d *decoder) drill(n *yaml.Node, to *Drill, path string) {
	if n.Kind != yaml.MappingNode {
		d.report(path, "must be a mapping of settings, is "+kindOf(n))
		return
	}
	*to = Drill{node: n, file: d.source.fileName(), path: path}
}
