package clients

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"headgate/e2e/harness"
	"headgate/internal/modelstub"
)

// A client gets the same result through the gate as from the stub, for every kind of call.
func TestSameAnswers(t *testing.T) {
	t.Parallel()
	stub := harness.StartStub(t, modelstub.Config{Models: []string{"stub-model", "other-model"}})
	gate := harness.StartGate(t, harness.Settings{Upstream: stub.V1()})
	things := []string{
		"chat", "chat_stream", "tool", "tool_stream", "completion", "completion_stream",
		"response", "response_stream", "embedding", "models",
	}
	eachClient(t, func(t *testing.T, c client) {
		var calls []call
		for _, thing := range things {
			if !c.unsupported[thing] {
				calls = append(calls, call{Do: thing}.withBase(stub.URL), call{Do: thing}.withBase(gate.URL))
			}
		}
		outcomes := c.run(t, calls...)
		for i := 0; i < len(calls); i += 2 {
			t.Run(calls[i].Do, func(t *testing.T) {
				direct, gated := outcomes[i], outcomes[i+1]
				wantNonEmpty(t, calls[i].Do, direct)
				if diff := cmp.Diff(direct, gated, cmpopts.IgnoreFields(outcome{}, "Task")); diff != "" {
					t.Errorf("direct (-), through the gate (+):\n%s", diff)
				}
			})
		}
		if outcomes[0].Task != "" || outcomes[1].Task == "" {
			t.Errorf("task IDs %q (direct) and %q (gate): want one from the gate alone", outcomes[0].Task, outcomes[1].Task)
		}
	})
}

// wantNonEmpty checks that there is something to compare.
func wantNonEmpty(t *testing.T, do string, o outcome) {
	t.Helper()
	ok := o.Error == nil
	switch do {
	case "models":
		ok = ok && cmp.Equal(o.Models, []string{"stub-model", "other-model"})
	case "embedding":
		ok = ok && len(o.Vectors) == 2 && o.Usage.In > 0
	case "tool", "tool_stream":
		ok = ok && cmp.Equal(o.Tool, &toolCall{"weather", `{"city":"stub","days":1}`}) && o.Usage.Total > 0
	default:
		ok = ok && o.Text != "" && o.Finish != "" && o.Usage != nil && o.Usage.In > 0 && o.Usage.Total == o.Usage.In+o.Usage.Out
	}
	if !ok {
		t.Fatalf("%s: the client got %+v, error %+v", do, o, o.Error)
	}
}

// Streams arrive in pieces, not at once at the end.
func TestStreamsInPieces(t *testing.T) {
	t.Parallel()
	stub := harness.StartStub(t, modelstub.Config{})
	gate := harness.StartGate(t, harness.Settings{Upstream: stub.V1()})
	eachClient(t, func(t *testing.T, c client) {
		const chunks = 50
		o := c.do(t, call{Do: "chat_stream", Headers: map[string]string{"Stub-Chunks": "50"}}.withBase(gate.URL))
		if o.Error != nil || o.Pieces < chunks {
			t.Errorf("%d pieces, error %+v; want at least %d", o.Pieces, o.Error, chunks)
		}
	})
}
