package program

import (
	"net"
	"net/http"
	"strings"
	"testing"

	"headgate/e2e/harness"
	"headgate/internal/modelstub"
)

// Without a file the addresses are the defaults, so these tests run one after the other and need
// them to be free.
const (
	builtInData  = "127.0.0.1:8484"
	builtInAdmin = "127.0.0.1:8485"
)

// serveBare starts `headgate serve` without a file.
func serveBare(t *testing.T, env ...string) *harness.Gate {
	t.Helper()
	for _, address := range []string{builtInData, builtInAdmin} {
		harness.Eventually(t, "the default address "+address+" is free", func() bool {
			l, err := net.Listen("tcp", address)
			if err != nil {
				return false
			}
			return l.Close() == nil
		})
	}
	p := harness.Start(t, harness.Command{Args: []string{"serve"}, Env: env})
	gate := &harness.Gate{Process: p, URL: "http://" + builtInData, Admin: "http://" + builtInAdmin}
	gate.AwaitReady(t)
	return gate
}

func TestServeFromEnvironment(t *testing.T) {
	stub := harness.StartStub(t, modelstub.Config{})
	for name, endpoint := range map[string]string{
		"base": stub.V1(), "full": stub.V1() + "/chat/completions", "slash": stub.V1() + "/", "host": stub.URL,
	} {
		t.Run(name, func(t *testing.T) {
			before := len(stub.Requests())
			gate := serveBare(t, "MC_ENDPOINT="+endpoint, "MC_API_KEY=made-up-key", "MC_MODEL=stub-model")
			if r := send(t.Context(), gate.URL, nil); r.status != http.StatusOK {
				t.Errorf("chat: %+v", r)
			}
			seen := stub.Requests()[before:]
			if len(seen) != 1 || seen[0].Path != "/v1/chat/completions" || seen[0].Header.Get("Authorization") != "Bearer made-up-key" {
				t.Errorf("the stub saw %+v", seen)
			}
			gate.Stop(t)
			if strings.Contains(gate.Stderr(), "made-up-key") {
				t.Errorf("the key is in the log: %s", gate.Stderr())
			}
			if left := listFiles(t, gate.Dir()); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

func TestServeOnlyTheModelOfTheEnvironment(t *testing.T) {
	stub := harness.StartStub(t, modelstub.Config{})
	gate := serveBare(t, "MC_ENDPOINT="+stub.V1(), "MC_MODEL=another-model")
	r := send(t.Context(), gate.URL, nil)
	if _, code := decodeError(t, r); r.status != http.StatusNotFound || code != "model_not_found" {
		t.Errorf("a model that is not served: %+v", r)
	}
	if got := stub.Stats().Calls; got != 0 {
		t.Errorf("%d calls reached the stub", got)
	}
}

func TestServeWithoutSettings(t *testing.T) {
	gate := serveBare(t)
	r := send(t.Context(), gate.URL, nil)
	if _, code := decodeError(t, r); r.status != http.StatusBadGateway || code != "upstream_unreachable" {
		t.Errorf("without an upstream: %+v", r)
	}
}

func TestCheckFromEnvironment(t *testing.T) {
	t.Parallel()
	p, code := harness.RunToEnd(t, harness.Command{Args: []string{"check"}, Env: []string{
		"MC_ENDPOINT=http://model.example.com/v1/chat/completions", "MC_API_KEY=made-up-key", "MC_MODEL=that-model",
	}})
	for _, want := range []string{"upstream: http://model.example.com/v1\n", "that-model", "[redacted]"} {
		if code != 0 || !strings.Contains(p.Stdout(), want) || strings.Contains(p.Stdout(), "made-up-key") {
			t.Errorf("exit code %d, no %q or the key in:\n%s%s", code, want, p.Stdout(), p.Stderr())
		}
	}
	p, code = harness.RunToEnd(t, harness.Command{Args: []string{"check"}, Env: []string{"MC_ENDPOINT=model.example.com"}})
	if code != 2 || !strings.Contains(p.Stderr(), "MC_ENDPOINT") {
		t.Errorf("an endpoint that is no URL: exit code %d, stderr %q", code, p.Stderr())
	}
}
