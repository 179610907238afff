package demo

import (
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
	MaxSpeed   = 500 // beyond it a millisecond of this machine's own work counts half a second
	MaxWorkers = 1000
	// MaxSlackSpeed bounds the speed with Slack: beyond it rules cannot be evaluated
	// often enough.
	MaxSlackSpeed = 100
	// SlackSpeed is slow enough to read along, and for Slack to keep up: it takes
	// one message a second at any speed.
	SlackSpeed = 10
)

// drainMultiple times the duration of the load is how long the backlog may take
// to drain, in scenario time.
const drainMultiple = 6

// Options say what is to be shown.
type Options struct {
	Speed   float64           // scenario seconds in one second of the wall clock
	Workers int               // permits of each gate, and slots of each endpoint
	Service modelstub.Service // service times of both endpoints
	Seed    uint64            // of arrivals and service times
	Profile loadgen.Profile   // arrivals; its own Seed is not used
	Slack   bool              // watch the gated side, and tell a stand-in for Slack
}

// DefaultOptions are the article's load on so many workers that it is the burst
// which is too much.
func DefaultOptions() Options {
	return Options{
		Speed:   20,
		Workers: 16,
		Service: modelstub.Uniform{Low: 5 * time.Second, High: 30 * time.Second},
		Seed:    1,
		Profile: loadgen.Article(),
	}
}

// WithSlack returns the options with somebody to tell, at SlackSpeed. The burst
// goes on for long enough that a warning becomes a page.
func (o Options) WithSlack() Options {
	o.Slack, o.Speed = true, SlackSpeed
	o.Profile.Duration = 10 * time.Minute
	o.Profile.Bursts = []loadgen.Burst{{From: 2 * time.Minute, To: 8 * time.Minute, Multiple: 2}}
	return o
}

// Validate says which option cannot be, and what would be right.
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

// Plan is what will be played. Times are scenario time.
type Plan struct {
	Speed       float64
	Workers     int
	Service     string // as modelstub.ParseService reads it
	Seed        uint64
	SLO         time.Duration // on turnaround
	MaxQueueAge time.Duration // of the gate's policy
	Depth       int           // waiting tasks beyond which the gate's policy refuses
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
	small, large := o.Profile.Small, o.Profile.Large
	if small == (loadgen.Shape{}) {
		small = loadgen.SmallShape()
	}
	if large == (loadgen.Shape{}) {
		large = loadgen.LargeShape()
	}
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
	After    Phase = "after"    // the burst is over, arrivals still come
	Draining Phase = "draining" // no arrivals any more
	Settling Phase = "settling" // nothing waits any more, incidents come to their ends
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

// recoveryStart is when the queue has its chance to empty: the end of the burst, or
// of the load when there is none.
func (p Plan) recoveryStart() time.Duration {
	if p.Burst != nil {
		return min(p.Burst.To, p.Duration)
	}
	return p.Duration
}

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
