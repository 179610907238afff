package demo

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headgate/internal/modelstub"
)

func newDemo(t *testing.T, o Options) *Demo {
	t.Helper()
	d, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// Whatever is a time of the scenario follows the speed; whatever is none stays.
func TestSettingsAreScaled(t *testing.T) {
	wantEmptyTempDir(t)
	for _, c := range []struct {
		speed    float64
		slo, age time.Duration
	}{
		{1, 60 * time.Second, 25 * time.Second},
		{20, 3 * time.Second, 1250 * time.Millisecond},
		{500, 120 * time.Millisecond, 50 * time.Millisecond},
	} {
		o := DefaultOptions()
		o.Speed = c.speed
		d := newDemo(t, o)
		for _, y := range d.sides() {
			cfg := y.config(d.plan, "dir")
			pool := cfg.Pools[0]
			if pool.SLO.Turnaround != c.slo || pool.Admission.MaxQueueAge != c.age {
				t.Errorf("speed %v: SLO %v and queue age %v, want %v and %v", c.speed, pool.SLO.Turnaround, pool.Admission.MaxQueueAge, c.slo, c.age)
			}
			if pool.Workers != 16 || pool.Admission.DepthMultiple != 2 || pool.Admission.Policy != "threshold" {
				t.Errorf("speed %v: pool %+v, want 16 workers and the article's rule", c.speed, pool)
			}
			if !strings.HasPrefix(cfg.Listen, "127.0.0.1:") || !strings.HasPrefix(cfg.Admin.Listen, "127.0.0.1:") || cfg.Drain != 0 {
				t.Errorf("listens on %s and %s, drains %v; want loopback and no drain", cfg.Listen, cfg.Admin.Listen, cfg.Drain)
			}
			if pool.Timeouts.UpstreamIdle < modelstub.MaxService {
				t.Errorf("a silence of %v cuts tasks off; the longest service is %v", pool.Timeouts.UpstreamIdle, modelstub.MaxService)
			}
		}
	}
}

func TestSidesDifferInTheirModeOnly(t *testing.T) {
	wantEmptyTempDir(t)
	d := newDemo(t, DefaultOptions())
	a, b := d.gated.config(d.plan, "dir").Pools[0], d.ungated.config(d.plan, "dir").Pools[0]
	if a.Mode != "enforce" || b.Mode != "passthrough" || a.Upstream == b.Upstream {
		t.Errorf("modes %s and %s, upstreams %s and %s", a.Mode, b.Mode, a.Upstream, b.Upstream)
	}
	a.Mode, a.Upstream = b.Mode, b.Upstream
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("settings differ:\n%+v\n%+v", a, b)
	}
	for _, y := range d.sides() {
		want := fmt.Sprintf(`headgate_mode{mode="%s",pool="default"} 1`, y.mode)
		if body := get(t, y.addresses().Metrics); !strings.Contains(body, want) {
			t.Errorf("no %s in the metrics of the side", want)
		}
		if info, err := os.Stat(filepath.Join(d.dir, y.mode)); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("data directory of %s: %v, %v; want one of its own, private", y.mode, info, err)
		}
	}
}

// The endpoint takes calls from anybody, and notes only those of the load.
func TestStrangersAtTheEndpoint(t *testing.T) {
	wantEmptyTempDir(t)
	o := shortOptions()
	d := newDemo(t, o)
	d.gated.tracker.start = time.Now()
	for _, index := range []string{"", "x", "-1", "99999999999999999999", "3"} {
		call(t, d.gated.addresses().Data, index)
	}
	for i, task := range d.gated.tracker.snapshot() {
		if seen := task.started != unset; seen != (i == 3) {
			t.Errorf("task %d seen: %v", i, seen)
		}
	}
	if got := d.gated.stub.Stats().Completed; got != 5 {
		t.Errorf("endpoint completed %d calls, want 5", got)
	}
}

func call(t *testing.T, base, index string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, base+"/chat/completions",
		strings.NewReader(`{"model":"demo","messages":[{"role":"user","content":"hello"}]}`))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set(indexHeader, index)
	r.Header.Set(modelstub.HeaderService, "0s")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("call with index %q: %s", index, resp.Status)
	}
}

// Without a place for its data a demo does not start, and says where it failed.
func TestNoPlaceForData(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "missing")
	t.Setenv("TMPDIR", missing)
	d, err := New(DefaultOptions())
	if err == nil {
		_ = d.Close()
		t.Fatal("New succeeds without a place for its data")
	}
	if !strings.Contains(err.Error(), missing) {
		t.Errorf("%v, want an error that names %s", err, missing)
	}
}

// A side that cannot be started takes what it has opened with it: the leak check
// of the package would find the endpoint.
func TestHalfASide(t *testing.T) {
	o := DefaultOptions()
	s, err := newWorkload(o)
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "missing")
	if _, err := newInstance("enforce", o, newPlan(o, s), s, nil, dir, nil); err == nil {
		t.Error("a side starts without its directory")
	}
	if _, err := newInstance("sideways", o, newPlan(o, s), s, nil, t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), "mode") {
		t.Errorf("a side in an unknown mode: %v, want an error about the mode", err)
	}
}
