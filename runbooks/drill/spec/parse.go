package spec

import (
	"errors"
	"fmt"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"headgate/internal/strictyaml"
	"headgate/runbooks/drill"
)

// Settings are what a definition is checked against.
type Settings struct {
	// Pools are the names of all pools. Empty: any name is valid.
	Pools []string
	// AllowLive says whether drills may touch production.
	AllowLive bool
	// Service refuses service times that the endpoint cannot read. Nil: only the form is checked.
	Service func(text string) error
}

// SpecError is one error of a definition.
type SpecError = strictyaml.Diagnostic

// SpecErrors are all errors of definitions, in the order of their file.
type SpecErrors = strictyaml.Diagnostics

// Load reads a file that holds one drill. An invalid definition gives SpecErrors: all of them.
func Load(path string, s Settings) (drill.Spec, error) {
	data, err := strictyaml.ReadFile(path)
	if err != nil {
		return drill.Spec{}, fmt.Errorf("read the drill: %w", err)
	}
	return Parse(path, data, s)
}

// Parse reads data as the content of the file called name. Otherwise it is Load.
func Parse(name string, data []byte, s Settings) (drill.Spec, error) {
	d := strictyaml.NewDecoder(name)
	root := d.Document(data, "a drill")
	if root == nil {
		return drill.Spec{}, d.Err()
	}
	return definition(d, root, "", s)
}

// ParseNode reads a drill that is part of a larger file: a mapping, at path of the file called name. It holds the
// definition, or as file the path of one, relative to the larger file.
func ParseNode(name string, n *yaml.Node, path string, s Settings) (drill.Spec, error) {
	if len(n.Content) == 2 && n.Content[0].Value == "file" && n.Content[1].Kind == yaml.ScalarNode {
		other := n.Content[1].Value
		if !filepath.IsAbs(other) {
			other = filepath.Join(filepath.Dir(name), other)
		}
		loaded, err := Load(other, s)
		var problems SpecErrors
		if err != nil && !errors.As(err, &problems) {
			err = fmt.Errorf("%s:%d:%d: %s.file: %w", name, n.Line, n.Column, path, err)
		}
		return loaded, err
	}
	d := strictyaml.NewDecoder(name)
	d.SetPosition(path, strictyaml.PositionOf(n))
	return definition(d, n, path, s)
}

// Source is a drill that is part of a larger file, as ParseNode takes it.
type Source struct {
	Node *yaml.Node
	File string
	Path string
}

// ParseAll reads drills that are parts of larger files. All errors are returned at once.
func ParseAll(sources []Source, s Settings) (all []drill.Spec, err error) {
	for _, src := range sources {
		d, parseErr := ParseNode(src.File, src.Node, src.Path, s)
		all, err = append(all, d), errors.Join(err, parseErr)
	}
	return all, err
}

func definition(d *strictyaml.Decoder, n *yaml.Node, path string, set Settings) (drill.Spec, error) {
	var s drill.Spec
	s.DecodeNode(d, n, path)
	if d.OK() {
		validate(d, path, &s, set)
	}
	if err := d.Err(); err != nil {
		return drill.Spec{}, err
	}
	return s, nil
}
