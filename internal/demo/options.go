package demo

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"headgate/internal/config"
	"headgate/internal/loadgen"
	"headgate/internal/modelstub"
)

// Bounds of the options.
const (
	MinSpeed   = 1
	MaxSpeed   = 500 // above it, a millisecond of this machine's own work counts as half a second
	MaxWorkers = 1000
	// MaxSlackSpeed bounds the speed with Slack: above it, rules cannot be evaluated
	// often enough.
	MaxSlackSpeed = 100
	// SlackSpeed is slow enough to read the messages, and for Slack, which accepts one
	// message per second at any speed.
	SlackSpeed = 10
)

// drainMultiple times the duration of the load is the limit for draining the backlog, in
// scenario time.
const drainMultiple = 6

// Options configure a demo.
type Options struct {
	Speed   float64           // scenario seconds in one second of the wall clock
	Workers int               // permits of each gate, and slots of each endpoint
	Service modelstub.Service // service times of both endpoints
	Seed    uint64            // of arrivals and service times
	Profile loadgen.Profile   // arrivals; its own Seed is not used
	Slack   bool              // watch the gated side, with alerts in a stand-in for Slack
}

// DefaultOptions are the article's load on enough workers that only the burst exceeds
// capacity.
func DefaultOptions() Options {
	return Options{
		Speed:   20,
		Workers: 16,
		Service: modelstub.Uniform{Low: 5 * time.Second, High: 30 * time.Second},
		Seed:    1,
		Profile: loadgen.Article(),
	}
}

// WithSlack returns the options with Slack, at SlackSpeed. The burst is long enough that a
// warning escalates to a page.
func (o Options) WithSlack() Options {
	o.Slack, o.Speed = true, SlackSpeed
	o.Profile.Duration = 10 * time.Minute
	o.Profile.Bursts = []loadgen.Burst{{From: 2 * time.Minute, To: 8 * time.Minute, Multiple: 2}}
	return o
}

// Validate returns an error that names an invalid option and its valid values.
func (o Options) Validate() error {
	switch {
	case math.IsNaN(o.Speed) || o.Speed < MinSpeed || o.Speed > MaxSpeed:
		return fmt.Errorf("speed: must be %d to %d, is %v", MinSpeed, MaxSpeed, o.Speed)
	case o.Slack && o.Speed > MaxSlackSpeed:
		return fmt.Errorf("speed: must be at most %d with Slack, is %v: rules cannot be evaluated that often", MaxSlackSpeed, o.Speed)
	case o.Workers < 1 || o.Workers > MaxWorkers:
		return fmt.Errorf("workers: must be 1 to %d, is %d", MaxWorkers, o.Workers)
	case o.Service == nil:
		return errors.New("service: must be set, such as uniform:5s-30s")
	}
	if err := o.Profile.Validate(); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return nil
}

// Plan is the scenario of a demo. Times are scenario time.
type Plan struct {
	Speed       float64
	Workers     int
	Service     string // as modelstub.ParseService reads it
	Seed        uint64
	SLO         time.Duration // on turnaround
	MaxQueueAge time.Duration // of the gate's policy
	Depth       int           // queued tasks above which the gate's policy refuses
	Arrivals    int
	BaseRate    float64        // arrivals per second outside the burst
	Duration    time.Duration  // of the load
	DrainLimit  time.Duration  // after the load
	Burst       *loadgen.Burst // the first one; nil without
	MeanService time.Duration  // expected
	Slack       bool           // the gated side is watched
}

// Load is the arrival rate × mean service time ÷ workers, for a multiple of the
// base rate. Above 1 the queue grows.
func (p Plan) Load(multiple float64) float64 {
	return p.BaseRate * multiple * p.MeanService.Seconds() / float64(p.Workers)
}

// Wall converts scenario time to time on the wall clock.
func (p Plan) Wall(d time.Duration) time.Duration { return time.Duration(float64(d) / p.Speed) }

// newPlan takes limits from the default settings, so that the demo shows what they do.
func newPlan(o Options, s workload) Plan {
	pool := config.DefaultPool()
	p := Plan{
		Speed: o.Speed, Workers: o.Workers, Service: o.Service.String(), Seed: o.Seed,
		SLO: pool.SLO.Turnaround, MaxQueueAge: pool.Admission.MaxQueueAge, Depth: pool.Admission.DepthMultiple * o.Workers,
		Arrivals: len(s.arrivals), BaseRate: o.Profile.BaseRate,
		Duration: o.Profile.Duration, DrainLimit: drainMultiple * o.Profile.Duration,
		MeanService: meanService(o), Slack: o.Slack,
	}
	if len(o.Profile.Bursts) > 0 {
		p.Burst = &o.Profile.Bursts[0]
	}
	return p
}

// meanService is the expected service time over both sizes of prompt.
func meanService(o Options) time.Duration {
	small, large := cmp.Or(o.Profile.Small, loadgen.SmallShape()), cmp.Or(o.Profile.Large, loadgen.LargeShape())
	share := o.Profile.LargeShare
	mean := func(s loadgen.Shape) float64 { return float64(o.Service.Mean(s.PromptTokens, s.OutputTokens)) }
	return time.Duration((1-share)*mean(small) + share*mean(large))
}

// Phase is a part of the scenario.
type Phase string

// The phases, in order.
const (
	Baseline Phase = "baseline"
	Burst    Phase = "burst"
	After    Phase = "after"    // the burst is over, arrivals continue
	Draining Phase = "draining" // no more arrivals
	Settling Phase = "settling" // the queue is empty, incidents are still open
)

// Phase returns the part of the scenario that a time belongs to.
func (p Plan) Phase(at time.Duration) Phase {
	switch {
	case at >= p.Duration:
		return Draining
	case p.Burst == nil || at < p.Burst.From:
		return Baseline
	case at < p.Burst.To:
		return Burst
	}
	return After
}

// recoveryStart is when the queue can begin to empty: the end of the burst, or of the load
// without one.
func (p Plan) recoveryStart() time.Duration {
	if p.Burst != nil {
		return min(p.Burst.To, p.Duration)
	}
	return p.Duration
}

// serviceStream separates the random numbers of service times from those of arrivals.
const serviceStream = 0x73657276

// workload is the same for both sides: arrivals, and the service time of each.
type workload struct {
	arrivals     loadgen.Arrivals
	serviceTimes []time.Duration
}

// newWorkload draws arrivals and service times once, for both sides.
func newWorkload(o Options) (workload, error) {
	o.Profile.Seed = o.Seed
	arrivals, err := o.Profile.Arrivals()
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
