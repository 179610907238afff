package app

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headgate/engine"
	"headgate/internal/config"
	"headgate/runbooks/control"
)

// editedConfig returns a copy of the settings that an App runs with, changed.
func (r *fixture) editedConfig(edit func(*config.Config)) *config.Config {
	cfg := *r.app.config()
	cfg.Pools = append([]config.Pool(nil), cfg.Pools...)
	edit(&cfg)
	return &cfg
}

func TestReloadAddsWorkers(t *testing.T) {
	r := newFixture(t, nil)
	running, waiting := r.fill(2)
	if err := r.app.Reload(r.editedConfig(func(c *config.Config) { c.Pools[0].Workers = 3 })); err != nil {
		t.Fatal(err)
	}
	r.eventually("the queue is empty", func() bool { return r.depth() == 0 })
	close(r.upstream.release)
	for _, c := range append(waiting, running) {
		if a := <-c; a.status != http.StatusOK {
			t.Errorf("status %d (%v)", a.status, a.err)
		}
	}
}

// A removed pool accepts no new task and finishes those that it has.
func TestReloadRemovesAPool(t *testing.T) {
	r := newFixture(t, nil)
	running, _ := r.fill(0)
	if err := r.app.Reload(r.editedConfig(func(c *config.Config) { c.Pools[0].Name, c.Pools[0].Models = "other", []string{"n"} })); err != nil {
		t.Fatal(err)
	}
	if a := <-r.sendChat(); a.status != http.StatusNotFound || !strings.Contains(a.body, "model_not_found") {
		t.Errorf("status %d (%v) %s", a.status, a.err, a.body)
	}
	close(r.upstream.release)
	if a := <-running; a.status != http.StatusOK {
		t.Errorf("status %d (%v)", a.status, a.err)
	}
	s := r.app.Status(time.Now())
	if len(s.Pools) != 1 || s.Pools[0].Name != "other" {
		t.Errorf("status %+v", s)
	}
}

func TestReloadThatFailsChangesNothing(t *testing.T) {
	r := newFixture(t, nil)
	close(r.upstream.release)
	for want, edit := range map[string]func(*config.Config){
		"workers":      func(c *config.Config) { c.Pools[0].Workers = 0 },
		"listen":       func(c *config.Config) { c.Listen = "127.0.0.1:1" },
		"admin.listen": func(c *config.Config) { c.Admin.Listen = "127.0.0.1:1" },
		"admin.token":  func(c *config.Config) { c.Admin.Token = config.NewSecret("another-token-0123456789") },
		"data_dir":     func(c *config.Config) { c.DataDir = "elsewhere" },
		"log.format":   func(c *config.Config) { c.Log.Format = "json" },
		"pools[1].models[0]": func(c *config.Config) {
			c.Pools[0].Models = []string{"m"}
			c.Pools = append(c.Pools, c.Pools[0])
			c.Pools[1].Name = "second"
		},
	} {
		if err := r.app.Reload(r.editedConfig(edit)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one about %s", err, want)
		}
		if pools := r.app.Pools(); len(pools) != 1 || pools[0].Name != "default" {
			t.Errorf("pools %+v", pools)
		}
		if a := <-r.sendChat(); a.status != http.StatusOK {
			t.Errorf("%s: status %d (%v)", want, a.status, a.err)
		}
	}
}

// An engine that does not take the rules is the last that can refuse a reload.
func TestReloadThatTheEngineRefusesChangesNothing(t *testing.T) {
	r := newFixture(t, nil)
	close(r.upstream.release)
	if err := r.app.monitor.engine.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	before := r.app.config()
	err := r.app.Reload(r.editedConfig(func(c *config.Config) {
		c.Pools[0].Workers, c.Pools[0].Models, c.Hosts = 7, []string{"n"}, []string{"gate.example"}
		c.Pools = append(c.Pools, c.Pools[0])
		c.Pools[1].Name, c.Pools[1].Models = "second", []string{"o"}
	}))
	if !errors.Is(err, engine.ErrNotRunning) {
		t.Errorf("error %v", err)
	}
	pools := r.app.Pools()
	if len(pools) != 1 || pools[0].Gate.Snapshot(time.Now()).Workers != 1 || r.app.config() != before {
		t.Errorf("pools %+v", pools)
	}
	if _, known := r.app.record.control.PoolStatus(time.Now(), "second"); known {
		t.Error("the new pool has a mode")
	}
	if a := <-r.sendChat(); a.status != http.StatusOK {
		t.Errorf("status %d (%v)", a.status, a.err)
	}
}

func TestReloadChangesHosts(t *testing.T) {
	r := newFixture(t, nil)
	status := func() int {
		req := r.request(http.MethodGet, "http://"+r.app.AdminAddr()+"/healthz", "")
		req.Host = "gate.example"
		return r.do(req).status
	}
	if s := status(); s != http.StatusMisdirectedRequest {
		t.Errorf("status %d before", s)
	}
	if err := r.app.Reload(r.editedConfig(func(c *config.Config) { c.Hosts = []string{"gate.example"} })); err != nil {
		t.Fatal(err)
	}
	if s := status(); s != http.StatusOK {
		t.Errorf("status %d after", s)
	}
}

// A pool that a reload adds is paused if it was paused when the previous process stopped.
func TestReloadKeepsAPause(t *testing.T) {
	r := newFixture(t, nil)
	now := time.Now()
	if err := r.app.record.store.SavePause(t.Context(), control.Pause{Pool: "late", Since: now, Until: now.Add(time.Hour), Actor: "ana", Via: control.ViaAPI}); err != nil {
		t.Fatal(err)
	}
	if err := r.app.record.pauses.Load(t.Context(), now); err != nil {
		t.Fatal(err)
	}
	if err := r.app.Reload(r.editedConfig(func(c *config.Config) { c.Pools[0].Name = "late" })); err != nil {
		t.Fatal(err)
	}
	if s, _ := r.app.record.control.PoolStatus(time.Now(), "late"); s.Paused == nil || s.Paused.Actor != "ana" {
		t.Errorf("paused: %+v", s.Paused)
	}
}

// A file with certificates that cannot be used refuses the reload, and names the setting.
func TestReloadWithUnusableCertificates(t *testing.T) {
	r := newFixture(t, nil)
	close(r.upstream.release)
	empty := filepath.Join(t.TempDir(), "empty.pem")
	if err := os.WriteFile(empty, []byte("nothing"), 0o600); err != nil {
		t.Fatal(err)
	}
	for file, setting := range map[string]string{
		filepath.Join(t.TempDir(), "none.pem"): "upstream_tls.ca_file", t.TempDir(): "upstream_tls.ca_file", empty: "upstream_tls",
	} {
		err := r.app.Reload(r.editedConfig(func(c *config.Config) {
			c.Pools[0].Upstream, c.Pools[0].UpstreamTLS.CAFile = "https://127.0.0.1:1/v1", file
		}))
		if err == nil || !strings.Contains(err.Error(), setting) {
			t.Errorf("%s: %v", file, err)
		}
	}
}
