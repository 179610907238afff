package app

import (
	"errors"
	"fmt"
	"time"

	"headgate/engine"
	"headgate/internal/config"
	"headgate/proxy"
	"headgate/proxy/admission"
	"headgate/proxy/admission/invariant"
)

// Pool is what others may know of a pool.
type Pool struct {
	Name string
	SLO  time.Duration
	Gate *admission.Gate
}

// configPlan is what settings come to, before anything of it is applied.
type configPlan struct {
	cfg   *config.Config
	data  proxy.Config
	gates []admission.Config // one a pool, in the order of the settings
	rules []engine.Rule
}

// planConfig does all of the work that can fail. Errors carry the position of the
// setting. Gates that exist already are taken over, as they are.
func planConfig(cfg *config.Config, gates map[string]*admission.Gate) (configPlan, error) {
	p := configPlan{cfg: cfg}
	var err error
	if p.data.Clients, err = proxyClients(cfg); err != nil {
		return configPlan{}, err
	}
	for i := range cfg.Pools {
		c, err := admissionConfig(cfg, i)
		if err != nil {
			return configPlan{}, err
		}
		gate := gates[cfg.Pools[i].Name]
		if gate == nil {
			c.Monitor = invariant.New() // for as long as the gate lives
			if gate, err = admission.New(c); err != nil {
				return configPlan{}, admissionError(cfg, i, err)
			}
		}
		pool, err := proxyPool(cfg, i, gate)
		if err != nil {
			return configPlan{}, err
		}
		p.gates = append(p.gates, c)
		p.data.Pools = append(p.data.Pools, pool)
	}
	p.rules, err = Rules(cfg)
	return p, err
}

// admissionError puts what the gate refuses at the setting that it came from.
func admissionError(cfg *config.Config, i int, err error) error {
	var field *admission.FieldError
	if !errors.As(err, &field) {
		return cfg.At(fmt.Sprintf("pools[%d].admission", i), err)
	}
	return cfg.At(fmt.Sprintf("pools[%d].%s", i, configPaths[field.Field]), errors.New(field.Message))
}

// configPaths maps the gate's names of settings to their places in the file.
var configPaths = map[string]string{
	"workers":           "workers",
	"mode":              "mode",
	"policy":            "admission.policy",
	"max_queue_age":     "admission.max_queue_age",
	"depth_multiple":    "admission.depth_multiple",
	"passthrough_queue": "limits.passthrough_queue",
	"assumed_service":   "slo.turnaround",
}
