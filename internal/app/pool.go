package app

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"time"

	"headgate/internal/config"
	"headgate/proxy"
	"headgate/proxy/admit"
)

// assumedShare is the part of the SLO that a task is assumed to take until one
// has been measured: with more, the threshold policy would not hold the SLO.
const assumedShare = 4

// Pool is what others may know of a pool.
type Pool struct {
	Name string
	SLO  time.Duration
	Gate *admit.Gate
}

// pool makes the data plane's pool out of its settings.
func pool(cfg *config.Config, i int) (proxy.Pool, error) {
	c := &cfg.Pools[i]
	at := func(field string, err error) error { return cfg.At(fmt.Sprintf("pools[%d].%s", i, field), err) }
	upstream, err := url.Parse(c.Upstream)
	if err != nil {
		return proxy.Pool{}, at("upstream", errors.New("is not a URL"))
	}
	gate, err := newGate(c)
	var field *admit.FieldError
	if errors.As(err, &field) {
		return proxy.Pool{}, at(gateFields[field.Field], errors.New(field.Problem))
	}
	if err != nil {
		return proxy.Pool{}, at("admission", err)
	}
	return proxy.Pool{
		Name: c.Name, Upstream: upstream, UpstreamKey: c.UpstreamKey.Reveal(), Models: c.Models, Endpoints: c.Endpoints,
		Gate: gate, SLO: c.SLO.Turnaround,
		ConnectTimeout: c.Timeouts.UpstreamConnect, IdleTimeout: c.Timeouts.UpstreamIdle,
		BodyLimit: int64(c.Limits.Body), BufferLimit: int64(c.Limits.Buffered), StreamKeepAlive: c.StreamKeepalive,
	}, nil
}

// gateFields maps what the gate refuses to the settings that it came from.
var gateFields = map[string]string{
	"workers":           "workers",
	"mode":              "mode",
	"policy":            "admission.policy",
	"max_queue_age":     "admission.max_queue_age",
	"depth_multiple":    "admission.depth_multiple",
	"passthrough_queue": "limits.passthrough_queue",
	"assumed_service":   "slo.turnaround",
}

func newGate(c *config.Pool) (*admit.Gate, error) {
	mode, err := admit.ParseMode(c.Mode)
	if err != nil {
		return nil, &admit.FieldError{Field: "mode", Problem: err.Error()}
	}
	p, err := policy(c.Admission)
	if err != nil {
		return nil, err
	}
	return admit.New(admit.Config{
		Workers: c.Workers, Policy: p, Mode: mode,
		QueueLimit: c.Limits.PassthroughQueue, AssumedService: c.SLO.Turnaround / assumedShare,
	})
}

// policy returns the admission policy of that name.
func policy(c config.Admission) (admit.Policy, error) {
	switch c.Policy {
	case "threshold":
		return admit.NewThreshold(c.MaxQueueAge, c.DepthMultiple)
	case "none":
		return admit.None{}, nil
	default:
		return nil, &admit.FieldError{Field: "policy", Problem: fmt.Sprintf("unknown policy %q: must be threshold or none", c.Policy)}
	}
}

// clients returns those whose keys are let in.
func clients(cfg *config.Config) ([]proxy.Client, error) {
	var all []proxy.Client
	for i, c := range cfg.Clients {
		at := func(field, problem string) error {
			return cfg.At(fmt.Sprintf("clients[%d].%s", i, field), errors.New(problem))
		}
		client := proxy.Client{Name: c.Name}
		sum, err := hex.DecodeString(c.KeySHA256)
		if err != nil || copy(client.KeySHA256[:], sum) != len(client.KeySHA256) {
			return nil, at("key_sha256", "must be 64 hexadecimal digits")
		}
		if c.Priority == admit.Batch.String() {
			client.Class = admit.Batch
		}
		all = append(all, client)
	}
	return all, nil
}
