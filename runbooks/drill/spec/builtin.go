package spec

import (
	"embed"
	"fmt"
	"path"
	"slices"
	"strings"

	"headgate/internal/strictyaml"
	"headgate/runbooks/drill"
)

//go:embed builtin/*.yaml
var builtIn embed.FS

// BuiltIn returns the drills that exist without any settings, by ID. They have no schedule. A definition with the
// same ID replaces one.
func BuiltIn() ([]drill.Spec, error) {
	files, err := builtIn.ReadDir("builtin")
	if err != nil {
		return nil, fmt.Errorf("list the built-in drills: %w", err)
	}
	var all []drill.Spec
	for _, f := range files {
		name := path.Join("builtin", f.Name())
		data, err := builtIn.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("read a built-in drill: %w", err)
		}
		s, err := Parse(name, data, Settings{})
		if err != nil {
			return nil, fmt.Errorf("built-in drill: %w", err)
		}
		s.BuiltIn = true
		all = append(all, s)
	}
	slices.SortFunc(all, func(a, b drill.Spec) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// BuiltInText returns the definition of a built-in drill as a file to start from; false: there is none of that ID.
func BuiltInText(id string) ([]byte, bool) {
	if !idPattern.MatchString(id) {
		return nil, false
	}
	data, err := builtIn.ReadFile("builtin/" + id + ".yaml")
	return data, err == nil
}

// Merge adds the built-in drills to those of the settings, except those whose ID or name is taken. IDs and names are
// unique.
func Merge(builtIn, own []drill.Spec) ([]drill.Spec, error) {
	all := slices.Clone(own)
	for i, s := range own {
		for _, before := range own[:i] {
			switch {
			case before.ID == s.ID:
				return nil, fmt.Errorf("two drills have the ID %s: it must be unique, since history refers to it",
					strictyaml.Quote(s.ID))
			case strings.EqualFold(before.Name, s.Name):
				return nil, fmt.Errorf("two drills have the name %s", strictyaml.Quote(s.Name))
			}
		}
	}
	for _, b := range builtIn {
		if !slices.ContainsFunc(own, func(s drill.Spec) bool { return s.ID == b.ID || strings.EqualFold(s.Name, b.Name) }) {
			all = append(all, b)
		}
	}
	slices.SortFunc(all, func(a, b drill.Spec) int { return strings.Compare(a.ID, b.ID) })
	return all, nil
}

// Find returns the drill of an ID or, failing that, a name.
func Find(all []drill.Spec, name string) (drill.Spec, bool) {
	if i := slices.IndexFunc(all, func(s drill.Spec) bool { return s.ID == name }); i >= 0 {
		return all[i], true
	}
	if i := slices.IndexFunc(all, func(s drill.Spec) bool { return strings.EqualFold(s.Name, name) }); i >= 0 {
		return all[i], true
	}
	return drill.Spec{}, false
}
