package clients

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"headgate/e2e/harness"
	"headgate/internal/modelstub"
)

// wantError checks the class, status, code and type of a client's error.
func wantError(t *testing.T, c client, o outcome, status int, code string) {
	t.Helper()
	if o.Error == nil {
		t.Fatalf("no error, but %+v; want status %d", o, status)
	}
	if o.Error.Status != status || o.Error.Code != code || o.Error.Class != c.class(status) {
		t.Errorf("error %+v, want class %s, status %d, code %s", *o.Error, c.class(status), status, code)
	}
	if o.Error.Type == "" || o.Error.Message == "" {
		t.Errorf("error %+v has no type or no message", *o.Error)
	}
}

func TestOurErrors(t *testing.T) {
	t.Parallel()
	stub := harness.StartStub(t, modelstub.Config{})
	gate := harness.StartGate(t, harness.Settings{
		Upstream: stub.V1(),
		Pool:     "models: [stub-model]\nlimits: {body: 64KiB}\ntimeouts: {upstream_idle: 300ms}",
	})
	unreachable := harness.StartGate(t, harness.Settings{Upstream: harness.UnusedURL(t) + "/v1"})
	eachClient(t, func(t *testing.T, c client) {
		cases := []struct {
			call   call
			status int
			code   string
		}{
			{call{Model: "no-such-model"}.withBase(gate.URL), 404, "model_not_found"},
			{call{Headers: map[string]string{"Headgate-Priority": "urgent"}}.withBase(gate.URL), 400, "invalid_priority"},
			{call{Headers: map[string]string{"Headgate-Deadline": "-1"}}.withBase(gate.URL), 400, "invalid_deadline"},
			{call{Prompt: strings.Repeat("word ", 20_000)}.withBase(gate.URL), 413, "request_too_large"},
			{call{Headers: map[string]string{"Stub-Fault": "hang"}}.withBase(gate.URL), 504, "upstream_timeout"},
			{call{Headers: map[string]string{"Stub-Fault": "reset"}}.withBase(gate.URL), 502, "upstream_unreachable"},
			{call{}.withBase(unreachable.URL), 502, "upstream_unreachable"},
		}
		for _, do := range []string{"chat", "chat_stream"} {
			var calls []call
			for _, e := range cases {
				e.call.Do = do
				calls = append(calls, e.call)
			}
			outcomes := c.run(t, calls...)
			for i, e := range cases {
				t.Run(do+" "+e.code, func(t *testing.T) { wantError(t, c, outcomes[i], e.status, e.code) })
			}
		}
	})
}

func TestRefusalIsRateLimitError(t *testing.T) {
	t.Parallel()
	stub := harness.StartStub(t, modelstub.Config{})
	gate := harness.StartGate(t, fullSettings(stub.V1()))
	fillGate(t, gate, fullTasks, 1)
	eachSequential(t, func(t *testing.T, c client) {
		things := []string{"chat", "chat_stream", "embedding"}
		var calls []call
		for _, do := range things {
			calls = append(calls, call{Do: do, Headers: map[string]string{marker: "mine"}}.withBase(gate.URL))
		}
		for _, o := range c.run(t, calls...) {
			wantError(t, c, o, http.StatusTooManyRequests, "queue_depth")
			if o.Error.Type != "rate_limit_error" {
				t.Errorf("type %q, want rate_limit_error", o.Error.Type)
			}
			if n, err := strconv.Atoi(o.Error.RetryAfter); err != nil || n < 1 || n > 59 {
				t.Errorf("Retry-After %q, want a whole number from 1 to 59", o.Error.RetryAfter)
			}
		}
	})
	if got := countMarked(stub); got != 0 {
		t.Errorf("%d refused calls reached the stub", got)
	}
}

