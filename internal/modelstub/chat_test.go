package modelstub

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
)

const helloRequest = `{"model":"m","messages":[{"role":"user","content":"hello there, stub"}]}`

func chatBody(extra string) string {
	return `{"model":"m","messages":[{"role":"user","content":"hello there, stub"}],` + extra + `}`
}

func TestChatWhole(t *testing.T) {
	s := newTestServer(t, Config{Seed: 1})
	r := s.ok(pathChat, chatBody(`"max_tokens":5,"n":2`))
	v := decode(t, r.body)
	for key, want := range map[string]any{"object": "chat.completion", "model": "m", "service_tier": "default"} {
		if got := jsonAt(t, v, key); got != want {
			t.Errorf("%s: got %v, want %v", key, got, want)
		}
	}
	if n := len(jsonAt(t, v, "choices").([]any)); n != 2 {
		t.Fatalf("got %d choices, want 2", n)
	}
	for i := range 2 {
		if got := jsonAt(t, v, "choices", i, "finish_reason"); got != "length" {
			t.Errorf("choice %d ends with %v, want length", i, got)
		}
		if got := jsonAt(t, v, "choices", i, "message", "content").(string); got == "" {
			t.Errorf("choice %d is empty", i)
		}
	}
	// "hello there, stub" is 17 bytes, so 4 tokens.
	for key, want := range map[string]float64{"prompt_tokens": 4, "completion_tokens": 10, "total_tokens": 14} {
		if got := jsonAt(t, v, "usage", key); got != want {
			t.Errorf("usage %s: got %v, want %v", key, got, want)
		}
	}
	if !strings.Contains(r.body, `"x_stub":{"exact":1.50,"power":1e2,"text":"\u0073tub","none":null}`) {
		t.Errorf("the unknown field is missing or was re-encoded: %s", r.body)
	}
}

func TestChatHeaders(t *testing.T) {
	s := newTestServer(t, Config{})
	r := s.ok(pathChat, helloRequest)
	if r.length != int64(len(r.body)) {
		t.Errorf("Content-Length %d, body has %d bytes", r.length, len(r.body))
	}
	for _, name := range []string{"X-Request-Id", "Openai-Processing-Ms", "Openai-Version", "X-Ratelimit-Limit-Requests"} {
		if r.header.Get(name) == "" {
			t.Errorf("header %s is missing", name)
		}
	}
	if got := r.header.Values("X-Stub-Multi"); len(got) != 2 {
		t.Errorf("X-Stub-Multi has values %q, want two", got)
	}
	if got := r.header.Get("Content-Type"); got != "application/json" {
		t.Errorf("Content-Type %q", got)
	}
}

func TestChatStreamAddsUpToTheWhole(t *testing.T) {
	s := newTestServer(t, Config{Seed: 1})
	for _, n := range []int{1, 3} {
		t.Run(fmt.Sprintf("n=%d", n), func(t *testing.T) {
			body := chatBody(fmt.Sprintf(`"n":%d,"stream":true,"stream_options":{"include_usage":true}`, n))
			r := s.ok(pathChat, body, HeaderChunks, "7")
			if got := r.header.Get("Content-Type"); got != "text/event-stream; charset=utf-8" {
				t.Errorf("Content-Type %q", got)
			}
			list := events(t, r.body)
			if last := list[len(list)-1].data; last != "[DONE]" {
				t.Fatalf("the stream ends with %q, want [DONE]", last)
			}
			// Each choice opens, sends seven chunks and closes; then usage and [DONE].
			if want := n*9 + 2; len(list) != want {
				t.Errorf("got %d events, want %d", len(list), want)
			}
			checkUsageChunks(t, list)
			checkChoices(t, list[:len(list)-2], n)
		})
	}
}

func checkUsageChunks(t *testing.T, list []sse) {
	t.Helper()
	for i, e := range list[:len(list)-1] {
		v := decode(t, e.data)
		isUsage := i == len(list)-2
		if isUsage != (jsonAt(t, v, "usage") != nil) {
			t.Errorf("event %d: usage is %v", i, jsonAt(t, v, "usage"))
		}
		if isUsage != (len(jsonAt(t, v, "choices").([]any)) == 0) {
			t.Errorf("event %d: choices are %v", i, jsonAt(t, v, "choices"))
		}
	}
}

func checkChoices(t *testing.T, list []sse, n int) {
	t.Helper()
	texts, roles, finishes := make([]string, n), make([]string, n), make([]string, n)
	for _, e := range list {
		var c chatChunk
		if err := json.Unmarshal([]byte(e.data), &c); err != nil {
			t.Fatal(err)
		}
		choice := c.Choices[0]
		var text string
		_ = json.Unmarshal(choice.Delta.Content, &text)
		texts[choice.Index] += text
		roles[choice.Index] += choice.Delta.Role
		if choice.FinishReason != nil {
			finishes[choice.Index] += *choice.FinishReason
		}
	}
	for i := range n {
		if texts[i] == "" || roles[i] != "assistant" || finishes[i] != "stop" {
			t.Errorf("choice %d: text %q, role %q, finish %q", i, texts[i], roles[i], finishes[i])
		}
		if i > 0 && texts[i] == texts[0] {
			t.Errorf("choices 0 and %d say the same", i)
		}
	}
}

func TestChatWithoutUsageHasNoUsageField(t *testing.T) {
	s := newTestServer(t, Config{})
	r := s.ok(pathChat, chatBody(`"stream":true`))
	if strings.Contains(r.body, `"usage"`) {
		t.Error("a stream that did not ask for usage carries it")
	}
}

