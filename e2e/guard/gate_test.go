package guard

import (
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"headgate/e2e/harness"
)

// hangup has a gate reload its settings.
const hangup = syscall.SIGHUP

const chat = `{"model":"m","messages":[{"role":"user","content":"hello"}]}`

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
func (r *testGate) ask(header ...string) (status int, reason string) { return r.send(chat, header...) }

// send sends a request and returns the status of its answer and why it was
// refused; 0 if there was none. It may be called from any goroutine.
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
	_, _ = io.Copy(io.Discard, res.Body) // who is cut off has a status all the same
	return res.StatusCode, res.Header.Get("Headgate-Reason")
}

// mode returns the mode that the pool is in.
func (r *testGate) mode() string {
	r.Helper()
	for mode, n := range r.Scrape(r.T).By("headgate_mode", "mode") {
		if n == 1 {
			return mode
		}
	}
	return ""
}

// watch goes on asking from some goroutines, and waits until the mode is
// pass-through; it returns how long that took. Then all who ask leave.
func (r *testGate) watch(limit time.Duration, askers int, ask func()) (took time.Duration, flipped bool) {
	r.Helper()
	var leave context.CancelFunc
	r.ctx, leave = context.WithCancel(context.Background())
	var group sync.WaitGroup
	for range askers {
		group.Go(func() {
			for r.ctx.Err() == nil {
				ask()
			}
		})
	}
	began := time.Now()
	for time.Since(began) < limit && !flipped {
		time.Sleep(100 * time.Millisecond) // between looks
		flipped = r.mode() == "passthrough"
	}
	took = time.Since(began)
	leave()
	group.Wait()
	r.ctx = context.Background()
	return took, flipped
}
