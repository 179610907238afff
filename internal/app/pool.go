package app

import (
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"

	"headgate/internal/config"
	"headgate/proxy"
	"headgate/proxy/admission"
)

// assumedServiceDivisor is the part of the SLO that a task is assumed to take until one
// has been measured: with more, the threshold policy would not hold the SLO.
const assumedServiceDivisor = 4

// proxyPool makes the data plane's pool out of its settings.
func proxyPool(cfg *config.Config, i int, gate *admission.Gate) (proxy.Pool, error) {
	c := &cfg.Pools[i]
	upstream, err := url.Parse(c.Upstream)
	if err != nil { // the settings have been checked; and its text may hold a secret
		return proxy.Pool{}, cfg.At(fmt.Sprintf("pools[%d].upstream", i), errors.New("is not a URL"))
	}
	return proxy.Pool{
		Name: c.Name, Upstream: upstream, UpstreamKey: c.UpstreamKey.Reveal(), Models: c.Models, Endpoints: c.Endpoints,
		Gate: gate, SLO: c.SLO.Turnaround,
		ConnectTimeout: c.Timeouts.UpstreamConnect, IdleTimeout: c.Timeouts.UpstreamIdle,
		BodyLimit: int64(c.Limits.Body), BufferLimit: int64(c.Limits.Buffered), StreamKeepAlive: c.StreamKeepalive,
	}, nil
}

// admissionConfig makes the gate's settings out of a pool's.
func admissionConfig(cfg *config.Config, i int) (admission.Config, error) {
	c := &cfg.Pools[i]
	mode, err := admission.ParseMode(c.Mode)
	if err != nil {
		return admission.Config{}, admissionError(cfg, i, &admission.FieldError{Field: "mode", Message: err.Error()})
	}
	p, err := admissionPolicy(c.Admission)
	if err != nil {
		return admission.Config{}, admissionError(cfg, i, err)
	}
	return admission.Config{
		Workers: c.Workers, Policy: p, Mode: mode,
		QueueLimit: c.Limits.PassthroughQueue, AssumedService: c.SLO.Turnaround / assumedServiceDivisor,
	}, nil
}

// admissionPolicy returns the admission policy of that name.
func admissionPolicy(c config.Admission) (admission.Policy, error) {
	switch c.Policy {
	case "threshold":
		return admission.NewThreshold(c.MaxQueueAge, c.DepthMultiple)
	case "none":
		return admission.None{}, nil
	default:
		return nil, &admission.FieldError{Field: "policy", Message: fmt.Sprintf("unknown policy %q: must be threshold or none", c.Policy)}
	}
}

// proxyClients returns those whose keys are let in.
func proxyClients(cfg *config.Config) ([]proxy.Client, error) {
	var all []proxy.Client
	for i, c := range cfg.Clients {
		client := proxy.Client{Name: c.Name}
		sum, err := hex.DecodeString(c.KeySHA256)
		if err != nil || len(sum) != len(client.KeySHA256) {
			return nil, cfg.At(fmt.Sprintf("clients[%d].key_sha256", i), errors.New("must be 64 hexadecimal digits"))
		}
		client.KeySHA256 = [len(client.KeySHA256)]byte(sum)
		if c.Priority == admission.Batch.String() {
			client.Class = admission.Batch
		}
		all = append(all, client)
	}
	return all, nil
}
