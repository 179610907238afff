package app

import (
	"errors"
	"fmt"
	"path/filepath"

	"go.yaml.in/yaml/v3"

	"headgate/internal/config"
	"headgate/internal/modelstub"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/spec"
)

// drillSpecs are the built-in drills and those of the settings, by ID. All that is
// wrong is refused at once, with its place.
func drillSpecs(cfg *config.Config) ([]drill.Spec, error) {
	builtIn, err := spec.BuiltIn()
	if err != nil {
		return nil, err
	}
	set := drillSettings(cfg)
	var own []drill.Spec
	var errs []error
	for _, d := range cfg.Drills {
		definition, err := loadDefinition(d, set)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		own = append(own, definition)
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	all, err := spec.Merge(builtIn, own)
	if err != nil {
		return nil, cfg.At("drills", err)
	}
	return all, nil
}

// drillSettings are what definitions are checked against.
func drillSettings(cfg *config.Config) spec.Settings {
	set := spec.Settings{
		AllowLive: cfg.AllowLive,
		Service: func(text string) error {
			_, err := modelstub.ParseService(text)
			return err
		},
	}
	for _, p := range cfg.Pools {
		set.Pools = append(set.Pools, p.Name)
	}
	return set
}

// loadDefinition reads one drill, in place or from the file that it names.
func loadDefinition(d config.Drill, set spec.Settings) (drill.Spec, error) {
	n := d.Node
	if len(n.Content) == 2 && n.Content[0].Value == "file" && n.Content[1].Kind == yaml.ScalarNode {
		path := n.Content[1].Value
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(d.File), path)
		}
		loaded, err := spec.Load(path, set)
		var problems spec.SpecErrors
		if err != nil && !errors.As(err, &problems) {
			err = fmt.Errorf("%s:%d:%d: %s.file: %w", d.File, n.Line, n.Column, d.Path, err)
		}
		return loaded, err
	}
	return spec.ParseNode(d.File, n, d.Path, set)
}
