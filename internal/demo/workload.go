package demo

import (
	"fmt"
	"math/rand/v2"
	"time"

	"headgate/internal/loadgen"
)

// serviceStream keeps the draws of service times apart from those of arrivals.
const serviceStream = 0x73657276

// workload is what both sides are given: arrivals, and the service time of each.
type workload struct {
	arrivals     loadgen.Arrivals
	serviceTimes []time.Duration
}

func newWorkload(o Options) (workload, error) {
	o.Profile.Seed = o.Seed
	source, err := o.Profile.Source()
	if err != nil {
		return workload{}, fmt.Errorf("profile: %w", err)
	}
	arrivals, err := loadgen.Collect(source)
	if err != nil {
		return workload{}, fmt.Errorf("profile: %w", err)
	}
	s := workload{arrivals: arrivals, serviceTimes: make([]time.Duration, len(arrivals))}
	draws := rand.New(rand.NewPCG(o.Seed, serviceStream))
	for i, a := range arrivals {
		s.serviceTimes[i] = o.Service.Sample(draws, a.PromptTokens, a.OutputTokens).Total
	}
	return s, nil
}
