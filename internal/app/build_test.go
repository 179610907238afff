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

// Settings that were not loaded from a file are checked too, and errors have the position of the setting.
func TestInvalidSettingsReportPosition(t *testing.T) {
	for want, spoil := range map[string]func(*config.Config){
		"admin.token":                         func(c *config.Config) { c.Admin.Token = config.NewSecret("short") },
		"headgate.yaml:5:5: pools[0].workers": func(c *config.Config) { c.Pools[0].Workers = 0 },
		"headgate.yaml:10:7: pools[0].admission.depth_multiple": func(c *config.Config) { c.Pools[0].Admission.DepthMultiple = 0 },
		"pools[0].admission.policy":                             func(c *config.Config) { c.Pools[0].Admission.Policy = "magic" },
		"pools[0]: assumed_service":                             func(c *config.Config) { c.Pools[0].SLO.Turnaround, c.Pools[0].Admission.MaxQueueAge = 2, 1 },
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
	a := &App{opts: options{log: slog.New(slog.DiscardHandler)}}
	p, err := a.plan(config.Default(), settings{})
	if err != nil {
		t.Fatal(err)
	}
	for i, pool := range p.proxy.Pools {
		if pool.BodyLimit <= 0 || pool.BufferLimit <= 0 || pool.SLO <= 0 || pool.ConnectTimeout <= 0 || pool.IdleTimeout <= 0 {
			t.Errorf("%+v", pool)
		}
		if g := p.limits[i]; g.Workers <= 0 || g.QueueLimit <= 0 || g.AssumedService <= 0 || g.Policy == nil {
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
