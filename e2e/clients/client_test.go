package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/openai/openai-go/v3"

	"headgate/e2e/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Run(m)) }

// call is a call of a client.
type call struct {
	Do          string            `json:"do"`
	Base        string            `json:"base"` // with /v1
	Key         string            `json:"key"`
	Model       string            `json:"model"`
	Prompt      string            `json:"prompt"`
	Headers     map[string]string `json:"headers"`
	Retries     int               `json:"retries"`
	CancelAfter int               `json:"cancel_after"` // pieces of a stream; 0: never
}

// outcome is the result of a call.
type outcome struct {
	Text      string      `json:"text"`
	Finish    string      `json:"finish"`
	Pieces    int         `json:"pieces"`
	Usage     *usage      `json:"usage"`
	Tool      *toolCall   `json:"tool"`
	Models    []string    `json:"models"`
	Vectors   [][]float64 `json:"vectors"`
	Task      string      `json:"task"` // Headgate-Task-Id
	Cancelled bool        `json:"cancelled"`
	Error     *failure    `json:"error"`
	Waits     []float64   `json:"waits_ms"` // before retries, when in a hurry
}

type usage struct {
	In    int64 `json:"in"`
	Out   int64 `json:"out"`
	Total int64 `json:"total"`
}

type toolCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// failure is the error that a client raised.
type failure struct {
	Class      string `json:"class"`
	Message    string `json:"message"`
	Status     int    `json:"status"` // 0: none came
	Code       string `json:"code"`
	Type       string `json:"type"`
	RetryAfter string `json:"retry_after"`
	Retryable  bool   `json:"retryable"`
}

// client is an official client.
type client struct {
	name string
	run  func(t *testing.T, calls ...call) []outcome
	// unsupported are the calls that it does not have.
	unsupported map[string]bool
	// class is the class of its error for a status.
	class func(status int) string
}

var openAIClasses = map[int]string{
	400: "BadRequestError", 401: "AuthenticationError", 403: "PermissionDeniedError", 404: "NotFoundError",
	409: "ConflictError", 422: "UnprocessableEntityError", 429: "RateLimitError",
	500: "InternalServerError", 502: "InternalServerError", 503: "InternalServerError", 504: "InternalServerError",
}

func clients() []client {
	return []client{
		{name: "openai-go", run: runGo, class: func(int) string { return fmt.Sprintf("%T", &openai.Error{}) }},
		{name: "openai-node", run: node("openai.mjs", false), class: func(status int) string {
			if class, ok := openAIClasses[status]; ok {
				return class
			}
			return "APIError"
		}},
		{
			name: "ai-sdk", run: node("ai.mjs", false), class: func(int) string { return "AI_APICallError" },
			unsupported: map[string]bool{"response": true, "response_stream": true, "models": true},
		},
	}
}

// eachClient runs a test for every client.
func eachClient(t *testing.T, test func(t *testing.T, c client)) {
	t.Helper()
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			test(t, c)
		})
	}
}

// eachSequential is eachClient without parallel tests, for clients that share state.
func eachSequential(t *testing.T, test func(t *testing.T, c client)) {
	t.Helper()
	for _, c := range clients() {
		t.Run(c.name, func(t *testing.T) { test(t, c) })
	}
}

// node makes calls with a script. With hurry it records the waits before retries and skips
// them.
func node(script string, hurry bool) func(t *testing.T, calls ...call) []outcome {
	return func(t *testing.T, calls ...call) []outcome {
		t.Helper()
		dir := filepath.Join(harness.Module(t), "node")
		if _, err := os.Stat(filepath.Join(dir, "node_modules", "openai")); err != nil {
			t.Fatalf("the clients are not installed: run `npm ci --ignore-scripts` in e2e/node, or `make e2e` (%v)", err)
		}
		input, err := json.Marshal(map[string]any{"calls": calls, "fast": hurry})
		if err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), "node", filepath.Join(dir, script))
		cmd.Dir, cmd.Stdin = dir, bytes.NewReader(input)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		output, err := cmd.Output()
		if err != nil {
			t.Fatalf("node %s: %v\n%s", script, err, stderr.String())
		}
		var outcomes []outcome
		if err := json.Unmarshal(output, &outcomes); err != nil || len(outcomes) != len(calls) {
			t.Fatalf("node %s printed %q: %v", script, output, err)
		}
		return outcomes
	}
}

// do makes a single call.
func (c client) do(t *testing.T, do call) outcome {
	t.Helper()
	return c.run(t, do)[0]
}

// withBase sets what most calls share.
func (do call) withBase(base string) call {
	do.Base = base + "/v1"
	if do.Key == "" {
		do.Key = "made-up-key"
	}
	if do.Model == "" {
		do.Model = "stub-model"
	}
	if do.Prompt == "" {
		do.Prompt = "Tell me about water gates."
	}
	return do
}
