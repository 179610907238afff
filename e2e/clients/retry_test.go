package clients

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"headgate/e2e/harness"
	"headgate/internal/modelstub"
)

// timerTolerance is how much too early a timer with a resolution of milliseconds may fire.
const timerTolerance = 5 * time.Millisecond

// A refused client retries after Retry-After, not earlier, and succeeds. The refused attempt does
// not reach the upstream.
func TestRetryAfterOurRefusal(t *testing.T) {
	t.Parallel()
	for _, do := range []string{"chat", "chat_stream"} {
		eachClient(t, func(t *testing.T, c client) {
			stub := harness.StartStub(t, modelstub.Config{})
			gate := harness.StartGate(t, fullSettings(stub.V1()))
			witness := harness.StartRecordingProxy(t, gate.URL)
			warmUp(t, gate)
			release := fillGate(t, gate, fullTasks, 1)

			done := make(chan outcome, 1)
			go func() {
				done <- c.do(t, call{Do: do, Retries: 3, Headers: map[string]string{marker: "mine"}}.withBase(witness.URL))
			}()
			harness.Eventually(t, "the client is refused", func() bool { return len(witness.Exchanges()) > 0 })
			if got := countMarked(stub); got != 0 {
				t.Errorf("the refused attempt cost the upstream %d calls", got)
			}
			release()
			if o := <-done; o.Error != nil || o.Text == "" {
				t.Fatalf("the client got %+v, error %+v", o, o.Error)
			}
			wantRetryObeyed(t, c, witness.Exchanges())
			if got := countMarked(stub); got != 1 {
				t.Errorf("the task cost the upstream %d calls, want 1", got)
			}
			wantCounted(t, c, gate)
		})
	}
}

// marker identifies the calls of one client.
const marker = "X-Marker"

func countMarked(stub *harness.Stub) int {
	n := 0
	for _, seen := range stub.Requests() {
		if seen.Header.Get(marker) != "" {
			n++
		}
	}
	return n
}

// warmUp makes the gate measure the service time of the stub, so that Retry-After is short.
func warmUp(t *testing.T, gate *harness.Gate) {
	t.Helper()
	for range 20 {
		if o := runGo(t, call{Do: "chat"}.withBase(gate.URL))[0]; o.Error != nil {
			t.Fatalf("warm up: %+v", *o.Error)
		}
	}
}

func wantRetryObeyed(t *testing.T, c client, exchanges []harness.Exchange) {
	t.Helper()
	if len(exchanges) != 2 {
		t.Fatalf("the client asked %d times, want twice", len(exchanges))
	}
	refused, served := exchanges[0], exchanges[1]
	if refused.Status != http.StatusTooManyRequests || served.Status != http.StatusOK {
		t.Fatalf("statuses %d and %d, want 429 and 200", refused.Status, served.Status)
	}
	retryAfter := mustRetryAfter(t, refused)
	if waited := served.RequestedAt.Sub(refused.RespondedAt); waited < retryAfter-timerTolerance {
		t.Errorf("Retry-After was %v and came back after %v", retryAfter, waited)
	}
	if c.name != "ai-sdk" && served.RequestHeader.Get("X-Stainless-Retry-Count") != "1" {
		t.Errorf("the retry says %q of itself, want retry count 1", served.RequestHeader.Get("X-Stainless-Retry-Count"))
	}
}

func wantCounted(t *testing.T, c client, gate *harness.Gate) {
	t.Helper()
	announced := 1.0
	if c.name == "ai-sdk" {
		announced = 0 // it does not say that it comes again
	}
	harness.Eventually(t, "the gate has counted the refusal, the retry and that nothing is left", func() bool {
		m := gate.Scrape(t)
		return m.Sum("headgate_refusals_total") == 1 && m.Sum("headgate_announced_retries_total") == announced &&
			m.Sum("headgate_in_flight") == 0 && m.Sum("headgate_queue_depth") == 0
	})
}

// mustRetryAfter checks both headers of a refusal and returns the wait.
func mustRetryAfter(t *testing.T, e harness.Exchange) time.Duration {
	t.Helper()
	seconds, err := strconv.Atoi(e.ResponseHeader.Get("Retry-After"))
	if err != nil || seconds < 1 || seconds > 59 {
		t.Fatalf("Retry-After %q, want a whole number from 1 to 59", e.ResponseHeader.Get("Retry-After"))
	}
	ms, err := strconv.Atoi(e.ResponseHeader.Get("Retry-After-Ms"))
	if err != nil || ms < 1 || ms > 1000*seconds {
		t.Fatalf("Retry-After-Ms %q beside Retry-After %d", e.ResponseHeader.Get("Retry-After-Ms"), seconds)
	}
	if e.ResponseHeader.Get("Headgate-Reason") == "" {
		t.Error("a refusal without Headgate-Reason")
	}
	return time.Duration(ms) * time.Millisecond
}

// Clients obey every Retry-After of the gate, also the longest. Their timers fire at once here.
func TestLongWaitsAreObeyed(t *testing.T) {
	t.Parallel()
	const calls, retries = 40, 4 // after more, the AI SDK's own waits would be the longer ones
	// A quarter of the SLO is assumed for a service, so the projection is long.
	for _, c := range []client{{name: "openai-node", run: node("openai.mjs", true)}, {name: "ai-sdk", run: node("ai.mjs", true)}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			stub := harness.StartStub(t, modelstub.Config{})
			gate := harness.StartGate(t, fullSettings(stub.V1()))
			witness := harness.StartRecordingProxy(t, gate.URL)
			fillGate(t, gate, fullTasks, 1)
			many := make([]call, calls)
			for i := range many {
				many[i] = call{Do: "chat", Retries: retries}.withBase(witness.URL)
			}
			outcomes := c.run(t, many...)
			exchanges := witness.Exchanges()
			if len(exchanges) != calls*(retries+1) {
				t.Fatalf("%d exchanges, want %d", len(exchanges), calls*(retries+1))
			}
			longest := time.Duration(0)
			for i, o := range outcomes {
				if o.Error == nil || len(o.Waits) != retries {
					t.Fatalf("call %d: error %+v, waits %v; want %d waits and then an error", i, o.Error, o.Waits, retries)
				}
				for j, wait := range o.Waits {
					retryAfter := mustRetryAfter(t, exchanges[i*(retries+1)+j])
					longest = max(longest, retryAfter)
					wantWait(t, c, retryAfter, time.Duration(wait*float64(time.Millisecond)))
				}
			}
			if longest < 55*time.Second {
				t.Errorf("the longest Retry-After was %v: the test saw nothing of the end of the range", longest)
			}
		})
	}
}

// wantWait checks the wait of a client. The AI SDK obeys only waits under a minute, and uses its
// own instead of a full one.
func wantWait(t *testing.T, c client, retryAfter, waits time.Duration) {
	t.Helper()
	if c.name == "ai-sdk" && retryAfter == time.Minute {
		return
	}
	if waits < retryAfter {
		t.Errorf("Retry-After %v, the client waits %v", retryAfter, waits)
	}
}