// Errors of the upstream reach the client unchanged, its own 429 included.
func TestUpstreamErrorsPass(t *testing.T) {
	t.Parallel()
	stub := harness.StartStub(t, modelstub.Config{})
	gate := harness.StartGate(t, harness.Settings{Upstream: stub.V1()})
	eachClient(t, func(t *testing.T, c client) {
		var calls []call
		statuses := []int{400, 401, 403, 404, 409, 422, 429, 500, 503}
		for _, status := range statuses {
			fault := "status=" + strconv.Itoa(status)
			if status == http.StatusTooManyRequests {
				fault += ";retry_after=17"
			}
			calls = append(calls, call{Do: "chat", Headers: map[string]string{"Stub-Fault": fault}}.withBase(stub.URL))
			calls = append(calls, call{Do: "chat", Headers: map[string]string{"Stub-Fault": fault}}.withBase(gate.URL))
		}
		outcomes := c.run(t, calls...)
		for i, status := range statuses {
			direct, gated := outcomes[2*i], outcomes[2*i+1]
			if direct.Error == nil || gated.Error == nil || *direct.Error != *gated.Error {
				t.Errorf("status %d: directly %+v, through the gate %+v", status, direct.Error, gated.Error)
			}
			if gated.Error != nil && (gated.Error.Class != c.class(status) || gated.Error.Status != status) {
				t.Errorf("status %d: got %+v", status, *gated.Error)
			}
			if status == http.StatusTooManyRequests && gated.Error != nil && gated.Error.RetryAfter != "17" {
				t.Errorf("the upstream's Retry-After came as %q, want 17", gated.Error.RetryAfter)
			}
		}
	})
}

// With client keys, a wrong key is an AuthenticationError, and a right one is not forwarded.
func TestClientKeys(t *testing.T) {
	t.Parallel()
	const key, upstreamKey = "made-up-client-key-1", "made-up-upstream-key"
	sum := sha256.Sum256([]byte(key))
	stub := harness.StartStub(t, modelstub.Config{})
	gate := harness.StartGate(t, harness.Settings{
		Upstream: stub.V1(), Pool: "upstream_key: " + upstreamKey,
		Top: "clients:\n  - {name: one, key_sha256: " + hex.EncodeToString(sum[:]) + "}",
	})
	eachClient(t, func(t *testing.T, c client) {
		wrong := c.do(t, call{Do: "chat", Key: "made-up-wrong-key"}.withBase(gate.URL))
		wantError(t, c, wrong, http.StatusUnauthorized, "invalid_api_key")
		if right := c.do(t, call{Do: "chat", Key: key}.withBase(gate.URL)); right.Error != nil || right.Text == "" {
			t.Errorf("with the right key: %+v, error %+v", right, right.Error)
		}
	})
	t.Cleanup(func() {
		for _, seen := range stub.Requests() {
			if got := seen.Header.Get("Authorization"); got != "Bearer "+upstreamKey {
				t.Errorf("the upstream was sent %q, want its own key", got)
			}
		}
		if strings.Contains(gate.Stderr(), key) || strings.Contains(gate.Stderr(), upstreamKey) {
			t.Error("a key is in the log")
		}
	})
}

// Without client keys, the client's own key is forwarded.
func TestOwnKeyPasses(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, c client) {
		stub := harness.StartStub(t, modelstub.Config{})
		gate := harness.StartGate(t, harness.Settings{Upstream: stub.V1()})
		if o := c.do(t, call{Do: "chat", Key: "made-up-own-key"}.withBase(gate.URL)); o.Error != nil {
			t.Fatalf("error %+v", *o.Error)
		}
		if seen := stub.Requests(); len(seen) != 1 || seen[0].Header.Get("Authorization") != "Bearer made-up-own-key" {
			t.Errorf("the stub saw %d calls: %+v", len(seen), seen)
		}
		if strings.Contains(gate.Stderr()+gate.MetricsText(t), "made-up-own-key") {
			t.Error("the client's key is in the log or the metrics")
		}
	})
}
