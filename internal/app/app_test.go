package app

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"headgate/internal/config"
)

func TestServesAndStops(t *testing.T) {
	r := newFixture(t, nil)
	close(r.upstream.release)
	if a := <-r.sendChat(); a.status != http.StatusOK || a.body != "{}" {
		t.Errorf("status %d (%v) %s", a.status, a.err, a.body)
	}
	for path, want := range map[string]string{"/healthz": "ok", "/readyz": "ready", "/metrics": `headgate_tasks_total{outcome="completed",pool="default"} 1`} {
		if a := r.getAdmin(path); a.status != http.StatusOK || !strings.Contains(a.body, want) {
			t.Errorf("%s: status %d (%v) %.300s", path, a.status, a.err, a.body)
		}
	}
	for range 2 {
		if err := r.app.Stop(context.Background()); err != nil {
			t.Error(err)
		}
	}
	for _, address := range []string{r.app.DataAddr(), r.app.AdminAddr()} {
		l, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatalf("still taken: %v", err)
		}
		_ = l.Close()
	}
	select {
	case err := <-r.app.Failed():
		t.Errorf("a stop is no failure: %v", err)
	default:
	}
}

// Those who wait are sent away with a reason, those who run finish, and the
// admin plane says what is going on until the end.
func TestStopInOrder(t *testing.T) {
	r := newFixture(t, nil)
	running, waiting := r.fill(2)
	stopped := make(chan error, 1)
	go func() { stopped <- r.app.Stop(context.Background()) }()
	for _, c := range waiting {
		a := <-c
		if a.status != http.StatusServiceUnavailable || a.header.Get("Headgate-Reason") != "draining" || a.header.Get("Retry-After") == "" {
			t.Errorf("status %d (%v), headers %v", a.status, a.err, a.header)
		}
		if !strings.Contains(a.body, `"code":"draining"`) {
			t.Errorf("body %s", a.body)
		}
	}
	if a := r.getAdmin("/readyz"); a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "draining") {
		t.Errorf("readyz: status %d (%v) %s", a.status, a.err, a.body)
	}
	if a := r.getAdmin("/healthz"); a.status != http.StatusOK {
		t.Errorf("healthz: status %d (%v)", a.status, a.err)
	}
	r.eventually("new connections are refused", func() bool {
		c, err := net.Dial("tcp", r.app.DataAddr())
		if err == nil {
			_ = c.Close()
		}
		return err != nil
	})
	select {
	case err := <-stopped:
		t.Fatalf("stopped (%v) while a task runs", err)
	default:
	}
	close(r.upstream.release)
	if a := <-running; a.status != http.StatusOK || a.err != nil {
		t.Errorf("the one that ran: status %d (%v)", a.status, a.err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
}

// What still runs when the time is over is cut off, and counted as drained.
func TestStopCutsOff(t *testing.T) {
	gone, cancel := context.WithCancel(context.Background())
	cancel()
	for name, c := range map[string]struct {
		ctx   context.Context
		drain time.Duration
	}{
		"after the drain time":    {context.Background(), 50 * time.Millisecond},
		"at once":                 {context.Background(), 0},
		"when its caller hurries": {gone, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t, func(cfg *config.Config) { cfg.Drain = c.drain })
			running, _ := r.fill(0)
			err := r.app.Stop(c.ctx)
			if (err != nil) != (c.ctx == gone) {
				t.Errorf("error %v", err)
			}
			if a := <-running; a.err == nil {
				t.Errorf("a whole answer: %d %s", a.status, a.body)
			}
			families, err := r.app.Metrics().Gather()
			if err != nil {
				t.Fatal(err)
			}
			for _, f := range families {
				for _, m := range f.GetMetric() {
					if f.GetName() == "headgate_tasks_total" && m.GetCounter().GetValue() != 0 && m.GetLabel()[0].GetValue() != "drained" {
						t.Errorf("%v", m)
					}
				}
			}
		})
	}
}

func TestFailedStartLeavesNothingOpen(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = free.Close()
	for name, c := range map[string]struct{ data, admin, want string }{
		"data plane":  {taken.Addr().String(), free.Addr().String(), "listen: "},
		"admin plane": {free.Addr().String(), taken.Addr().String(), "admin.listen: "},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := testConfig(t, "http://127.0.0.1:1")
			cfg.Listen, cfg.Admin.Listen = c.data, c.admin
			a, err := New(cfg, "test", slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Start(); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Fatalf("error %v, want one about %s", err, c.want)
			}
			// Ports and record are free for the next one.
			cfg.Listen, cfg.Admin.Listen = free.Addr().String(), "127.0.0.1:0"
			next, err := New(cfg, "test", slog.New(slog.DiscardHandler))
			if err != nil {
				t.Fatal(err)
			}
			if err := next.Start(); err != nil {
				t.Fatal(err)
			}
			if err := next.Stop(context.Background()); err != nil {
				t.Error(err)
			}
		})
	}
}

// However busy the data plane is, probes and scrapers get their answers.
func TestProbesWhileSaturated(t *testing.T) {
	r := newFixture(t, func(cfg *config.Config) { cfg.Pools[0].Admission.Policy = "none" })
	const clients = 200
	var all []<-chan response
	for range clients {
		all = append(all, r.sendChat())
	}
	r.eventually("all wait", func() bool { return r.depth() == clients-1 })
	for _, path := range []string{"/healthz", "/readyz", "/metrics"} {
		if a := r.getAdmin(path); a.status != http.StatusOK {
			t.Errorf("%s: status %d (%v)", path, a.status, a.err)
		}
	}
	var group sync.WaitGroup
	for range 20 {
		group.Go(func() {
			if a := r.getAdmin("/readyz"); a.status != http.StatusOK {
				t.Errorf("status %d (%v)", a.status, a.err)
			}
		})
	}
	group.Wait()
	close(r.upstream.release)
	for _, c := range all {
		if a := <-c; a.status != http.StatusOK {
			t.Errorf("status %d (%v)", a.status, a.err)
		}
	}
}

// A refusing gate is at work, not broken.
func TestReadyWhileRefusing(t *testing.T) {
	r := newFixture(t, nil)
	_, waiting := r.fill(3)
	if a := <-r.sendChat(); a.status != http.StatusTooManyRequests {
		t.Fatalf("status %d (%v), want a refusal", a.status, a.err)
	}
	if a := r.getAdmin("/readyz"); a.status != http.StatusOK {
		t.Errorf("status %d", a.status)
	}
	close(r.upstream.release)
	for _, c := range waiting {
		<-c
	}
}

func TestStopWithoutStart(t *testing.T) {
	a, err := New(config.Default(), "test", slog.New(slog.DiscardHandler), Ephemeral())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := a.Stop(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}
