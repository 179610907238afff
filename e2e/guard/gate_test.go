package guard

import (
	"context"
	"io"
	"net/http"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"headgate/e2e/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// hangup makes a gate reload its settings.
const hangup = syscall.SIGHUP

// testGate is a running gate with the built-in rules.
type testGate struct {
	*testing.T
	*harness.Gate
	client *http.Client
	ctx    context.Context // of requests
}

// start starts a gate.
func start(t *testing.T, s harness.Settings) *testGate {
	t.Helper()
	return &testGate{t, harness.StartGate(t, s), &http.Client{}, context.Background()}
}

// ask sends a small request.
func (r *testGate) ask(header ...string) (status int, reason string) {
	return r.send(harness.ChatRequest, header...)
}

// send sends a request and returns the status of its answer, or 0 without one, and the reason
// of a refusal. It may be called from any goroutine.
func (r *testGate) send(body string, header ...string) (status int, reason string) {
	req, err := http.NewRequestWithContext(r.ctx, http.MethodPost, r.URL+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		return 0, err.Error()
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	res, err := r.client.Do(req)
	if err != nil {
		return 0, err.Error()
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body) // the status is known already
	return res.StatusCode, res.Header.Get("Headgate-Reason")
}

// mode returns the mode of the pool.
func (r *testGate) mode() string {
	r.Helper()
	for mode, n := range r.Scrape(r.T).By("headgate_mode", "mode") {
		if n == 1 {
			return mode
		}
	}
	return ""
}

// watch calls ask repeatedly from some goroutines until the mode is pass-through, at most for
// limit. It returns how long that took, and whether the gate was rolled back.
func (r *testGate) watch(limit time.Duration, clients int, ask func()) (took time.Duration, rolledBack bool) {
	r.Helper()
	var cancel context.CancelFunc
	r.ctx, cancel = context.WithCancel(context.Background())
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			for r.ctx.Err() == nil {
				ask()
			}
		})
	}
	began := time.Now()
	for time.Since(began) < limit && !rolledBack {
		time.Sleep(100 * time.Millisecond) // between polls
		rolledBack = r.mode() == "passthrough"
	}
	took = time.Since(began)
	cancel()
	group.Wait()
	r.ctx = context.Background()
	return took, rolledBack
}
