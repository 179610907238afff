package app

import (
	"log/slog"
	"strings"
	"testing"

	"headgate/internal/config"
)

const buildConfigYAML = `pools:
  - name: one
    upstream: http://127.0.0.1:1/v1
    models: [a]
    workers: 4
    mode: enforce
    admission:
      policy: threshold
      max_queue_age: 25s
      depth_multiple: 2
    limits:
      passthrough_queue: 100
  - name: two
    upstream: http://127.0.0.1:1/v1
    models: [b]
clients:
  - name: team
    key_sha256: 2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae
`

func parseBuildConfig(t *testing.T) *config.Config {
	t.Helper()
	cfg, err := config.Parse("headgate.yaml", []byte(buildConfigYAML), nil)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// What a part refuses is told with the place of the setting it came from.
func TestInvalidSettingsReportPosition(t *testing.T) {
	for want, spoil := range map[string]func(*config.Config){
		"admin.token":                                           func(c *config.Config) { c.Admin.Token = config.NewSecret("short") },
		"headgate.yaml:5:5: pools[0].workers":                   func(c *config.Config) { c.Pools[0].Workers = 0 },
		"headgate.yaml:6:5: pools[0].mode":                      func(c *config.Config) { c.Pools[0].Mode = "strict" },
		"headgate.yaml:8:7: pools[0].admission.policy":          func(c *config.Config) { c.Pools[0].Admission.Policy = "magic" },
		"headgate.yaml:9:7: pools[0].admission.max_queue_age":   func(c *config.Config) { c.Pools[0].Admission.MaxQueueAge = 0 },
		"headgate.yaml:10:7: pools[0].admission.depth_multiple": func(c *config.Config) { c.Pools[0].Admission.DepthMultiple = 0 },
		"headgate.yaml:12:7: pools[0].limits.passthrough_queue": func(c *config.Config) { c.Pools[0].Limits.PassthroughQueue = 0 },
		"headgate.yaml:3:5: pools[0].upstream":                  func(c *config.Config) { c.Pools[0].Upstream = "http://[" },
		"clients[0].key_sha256":                                 func(c *config.Config) { c.Clients[0].KeySHA256 = "abc" },
		`routed to two pools: "one" and "two"`:                  func(c *config.Config) { c.Pools[1].Models = []string{"a"} },
		"SLO and timeouts must be above 0":                      func(c *config.Config) { c.Pools[1].Timeouts.UpstreamIdle = 0 },
		"body limit must be above 0":                            func(c *config.Config) { c.Pools[1].Limits.Body = 0 },
	} {
		cfg := parseBuildConfig(t)
		spoil(cfg)
		if _, err := New(cfg, "test", slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
}

// What is left out of the settings has bounds all the same.
func TestDefaultsAreFinite(t *testing.T) {
	a := &App{options: options{log: slog.New(slog.DiscardHandler)}}
	p, err := a.plan(config.Default(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, pool := range p.proxy.Pools {
		if pool.BodyLimit <= 0 || pool.BufferLimit <= 0 || pool.SLO <= 0 || pool.ConnectTimeout <= 0 || pool.IdleTimeout <= 0 {
			t.Errorf("%+v", pool)
		}
		if g := p.gates[i]; g.Workers <= 0 || g.QueueLimit <= 0 || g.AssumedService <= 0 || g.Policy == nil {
			t.Errorf("%+v", g)
		}
	}
}

func TestBatchClients(t *testing.T) {
	cfg := parseBuildConfig(t)
	cfg.Clients = append(cfg.Clients, cfg.Clients[0])
	cfg.Clients[1].Priority = "batch"
	got, err := proxyClients(cfg)
	if err != nil || len(got) != 2 || got[0].Class.String() != "interactive" || got[1].Class.String() != "batch" {
		t.Errorf("%+v (%v)", got, err)
	}
}