func TestChatToolCalls(t *testing.T) {
	const weather = `"tools":[{"type":"odd"},{"type":"function","function":{"name":"weather","parameters":{"type":"object",` +
		`"properties":{"city":{"type":"string"},"unit":{"enum":["°C"]},"days":{"type":"integer"},"deep":{"type":"object"}},"required":["city","unit","days"]}}}]`
	const arguments = `{"city":"stub","days":1,"unit":"°C"}`
	ask := func(content, choice string) string {
		return fmt.Sprintf(`{"model":"m","messages":[{"role":"user","content":%q}],%s%s}`, content, weather, choice)
	}
	tests := []struct {
		name, body string
		want       bool
	}{
		{"required", ask("hello", `,"tool_choice":"required"`), true},
		{"named", ask("hello", `,"tool_choice":{"type":"function","function":{"name":"weather"}}`), true},
		{"asked by name", ask("please call weather now", ``), true},
		{"asked in general", ask("Use a tool", ``), true},
		{"not asked", ask("hello", ``), false},
		{"forbidden", ask("call weather", `,"tool_choice":"none"`), false},
		{"after the result", `{"messages":[{"role":"user","content":"call weather"},{"role":"tool","content":"sun"}],` + weather + `}`, false},
		{"no tools", `{"messages":[{"role":"user","content":"call weather"}]}`, false},
	}
	s := newTestServer(t, Config{})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			choice := jsonAt(t, decode(t, s.ok(pathChat, tt.body).body), "choices", 0)
			if !tt.want {
				if jsonAt(t, choice, "finish_reason") != "stop" || jsonAt(t, choice, "message", "content") == nil {
					t.Errorf("want plain text, got %v", choice)
				}
				return
			}
			if jsonAt(t, choice, "finish_reason") != "tool_calls" || jsonAt(t, choice, "message", "content") != nil {
				t.Errorf("want a tool call without text, got %v", choice)
			}
			call := jsonAt(t, choice, "message", "tool_calls", 0)
			if jsonAt(t, call, "function", "name") != "weather" || jsonAt(t, call, "function", "arguments") != arguments {
				t.Errorf("got call %v, want weather with %s", call, arguments)
			}
			streamed := s.ok(pathChat, strings.Replace(tt.body, `{"model"`, `{"stream":true,"model"`, 1))
			checkStreamedCall(t, events(t, streamed.body), arguments)
		})
	}
}

func checkStreamedCall(t *testing.T, list []sse, arguments string) {
	t.Helper()
	var got, id, name, finish string
	for _, e := range list[:len(list)-1] {
		var c chatChunk
		if err := json.Unmarshal([]byte(e.data), &c); err != nil {
			t.Fatal(err)
		}
		for _, call := range c.Choices[0].Delta.ToolCalls {
			if call.Index == nil || *call.Index != 0 {
				t.Fatal("a streamed tool call has no index")
			}
			got, id, name = got+call.Function.Arguments, id+call.ID, name+call.Function.Name
		}
		if f := c.Choices[0].FinishReason; f != nil {
			finish = *f
		}
	}
	if got != arguments || !strings.HasPrefix(id, "call_") || name != "weather" || finish != "tool_calls" {
		t.Errorf("streamed arguments %q, id %q, name %q, finish %q", got, id, name, finish)
	}
}

func TestOutputLength(t *testing.T) {
	s := newTestServer(t, Config{Seed: 5})
	tests := []struct {
		extra      string
		low, high  float64
		wantFinish string
	}{
		{`"user":"x"`, naturalMin, naturalMax, "stop"},
		{`"max_tokens":3`, 3, 3, "length"},
		{`"max_completion_tokens":2048`, 2048, 2048, "length"},
		{`"max_tokens":32000`, naturalMin, naturalMax, "stop"},
		{`"max_tokens":5000,"ignore_eos":true`, 5000, 5000, "length"},
		{`"min_tokens":500`, 500, 500, "stop"},
		{`"max_tokens":1000000000,"ignore_eos":true`, maxTokens, maxTokens, "length"},
		{`"max_tokens":32768,"ignore_eos":true,"n":128`, 128 * 2048, 128 * 2048, "length"},
	}
	for _, tt := range tests {
		v := decode(t, s.ok(pathChat, chatBody(tt.extra)).body)
		got := jsonAt(t, v, "usage", "completion_tokens").(float64)
		if got < tt.low || got > tt.high {
			t.Errorf("%s: %v output tokens, want %v to %v", tt.extra, got, tt.low, tt.high)
		}
		if finish := jsonAt(t, v, "choices", 0, "finish_reason"); finish != tt.wantFinish {
			t.Errorf("%s: finish %v, want %s", tt.extra, finish, tt.wantFinish)
		}
	}
}

func TestModels(t *testing.T) {
	s := newTestServer(t, Config{Models: []string{"a", "b/c"}, StrictModels: true})
	list := decode(t, s.do(http.MethodGet, pathModels, "", nil).body)
	if jsonAt(t, list, "object") != "list" || jsonAt(t, list, "data", 0, "id") != "a" || jsonAt(t, list, "data", 1, "id") != "b/c" {
		t.Errorf("got %v", list)
	}
	if one := decode(t, s.do(http.MethodGet, pathModels+"/b/c", "", nil).body); jsonAt(t, one, "object") != "model" {
		t.Errorf("got %v", one)
	}
	for _, r := range []result{s.do(http.MethodGet, pathModels+"/x", "", nil), s.post(pathChat, helloRequest)} {
		if r.status != http.StatusNotFound || jsonAt(t, decode(t, r.body), "error", "code") != "model_not_found" {
			t.Errorf("unknown model: status %d, body %s", r.status, r.body)
		}
	}
	if got := s.Stats(); got.PeakInFlight != 1 || got.PeakServing != 0 {
		t.Errorf("models must not count as model calls: %+v", got)
	}
}
