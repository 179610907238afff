package modelstub

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math"
	"slices"
	"strings"
	"testing"
)

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
		Usage embeddingUsage
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
