package clients

import (
	"net/http"
	"strings"
	"syscall"
	"testing"

	"headgate/e2e/harness"
	"headgate/internal/modelstub"
)

// When a client stops reading, its permit is released: the only worker serves the next call.
func TestCancelMidStream(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, c client) {
		stub := harness.StartStub(t, modelstub.Config{})
		gate := harness.StartGate(t, harness.Settings{Upstream: stub.V1(), Workers: 1})
		hanging := map[string]string{"Stub-Fault": "hang_after=8", "Stub-Chunks": "20"}
		outcomes := c.run(t,
			call{Do: "chat_stream", Headers: hanging, CancelAfter: 3}.withBase(gate.URL),
			call{Do: "chat"}.withBase(gate.URL), // in the same process, so no dying process has cut the first one off
			call{Do: "chat_stream", Headers: hanging, CancelAfter: 3}.withBase(gate.URL),
			call{Do: "chat_stream"}.withBase(gate.URL),
		)
		for i, o := range outcomes {
			if i%2 == 0 && (o.Pieces < 3 || o.Finish == "stop") {
				t.Errorf("call %d was to be cancelled midway, and got %+v, error %+v", i, o, o.Error)
			}
			if i%2 == 1 && (o.Error != nil || o.Text == "") {
				t.Errorf("call %d, after a cancelled one, got %+v, error %+v", i, o, o.Error)
			}
		}
		harness.Eventually(t, "the stub and the gate know that two clients have gone", func() bool {
			m := gate.Scrape(t)
			return stub.Stats().ClientGone == 2 && stub.Stats().InFlight == 0 && m.Sum("headgate_in_flight") == 0 &&
				m.Sum("headgate_tasks_total", "outcome", "client_gone") == 2 && m.Sum("headgate_tasks_total", "outcome", "completed") == 2
		})
	})
}

// An answer that is cut short is an error in every client, never a success.
func TestTruncationIsAnError(t *testing.T) {
	t.Parallel()
	stub := harness.StartStub(t, modelstub.Config{})
	gate := harness.StartGate(t, harness.Settings{Upstream: stub.V1()})
	streams := []string{"truncate=3", "truncate=1", "reset_after=3", "malformed=3"}
	wholes := []string{"truncate=half", "truncate=half;length=wrong", "reset_after=1", "malformed=1"}
	faults := map[string][]string{
		"chat_stream": append([]string{"error_event=3"}, streams...), "completion_stream": streams, "response_stream": streams,
		"tool_stream": streams, "chat": wholes, "tool": wholes, "completion": wholes, "response": wholes, "embedding": wholes,
	}
	eachClient(t, func(t *testing.T, c client) {
		var calls []call
		for do, list := range faults {
			for _, fault := range list {
				if !c.unsupported[do] {
					calls = append(calls, call{Do: do, Headers: map[string]string{"Stub-Fault": fault}}.withBase(gate.URL))
				}
			}
		}
		for i, o := range c.run(t, calls...) {
			if o.Error == nil {
				t.Errorf("%s, upstream %s: the client takes it for a success: %+v", calls[i].Do, calls[i].Headers["Stub-Fault"], o)
			}
		}
	})
}

// Control of the test above: without the gate, the official SDKs accept a stream that was cut
// off cleanly as complete.
func TestTruncationWithoutTheGate(t *testing.T) {
	t.Parallel()
	stub := harness.StartStub(t, modelstub.Config{})
	for _, c := range clients() {
		if c.name == "ai-sdk" {
			continue // its finish reason reports it
		}
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			o := c.do(t, call{Do: "chat_stream", Headers: map[string]string{"Stub-Fault": "truncate=3"}}.withBase(stub.URL))
			if o.Error != nil {
				t.Errorf("the client now detects a truncated stream: %+v", *o.Error)
			}
		})
	}
}

// During shutdown, queued clients get a 503 with Retry-After, and running calls complete.
func TestDraining(t *testing.T) {
	t.Parallel()
	eachClient(t, func(t *testing.T, c client) {
		upstream := harness.StartHeldUpstream(t)
		gate := harness.StartGate(t, harness.Settings{Upstream: upstream.URL + "/v1", Workers: 1})
		running, queued := make(chan outcome, 1), make(chan outcome, 1)
		go func() { running <- c.do(t, call{Do: "chat_stream"}.withBase(gate.URL)) }()
		harness.Eventually(t, "one runs", func() bool { return upstream.Calls() == 1 })
		go func() { queued <- c.do(t, call{Do: "chat"}.withBase(gate.URL)) }()
		harness.Eventually(t, "one waits", func() bool { return gate.Scrape(t).Sum("headgate_queue_depth") == 1 })

		gate.Signal(t, syscall.SIGTERM)
		o := <-queued
		wantError(t, c, o, http.StatusServiceUnavailable, "draining")
		if o.Error.RetryAfter == "" || c.name == "ai-sdk" && !o.Error.Retryable {
			t.Errorf("the refusal does not say when to come back: %+v", *o.Error)
		}
		upstream.Release()
		if o := <-running; o.Error != nil || o.Text != "hello" || o.Finish != "stop" {
			t.Errorf("the running task got %+v, error %+v", o, o.Error)
		}
		if code := gate.Wait(t); code != 0 {
			t.Errorf("exit code %d, want 0", code)
		}
		if got := upstream.Calls(); got != 1 {
			t.Errorf("the upstream was called %d times, want once", got)
		}
		if !strings.Contains(gate.Stderr(), `"outcome":"drained"`) {
			t.Error("no drained task in the log")
		}
	})
}
