package app

import (
	"errors"

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
		definition, err := spec.ParseNode(d.File, d.Node, d.Path, set)
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
