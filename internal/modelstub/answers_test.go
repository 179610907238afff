package modelstub

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

// chatChunk is a chunk of a streamed chat.
type chatChunk struct {
	Choices []struct {
		Index int
		Delta struct {
			Role, Content string
			ToolCalls     []struct {
				Index    *int
				ID       string
				Function struct{ Name, Arguments string }
			} `json:"tool_calls"`
		}
		FinishReason *string `json:"finish_reason"`
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
		texts[choice.Index] += choice.Delta.Content
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
	s := newTestServer(t, Config{Models: []string{"a", "b/c"}})
	list := decode(t, s.do(http.MethodGet, pathModels, "", nil).body)
	if jsonAt(t, list, "object") != "list" || jsonAt(t, list, "data", 0, "id") != "a" || jsonAt(t, list, "data", 1, "id") != "b/c" {
		t.Errorf("got %v", list)
	}
	if one := decode(t, s.do(http.MethodGet, pathModels+"/b/c", "", nil).body); jsonAt(t, one, "object") != "model" {
		t.Errorf("got %v", one)
	}
	r := s.do(http.MethodGet, pathModels+"/x", "", nil)
	if r.status != http.StatusNotFound || jsonAt(t, decode(t, r.body), "error", "code") != "model_not_found" {
		t.Errorf("unknown model: status %d, body %s", r.status, r.body)
	}
	if got := s.Stats(); got.PeakInFlight != 0 || got.PeakServing != 0 {
		t.Errorf("models must not count as model calls: %+v", got)
	}
}

func TestCompletions(t *testing.T) {
	s := newTestServer(t, Config{})
	v := decode(t, s.ok(pathCompletions, `{"prompt":["one","two"],"n":2,"max_tokens":4}`).body)
	if jsonAt(t, v, "object") != "text_completion" || jsonAt(t, v, "model") != "stub-model" {
		t.Errorf("got %v", v)
	}
	choices := jsonAt(t, v, "choices").([]any)
	if len(choices) != 4 {
		t.Fatalf("two prompts and n=2 gave %d choices, want 4", len(choices))
	}
	for i, c := range choices {
		if jsonAt(t, c, "index") != float64(i) || jsonAt(t, c, "finish_reason") != "length" || jsonAt(t, c, "text") == "" {
			t.Errorf("choice %d: %v", i, c)
		}
	}
	if got := jsonAt(t, v, "usage", "completion_tokens"); got != 16.0 {
		t.Errorf("completion_tokens %v, want 16", got)
	}
}

func TestCompletionsStream(t *testing.T) {
	s := newTestServer(t, Config{})
	const ask = `{"prompt":"once","max_tokens":6,"stream":true,"stream_options":{"include_usage":true}}`
	list := events(t, s.ok(pathCompletions, ask).body)
	if len(list) != 8 || list[7].data != "[DONE]" {
		t.Fatalf("got %d events ending in %q, want 8 ending in [DONE]", len(list), list[len(list)-1].data)
	}
	var text string
	for i, e := range list[:6] {
		c := jsonAt(t, decode(t, e.data), "choices", 0)
		text += jsonAt(t, c, "text").(string)
		if ended := jsonAt(t, c, "finish_reason") == "length"; ended != (i == 5) {
			t.Errorf("event %d: finish_reason %v", i, jsonAt(t, c, "finish_reason"))
		}
	}
	if text == "" || jsonAt(t, decode(t, list[6].data), "usage", "completion_tokens") != 6.0 {
		t.Errorf("text %q, usage %s", text, list[6].data)
	}
}

func TestResponsesWhole(t *testing.T) {
	s := newTestServer(t, Config{})
	v := decode(t, s.ok(pathResponses, `{"model":"m","input":"hi there","instructions":"be brief","metadata":{"k":"v"}}`).body)
	for key, want := range map[string]any{"object": "response", "status": "completed", "error": nil, "instructions": "be brief", "tool_choice": "auto"} {
		if got := jsonAt(t, v, key); got != want {
			t.Errorf("%s: got %v, want %v", key, got, want)
		}
	}
	if jsonAt(t, v, "output", 0, "content", 0, "text") == "" || jsonAt(t, v, "metadata", "k") != "v" {
		t.Errorf("got %v", v)
	}
	if got := jsonAt(t, v, "usage", "input_tokens"); got != 4.0 {
		t.Errorf("input_tokens %v, want 4 for 16 bytes", got)
	}
	v = decode(t, s.ok(pathResponses, `{"input":"hi","max_output_tokens":2}`).body)
	if jsonAt(t, v, "status") != "incomplete" || jsonAt(t, v, "incomplete_details", "reason") != "max_output_tokens" {
		t.Errorf("an answer cut at its bound: %v", v)
	}
}

func names(list []sse) []string {
	var out []string
	for _, e := range list {
		if !slices.Contains(out, e.name) {
			out = append(out, e.name)
		}
	}
	return out
}

func TestResponsesStream(t *testing.T) {
	s := newTestServer(t, Config{})
	list := events(t, s.ok(pathResponses, `{"input":[{"role":"user","content":[{"type":"input_text","text":"hi"}]}],"stream":true}`).body)
	want := []string{
		"response.created", "response.in_progress", "response.output_item.added", "response.content_part.added",
		"response.output_text.delta", "response.output_text.done", "response.content_part.done",
		"response.output_item.done", "response.completed",
	}
	if got := names(list); !slices.Equal(got, want) {
		t.Fatalf("events %v, want %v", got, want)
	}
	var deltas string
	for i, e := range list {
		v := decode(t, e.data)
		if jsonAt(t, v, "type") != e.name || jsonAt(t, v, "sequence_number") != float64(i) {
			t.Errorf("event %d named %s: type %v, number %v", i, e.name, jsonAt(t, v, "type"), jsonAt(t, v, "sequence_number"))
		}
		if e.name == "response.output_text.delta" {
			deltas += jsonAt(t, v, "delta").(string)
			if jsonAt(t, v, "output_index") != 0.0 || jsonAt(t, v, "content_index") != 0.0 || jsonAt(t, v, "item_id") == "" {
				t.Errorf("delta has no place: %v", v)
			}
		}
	}
	done := decode(t, list[len(list)-1].data)
	if got := jsonAt(t, done, "response", "output", 0, "content", 0, "text"); got != deltas || deltas == "" {
		t.Errorf("the deltas say %q, the response %q", deltas, got)
	}
}

func TestResponsesToolCall(t *testing.T) {
	s := newTestServer(t, Config{})
	const tools = `"tools":[{"type":"web_search"},{"type":"function","name":"shell","parameters":{"required":["cmd"],"properties":{"cmd":{"type":"array"}}}}]`
	list := events(t, s.ok(pathResponses, `{"input":"use shell","stream":true,`+tools+`}`).body)
	var arguments string
	for _, e := range list {
		if e.name == "response.function_call_arguments.delta" {
			arguments += jsonAt(t, decode(t, e.data), "delta").(string)
		}
	}
	item := jsonAt(t, decode(t, list[len(list)-1].data), "response", "output", 0)
	if arguments != `{"cmd":[]}` || jsonAt(t, item, "type") != "function_call" || jsonAt(t, item, "arguments") != arguments || jsonAt(t, item, "name") != "shell" {
		t.Errorf("arguments %q, item %v", arguments, item)
	}
	after := `{"input":[{"role":"user","content":"use shell"},{"type":"function_call_output","call_id":"c","output":"done"}],` + tools + `}`
	if got := jsonAt(t, decode(t, s.ok(pathResponses, after).body), "output", 0, "type"); got != "message" {
		t.Errorf("after the result of its call the stub answers with a %v, want a message", got)
	}
}

func TestEmbeddingsFloatAndBase64Agree(t *testing.T) {
	s := newTestServer(t, Config{})
	var floats struct {
		Data []struct {
			Index     int
			Embedding []float32
		}
		Usage struct {
			PromptTokens int `json:"prompt_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(s.ok(pathEmbeddings, `{"model":"e","input":["one","two","one"],"dimensions":64}`).body), &floats); err != nil {
		t.Fatal(err)
	}
	v := decode(t, s.ok(pathEmbeddings, `{"model":"e","input":["one"],"dimensions":64,"encoding_format":"base64"}`).body)
	raw, err := base64.StdEncoding.DecodeString(jsonAt(t, v, "data", 0, "embedding").(string))
	if err != nil || len(raw) != 4*64 {
		t.Fatalf("%d bytes, error %v: want 256 bytes", len(raw), err)
	}
	var norm float64
	for i, f := range floats.Data[0].Embedding {
		norm += float64(f) * float64(f)
		if got := math.Float32frombits(binary.LittleEndian.Uint32(raw[4*i:])); got != f {
			t.Fatalf("element %d: base64 has %v, float has %v", i, got, f)
		}
	}
	if math.Abs(norm-1) > 1e-4 {
		t.Errorf("squared length %v, want 1", norm)
	}
	if !slices.Equal(floats.Data[0].Embedding, floats.Data[2].Embedding) || slices.Equal(floats.Data[0].Embedding, floats.Data[1].Embedding) {
		t.Error("embeddings must follow from the input: equal for equal, different for different")
	}
	if floats.Usage.PromptTokens != 2 { // nine bytes
		t.Errorf("prompt_tokens %d, want 2", floats.Usage.PromptTokens)
	}
}

func TestEmbeddingInputs(t *testing.T) {
	s := newTestServer(t, Config{})
	tests := []struct {
		input string
		want  int // inputs; 0 is refused
	}{
		{`"text"`, 1}, {`["a","b"]`, 2}, {`[1,2,3]`, 1}, {`[[1,2],[3]]`, 2},
		{`[]`, 0}, {`null`, 0}, {`{}`, 0}, {`7`, 0}, {`["a",null]`, 0}, {`["a",[1]]`, 2}, {`[1,"a"]`, 0},
		{`[` + strings.Repeat(`"a",`, maxInputs) + `"a"]`, 0},
	}
	for _, tt := range tests {
		r := s.post(pathEmbeddings, `{"dimensions":2,"input":`+tt.input+`}`)
		if tt.want == 0 {
			if r.status != 400 || jsonAt(t, decode(t, r.body), "error", "param") != "input" {
				t.Errorf("input %.40s: status %d, body %.200s", tt.input, r.status, r.body)
			}
			continue
		}
		if got := len(jsonAt(t, decode(t, r.body), "data").([]any)); got != tt.want {
			t.Errorf("input %s: %d embeddings, want %d", tt.input, got, tt.want)
		}
	}
}

var update = flag.Bool("update", false, "write the golden files anew")

// TestGoldenAnswers pins the bytes of one answer of every shape, so that a
// change of what goes over the wire is seen and meant.
func TestGoldenAnswers(t *testing.T) {
	const tool = `"tools":[{"type":"function","function":{"name":"weather","parameters":{"required":["city"]}}}],"tool_choice":"required"`
	const flat = `"tools":[{"type":"function","name":"weather","parameters":{"required":["city"]}}],"tool_choice":"required"`
	tests := []struct{ name, path, body string }{
		{"chat.json", pathChat, chatBody(`"max_tokens":4`)},
		{"chat.sse", pathChat, chatBody(`"max_tokens":4,"stream":true,"stream_options":{"include_usage":true}`)},
		{"chat-tool.json", pathChat, chatBody(tool)},
		{"chat-tool.sse", pathChat, chatBody(tool + `,"stream":true`)},
		{"completions.json", pathCompletions, `{"model":"m","prompt":"once","max_tokens":4}`},
		{"completions.sse", pathCompletions, `{"model":"m","prompt":"once","max_tokens":4,"stream":true}`},
		{"responses.json", pathResponses, `{"model":"m","input":"hi","max_output_tokens":4}`},
		{"responses.sse", pathResponses, `{"model":"m","input":"hi","max_output_tokens":4,"stream":true}`},
		{"responses-tool.json", pathResponses, `{"model":"m","input":"hi",` + flat + `}`},
		{"responses-tool.sse", pathResponses, `{"model":"m","input":"hi",` + flat + `,"stream":true}`},
		{"embeddings.json", pathEmbeddings, `{"model":"m","input":["a","b"],"dimensions":3}`},
		{"embeddings-base64.json", pathEmbeddings, `{"model":"m","input":"a","dimensions":3,"encoding_format":"base64"}`},
	}
	s := newTestServer(t, Config{Seed: 1})
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := s.ok(tt.path, tt.body).body
			file := filepath.Join("testdata", tt.name)
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("differs from %s (-want +got):\n%s", file, diff)
			}
		})
	}
}

// allRequests has each endpoint, streamed and not.
func allRequests() [][2]string {
	calls := [][2]string{
		{pathEmbeddings, `{"input":["a","b"],"dimensions":8}`},
		{pathEmbeddings, `{"input":"a","dimensions":8,"encoding_format":"base64"}`},
	}
	for _, stream := range []string{"false", "true"} {
		calls = append(calls,
			[2]string{pathChat, chatBody(`"n":2,"stream":` + stream)},
			[2]string{pathChat, chatBody(`"tool_choice":"required","tools":[{"type":"function","function":{"name":"f"}}],"stream":` + stream)},
			[2]string{pathCompletions, `{"prompt":"a","stream":` + stream + `}`},
			[2]string{pathResponses, `{"input":"a","stream":` + stream + `}`})
	}
	return calls
}

// withoutVolatile is the part of an answer that must repeat.
func withoutVolatile(r result) string {
	h := r.header.Clone()
	h.Del("Date")
	return fmt.Sprint(h, r.body)
}

func TestAnswersFollowFromSeedAndRequest(t *testing.T) {
	one, same, other := newTestServer(t, Config{Seed: 1}), newTestServer(t, Config{Seed: 1, Slots: 2}), newTestServer(t, Config{Seed: 2})
	for _, call := range allRequests() {
		path, body := call[0], call[1]
		first := one.ok(path, body)
		if again := one.ok(path, body); withoutVolatile(again) != withoutVolatile(first) {
			t.Errorf("%s %s: the second answer differs", path, body)
		}
		same.post(pathChat, helloRequest) // what else a stub answers does not matter
		if again := same.ok(path, body); withoutVolatile(again) != withoutVolatile(first) {
			t.Errorf("%s %s: another stub of the same seed answers differently", path, body)
		}
		if path == pathEmbeddings {
			continue // follow from the input alone
		}
		if differs := other.ok(path, body); differs.body == first.body {
			t.Errorf("%s %s: another seed gives the same answer", path, body)
		}
		if differs := one.ok(path, strings.Replace(body, "{", `{"user":"x",`, 1)); differs.body == first.body {
			t.Errorf("%s %s: another request gives the same answer", path, body)
		}
	}
}

func TestServiceTimesFollowFromSeedAndOrder(t *testing.T) {
	series := func(seed uint64) (times []time.Duration) {
		withSynctest(t, Config{Seed: seed, Service: Uniform{Low: 5 * time.Second, High: 30 * time.Second}}, func(t *testing.T, s *testServer) {
			for range 300 {
				times = append(times, elapsed(func() { s.ok(pathEmbeddings, `{"input":"a","dimensions":1}`) }))
			}
		})
		return times
	}
	first := series(1)
	if !slices.Equal(first, series(1)) {
		t.Error("the same seed gave other service times")
	}
	if slices.Equal(first, series(2)) {
		t.Error("another seed gave the same service times")
	}
	var sum time.Duration
	for _, d := range first {
		sum += d
	}
	wantWithin(t, "mean service time of equal calls", sum/300, 17500*time.Millisecond, 0.06)
}

func TestChunksHeader(t *testing.T) {
	s := newTestServer(t, Config{})
	count := func(path, body, chunks, marker string) int {
		return strings.Count(s.ok(path, body, HeaderChunks, chunks).body, marker)
	}
	for _, n := range []int{1, 5, 300} {
		want := fmt.Sprint(n)
		if got := count(pathCompletions, `{"prompt":"a","stream":true}`, want, `"object":"text_completion"`); got != n {
			t.Errorf("completions: %d chunks, want %d", got, n)
		}
		if got := count(pathResponses, `{"input":"a","stream":true}`, want, "event: response.output_text.delta"); got != n {
			t.Errorf("responses: %d chunks, want %d", got, n)
		}
		// The chunk that opens the choice has a content too, and the role.
		if got := count(pathChat, chatBody(`"stream":true`), want, `"delta":{"content":`) - 1; got != n {
			t.Errorf("chat: %d chunks, want %d", got, n)
		}
	}
	if got := count(pathChat, chatBody(`"stream":true,"max_tokens":2000`), "", `"delta":{"content":`) - 1; got != defaultChunks {
		t.Errorf("a long answer came in %d chunks, want %d", got, defaultChunks)
	}
}

func TestLargeBodies(t *testing.T) {
	s := newTestServer(t, Config{})
	for _, size := range []int{32_769, 1_100_000} {
		body := `{"messages":[{"role":"user","content":"` + strings.Repeat("x", size) + `"}]}`
		v := decode(t, s.ok(pathChat, body).body)
		if got := jsonAt(t, v, "usage", "prompt_tokens"); got != float64(size/4) {
			t.Errorf("%d bytes of prompt are %v tokens, want %d", size, got, size/4)
		}
	}
	image := `{"messages":[{"role":"user","content":[{"type":"text","text":"what is this?"},{"type":"image_url","image_url":{"url":"data:` +
		strings.Repeat("A", 400_000) + `"}}]}]}`
	if got := jsonAt(t, decode(t, s.ok(pathChat, image).body), "usage", "prompt_tokens").(float64); got < 100_000 {
		t.Errorf("an image counts with its bytes, got %v tokens", got)
	}
	if r := s.do(http.MethodPost, pathChat, helloRequest, nil); r.err != nil {
		t.Error(r.err)
	}
}
