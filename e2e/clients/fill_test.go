package clients

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"headgate/e2e/harness"
)

// fillGate fills a gate with tasks until release is called: workers of them run, the others are
// queued.
func fillGate(t *testing.T, gate *harness.Gate, tasks, workers int) (release func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var held sync.WaitGroup
	hold := func() {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, gate.URL+"/v1/chat/completions",
			strings.NewReader(`{"model":"stub-model","messages":[{"role":"user","content":"hold"}]}`))
		if err != nil {
			t.Error(err)
			return
		}
		r.Header.Set("Content-Type", "application/json")
		r.Header.Set("Stub-Fault", "hang")
		if res, err := http.DefaultClient.Do(r); err == nil {
			_ = res.Body.Close() // the answer does not matter
		}
	}
	for range tasks {
		held.Go(hold)
	}
	harness.Eventually(t, "the gate is filled", func() bool {
		m := gate.Scrape(t)
		return m.Sum("headgate_in_flight") == float64(workers) && m.Sum("headgate_queue_depth") == float64(tasks-workers)
	})
	release = sync.OnceFunc(func() {
		cancel()
		held.Wait()
	})
	t.Cleanup(release)
	return release
}

// fullSettings are settings with one worker and a low depth limit.
func fullSettings(upstream string) harness.Settings {
	return harness.Settings{Upstream: upstream, Workers: 1, Pool: "models: [stub-model]\nslo: {turnaround: 1h}\nadmission: {depth_multiple: 1, max_queue_age: 30m}"}
}

// fullTasks is how many tasks fill such a gate.
const fullTasks = 3
