package modelstub

import (
	"encoding/json"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestArgumentsFor(t *testing.T) {
	tests := []struct{ schema, want string }{
		{``, `{}`},
		{`null`, `{}`},
		{`7`, `{}`},
		{`{"properties":{"a":{"type":"string"}}}`, `{}`},
		{`{"required":["a"]}`, `{"a":"stub"}`},
		{`{"required":["b","a"],"properties":{"a":{"type":"number"},"b":{"type":"boolean"}}}`, `{"a":1.5,"b":true}`},
		{`{"required":["i","o","l"],"properties":{"i":{"type":"integer"},"o":{"type":"object"},"l":{"type":"array"}}}`, `{"i":1,"l":[],"o":{}}`},
		{`{"required":["e"],"properties":{"e":{"type":"string","enum":["<x>","y"]}}}`, `{"e":"<x>"}`},
		{`{"required":["n"],"properties":{"n":{"type":["string","null"]}}}`, `{"n":"stub"}`},
		{`{"required":["p"],"properties":{"p":true}}`, `{"p":"stub"}`},
	}
	for _, tt := range tests {
		if got := argumentsFor(json.RawMessage(tt.schema)); got != tt.want {
			t.Errorf("schema %s gives arguments %s, want %s", tt.schema, got, tt.want)
		}
	}
}

func TestToolFragmentsAreWholeCharacters(t *testing.T) {
	call := &toolCall{Name: "f", Arguments: `{"city":"水門水門水門🌊🌊🌊","e":"e` + "\u0301" + `"}`}
	fragments := call.fragments()
	if got := strings.Join(fragments, ""); got != call.Arguments {
		t.Errorf("the fragments add up to %q", got)
	}
	for _, f := range fragments {
		if !utf8.ValidString(f) || f == "" {
			t.Errorf("fragment %q cuts a character", f)
		}
	}
	if len(fragments) < 3 {
		t.Errorf("%d fragments: the arguments are not streamed in parts", len(fragments))
	}
}

func TestToolFragmentsOfInvalidText(t *testing.T) {
	call := &toolCall{Arguments: strings.Repeat("\x80", 30)}
	if got := strings.Join(call.fragments(), ""); got != call.Arguments {
		t.Errorf("the fragments add up to %q", got)
	}
}

func TestToolChoiceShapes(t *testing.T) {
	tests := []struct{ raw, mode, name string }{
		{`"auto"`, "auto", ""},
		{`"required"`, "required", ""},
		{`{"type":"function","function":{"name":"f"}}`, "", "f"},
		{`{"type":"function","name":"g"}`, "", "g"},
		{`[]`, "", ""},
		{``, "", ""},
		{`null`, "", ""},
	}
	for _, tt := range tests {
		if mode, name := readToolChoice(json.RawMessage(tt.raw)); mode != tt.mode || name != tt.name {
			t.Errorf("%s: got mode %q, name %q; want %q, %q", tt.raw, mode, name, tt.mode, tt.name)
		}
	}
}

func TestUnknownToolChoiceCallsNothing(t *testing.T) {
	req := &request{
		Tools:      []json.RawMessage{json.RawMessage(`{"type":"function","name":"f"}`)},
		ToolChoice: json.RawMessage(`{"type":"function","name":"other"}`),
	}
	if call := toolCallFor(req, "call f"); call != nil {
		t.Errorf("a choice that names no tool led to a call of %s", call.Name)
	}
}

func TestContentText(t *testing.T) {
	tests := []struct{ raw, want string }{
		{``, ``},
		{`null`, ``},
		{`"größe"`, `größe`},
		{`[{"type":"text","text":"a"},{"type":"text","text":"b"}]`, `ab`},
		{`[]`, ``},
		{`[{"type":"image_url"}]`, `[{"type":"image_url"}]`},
		{`{"odd":1}`, `{"odd":1}`},
		{`7`, `7`},
	}
	for _, tt := range tests {
		if got := contentText(json.RawMessage(tt.raw)); got != tt.want {
			t.Errorf("%s: got %q, want %q", tt.raw, got, tt.want)
		}
	}
}

func TestReadMessagesUserText(t *testing.T) {
	say := func(role, text string) message {
		return message{Role: role, Content: json.RawMessage(`"` + text + `"`)}
	}
	tests := []struct {
		name     string
		messages []message
		want     prompt
	}{
		{"no message", nil, prompt{}},
		{"the user", []message{say("system", "abc"), say("user", "de")}, prompt{bytes: 5, userText: "de"}},
		{"the assistant", []message{say("user", "de"), say("assistant", "f")}, prompt{bytes: 3}},
		{"a function", []message{say("user", "de"), {Type: "function_call_output", Output: json.RawMessage(`"xyz"`)}}, prompt{bytes: 5}},
	}
	for _, tt := range tests {
		if got := readMessages(tt.messages); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", tt.name, got, tt.want)
		}
	}
	if got := (prompt{bytes: 3}).tokens(); got != 1 {
		t.Errorf("three bytes are %d tokens, want 1", got)
	}
}

func TestTextChunksAddUpToTheWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, tokens := range []int{1, 2, 7, 128, 1000} {
		for _, chunks := range []int{1, 2, 3, 64, tokens} {
			x := newText(r, tokens, min(chunks, tokens))
			var b strings.Builder
			for i := range x.chunks {
				chunk := x.chunk(i)
				if chunk == "" {
					t.Errorf("%d tokens in %d chunks: chunk %d is empty", tokens, x.chunks, i)
				}
				b.WriteString(chunk)
			}
			if b.String() != x.full() {
				t.Errorf("%d tokens in %d chunks do not add up to the whole", tokens, x.chunks)
			}
		}
	}
}

func TestVocabularyNeedsEscaping(t *testing.T) {
	all := strings.Join(vocabulary[:], " ")
	for _, hard := range []string{`"`, `\`, "<", "&", "\n", "ß", "水", "🌊", "\u0301", "data:"} {
		if !strings.Contains(all, hard) {
			t.Errorf("the vocabulary has no %q", hard)
		}
	}
}

func TestDigestSeparatesParts(t *testing.T) {
	seen := map[digest]string{}
	for _, tt := range []struct {
		seed       uint64
		path, body string
	}{
		{1, "/a", "b"}, {2, "/a", "b"}, {1, "/b", "b"}, {1, "/a", "c"}, {1, "/ab", ""}, {1, "/", "ab"},
	} {
		id := newDigest(tt.seed, tt.path, []byte(tt.body))
		if before, taken := seen[id]; taken {
			t.Errorf("%+v has the identity of %s", tt, before)
		}
		seen[id] = tt.path + tt.body
		if created := id.created(); created < createdBase || created >= createdBase+1<<25 {
			t.Errorf("created %d lies outside the bounds", created)
		}
		if name := id.name("x-"); len(name) != 2+24 {
			t.Errorf("identifier %q has not 24 digits", name)
		}
	}
}

func TestDigestRandPartsDiffer(t *testing.T) {
	id := newDigest(1, "/a", []byte("b"))
	var firsts []uint64
	for part := -1; part < 200; part++ {
		firsts = append(firsts, id.rand(part).Uint64())
	}
	slices.Sort(firsts)
	if n := len(slices.Compact(firsts)); n != 201 {
		t.Errorf("201 parts begin with %d different numbers", n)
	}
}

func TestEncodeLeavesMarkupAlone(t *testing.T) {
	if got := string(encode(map[string]string{"a": "<&>\u2028"})); got != `{"a":"<&>\u2028"}` {
		t.Errorf("got %s", got)
	}
	if got := encode(make(chan int)); !json.Valid(got) || !strings.Contains(string(got), `"error"`) {
		t.Errorf("what cannot be encoded gives %s, want an error object", got)
	}
}

func TestFrame(t *testing.T) {
	if got := string(sseFrame("", []byte("{}"))); got != "data: {}\n\n" {
		t.Errorf("got %q", got)
	}
	if got := string(sseFrame("x.y", []byte("{}"))); got != "event: x.y\ndata: {}\n\n" {
		t.Errorf("got %q", got)
	}
}

func TestClip(t *testing.T) {
	if got := clip(strings.Repeat("a", 80)); len(got) != 80 {
		t.Errorf("80 bytes became %d", len(got))
	}
	if got := clip(strings.Repeat("a", 1000)); got != strings.Repeat("a", 80)+"…" {
		t.Errorf("got %q", got)
	}
}

func TestOutcomeNames(t *testing.T) {
	want := []string{"pending", "completed", "rejected", "faulted", "client_gone", "aborted"}
	var counts Counts
	for i, word := range want {
		if got := outcome(i).String(); got != word {
			t.Errorf("outcome %d is called %q, want %q", i, got, word)
		}
		counts.add(outcome(i))
	}
	if want := (Counts{Completed: 1, Rejected: 1, Faulted: 1, ClientGone: 1, Aborted: 1}); counts != want {
		t.Errorf("one of each gives %+v", counts)
	}
}

// FuzzRequest sends any body and control headers to any endpoint: whatever
// comes, the answer is whole and in the right shape, and the books are closed.
func FuzzRequest(f *testing.F) {
	for _, call := range allRequests() {
		f.Add(call[0], call[1], "", "", "")
	}
	f.Add(pathChat, chatBody(`"n":128,"stream":true,"stream_options":null`), "identity", "3", "")
	f.Add(pathChat, `{"messages":[{"role":"user","content":[{"text":1}]}],"tools":[null,1,{}],"tool_choice":[]}`, "", "", "")
	f.Add(pathChat, `{"messages":[{}],"tools":[{"type":"function","name":"ü","parameters":{"required":["ä","b"]}}],"tool_choice":"required","stream":true}`, "", "", "gzip")
	f.Add(pathCompletions, `{"prompt":[[1],[2]],"n":3}`, "gzip", "", "br")
	f.Add(pathResponses, `{"input":[],"tools":[{"type":"local_shell"}],"text":{"format":1}}`, "zstd", "", "zstd")
	f.Add("/v1/models/x", "", "", "", "")
	f.Fuzz(func(t *testing.T, path, body, encoding, chunks, packing string) {
		stub, err := New(Config{Seed: 1, MaxBody: 1 << 16})
		if err != nil {
			t.Fatal(err)
		}
		defer stub.Close()
		r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(body))
		r.URL.Path = path
		r.Header.Set("Content-Encoding", encoding)
		r.Header.Set(HeaderChunks, chunks)
		r.Header.Set(HeaderEncoding, packing)
		w := httptest.NewRecorder()
		stub.ServeHTTP(w, r)
		checkFuzzedAnswer(t, w, packing)
		got := stub.Stats()
		if got.Calls != 1 || got.Completed+got.Rejected != 1 || got.InFlight != 0 || got.Serving != 0 {
			t.Fatalf("stats %+v", got)
		}
	})
}

func checkFuzzedAnswer(t *testing.T, w *httptest.ResponseRecorder, packing string) {
	t.Helper()
	answer := w.Body.Bytes()
	if w.Code == http.StatusOK {
		var err error
		if answer, err = decodeBody(packing, answer, 1<<30); err != nil {
			t.Fatal(err)
		}
	}
	switch {
	case strings.HasPrefix(w.Header().Get("Content-Type"), "text/event-stream"):
		for _, e := range events(t, string(answer)) {
			if e.data != "[DONE]" && !json.Valid([]byte(e.data)) {
				t.Fatalf("event %q is not JSON", e.data)
			}
		}
	case !json.Valid(answer):
		t.Fatalf("status %d with a body that is not JSON: %q", w.Code, answer)
	case (w.Code == http.StatusOK) == strings.HasPrefix(string(answer), `{"error"`):
		t.Fatalf("status %d with body %q", w.Code, answer)
	}
}

func FuzzOptions(f *testing.F) {
	f.Add("hang", "2s", "3", "crlf", "br")
	f.Add("latency=1s", "", "x", "nothing", "gzip")
	f.Fuzz(func(t *testing.T, fault, service, chunks, stream, encoding string) {
		o, err := parseOptions(http.Header{
			HeaderFault: {fault}, HeaderService: {service}, HeaderChunks: {chunks},
			HeaderStream: {stream}, HeaderEncoding: {encoding},
		})
		if err != nil {
			return
		}
		if o.chunks < 0 || o.chunks > maxChunks || (chunks != "") != (o.chunks > 0) {
			t.Fatalf("chunks %q read as %d", chunks, o.chunks)
		}
		if o.service != nil && (o.service.(Fixed) < 0 || o.service.Mean(0, 0) > MaxService) {
			t.Fatalf("service %q read as %v", service, o.service)
		}
		if (fault != "") != (o.fault != Fault{}) && !strings.Contains(fault, "latency") {
			t.Fatalf("fault %q read as %+v", fault, o.fault)
		}
		if (stream != "") != (o.stream != nil) {
			t.Fatalf("stream %q read as %v", stream, o.stream)
		}
	})
}
