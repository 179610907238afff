package sandbox

import (
	"context"
	"net/http"
	"os"
	"time"

	"headgate/runbooks/drill"
)

// Pool is what an environment has to know of a pool of production.
type Pool struct {
	Name          string
	Workers       int
	SLO           time.Duration // on turnaround
	MaxQueueAge   time.Duration // of the threshold policy; 0: another policy
	DepthMultiple int           // as many tasks a worker may wait; 0: another policy
	Only          bool          // production has no other pool
}

// SystemSpec describes the system that a twin needs.
type SystemSpec struct {
	Pool            string // of production, whose settings and rules are taken
	Workers         int
	Speed           float64
	Dir             string // empty, for the record
	UpstreamURL     string
	Upstream, Slack http.RoundTripper // for calls of the endpoint and of Slack
	Messages        SlackChannel
}

// System is the system under test of a twin, which has started. Methods may be called from any goroutine.
type System interface {
	// DataAddr is the address of the data plane.
	DataAddr() string
	// SetMode asks for a mode as people do (passthrough, enforce or restore) and returns the modes that the system shows
	// afterwards, by pool.
	SetMode(ctx context.Context, pool, mode, reason string) (shown map[string]string, err error)
	// Incidents returns the IDs of all incidents.
	Incidents(ctx context.Context) ([]string, error)
	// ProbeRecord tries to write to the record as another process would, and changes nothing.
	ProbeRecord(ctx context.Context) error
	// LockRecord locks the record until unlock is called.
	LockRecord(ctx context.Context) (unlock func(context.Context) error, err error)
	// Failed delivers an error when a listener fails.
	Failed() <-chan error
	Stop(ctx context.Context) error
}

// SlackChannel is where messages go. Without a token or a channel they go to a stand-in.
type SlackChannel struct{ Token, APIURL, Channel string }

func (c SlackChannel) real() bool { return c.Token != "" && c.Channel != "" }

// Target says for people where messages go.
func (c SlackChannel) Target() string {
	if c.real() {
		return "channel " + c.Channel
	}
	return "a stand-in for Slack that is part of the drill"
}

// Environments opens the environments of runs. All fields but Dir must be set.
type Environments struct {
	// Pool returns the pool that a drill is about; the error says why a drill cannot work on it.
	Pool func(drill.Spec) (Pool, error)
	// NewSystem builds and starts the system of a twin.
	NewSystem func(SystemSpec) (System, error)
	// Messages is where the messages of twins go.
	Messages func() SlackChannel
	// Incidents returns the IDs of production's incidents of a pool since an instant.
	Incidents func(ctx context.Context, pool string, since time.Time) ([]string, error)
	Traffic   *Traffic
	Dir       string // of the directories of twins; empty: the system's temporary directory
}

var _ drill.EnvironmentFactory = (*Environments)(nil)

// Open builds the environment of a run.
func (e *Environments) Open(ctx context.Context, r drill.Run) (drill.Environment, error) {
	pool, err := e.Pool(r.Spec)
	if err != nil {
		return nil, err
	}
	if r.Spec.Target == drill.Live {
		return e.openLive(r, pool)
	}
	return e.openTwin(ctx, r, pool)
}

// RemoveStale removes the directories of twins that a killed process has left in Dir.
func (e *Environments) RemoveStale() error {
	if e.Dir == "" {
		return nil
	}
	return os.RemoveAll(e.Dir)
}
