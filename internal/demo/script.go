package demo

import (
	"fmt"
	"math/rand/v2"
	"time"

	"headgate/internal/loadgen"
)

// serviceStream keeps the draws of service times apart from those of arrivals.
const serviceStream = 0x73657276

// script is what both sides are given: arrivals, and the service time of each.
type script struct {
	arrivals loadgen.Arrivals
	services []time.Duration
}

func newScript(o Options) (script, error) {
	o.Profile.Seed = o.Seed
	source, err := o.Profile.Source()
	if err != nil {
		return script{}, fmt.Errorf("profile: %w", err)
	}
	arrivals, err := loadgen.Collect(source)
	if err != nil {
		return script{}, fmt.Errorf("profile: %w", err)
	}
	s := script{arrivals: arrivals, services: make([]time.Duration, len(arrivals))}
	draws := rand.New(rand.NewPCG(o.Seed, serviceStream))
	for i, a := range arrivals {
		s.services[i] = o.Service.Sample(draws, a.PromptTokens, a.OutputTokens).Total
	}
	return s, nil
}
