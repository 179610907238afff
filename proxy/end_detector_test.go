package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"headgate/internal/modelstub"
)

// streamOracle says what streamEnd should, slowly: all lines at once, JSON by
// encoding/json. It gives up (ok is false) on texts that the two read differently.
type streamOracle struct {
	protocol                 protocol
	open, finished           map[int]bool
	done, failed, unreadable bool
}

func askOracle(text []byte, p protocol) (complete, failed, ok bool) {
	o := streamOracle{protocol: p, open: make(map[int]bool), finished: make(map[int]bool)}
	lines := strings.Split(strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(string(text)), "\n")
	last := lines[len(lines)-1] // has not ended
	event, data := "", ""
	for _, line := range lines[:len(lines)-1] {
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case p == protocolOllama:
			o.inspect("", line)
		case line == "":
			if data != "" {
				o.inspect(event, data)
			}
			event, data = "", ""
		case name == "event":
			event = value
		case name == "data" && data == "" && strings.TrimSpace(value) == "[DONE]":
			o.done = true
		case name == "data" && data == "":
			data = value
		case name == "data":
			data += "\n" + value
		}
	}
	if p == protocolOllama && json.Valid([]byte(last)) {
		o.inspect("", last)
	}
	unfinished := false
	for index := range o.open {
		unfinished = unfinished || !o.finished[index]
	}
	return o.done || o.failed || len(o.finished) > 0 && !unfinished, o.failed, !o.unreadable
}

func (o *streamOracle) inspect(kind, data string) {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(data), &object) != nil || hasRepeatedKeys(data) || len(kind) > maxEventName {
		o.unreadable = true
		return
	}
	member := func(name string) (value any) {
		_ = json.Unmarshal(object[name], &value) // nil if there is none
		return value
	}
	if kind == "" && o.protocol == protocolTyped {
		kind, _ = member("type").(string)
	}
	progress := false
	switch o.protocol {
	case protocolChoices:
		progress = o.choices(object["choices"])
	case protocolTyped:
		o.done = o.done || slices.Contains([]string{"response.completed", "response.incomplete", "response.failed", "message_stop"}, kind)
		progress = kind == "response.completed" || kind == "response.incomplete" ||
			strings.HasSuffix(kind, "delta") || strings.HasSuffix(kind, ".done")
	case protocolOllama:
		_, progress = object["done"]
		o.done = o.done || member("done") == true
	}
	isError := kind == "error" || kind == "response.failed"
	switch e := member("error").(type) {
	case string:
		isError = isError || e != ""
	case map[string]any:
		isError = isError || len(e) > 0
	}
	o.failed = isError || o.failed && !progress
}

func (o *streamOracle) choices(list json.RawMessage) (progress bool) {
	var choices []struct {
		Index  *int `json:"index"`
		Finish any  `json:"finish_reason"`
	}
	if list != nil && json.Unmarshal(list, &choices) != nil {
		o.unreadable = true
	}
	for _, c := range choices {
		index := 0
		if c.Index != nil {
			index = *c.Index
		}
		if index < 0 || index >= 64 {
			o.unreadable = true // beyond what is kept apart
			return true
		}
		o.open[index] = true
		if reason, _ := c.Finish.(string); reason != "" && reason != "null" {
			o.finished[index] = true
		}
	}
	return len(choices) > 0
}

// hasRepeatedKeys tells whether any object names a key twice, or two that
// encoding/json takes for the same.
func hasRepeatedKeys(text string) bool {
	d := json.NewDecoder(strings.NewReader(text))
	type frame struct {
		keys map[string]bool // nil in a list
		key  bool            // a key comes next
	}
	var stack []frame
	for {
		token, err := d.Token()
		if err != nil {
			return false
		}
		switch delim, _ := token.(json.Delim); delim {
		case '{':
			stack = append(stack, frame{make(map[string]bool), true})
			continue
		case '[':
			stack = append(stack, frame{})
			continue
		case '}', ']':
			stack = stack[:len(stack)-1]
		default:
			if top := len(stack) - 1; top >= 0 && stack[top].keys != nil && stack[top].key {
				name := strings.ToLower(token.(string))
				if stack[top].keys[name] || name != token.(string) {
					return true
				}
				stack[top].keys[name], stack[top].key = true, false
				continue
			}
		}
		if top := len(stack) - 1; top >= 0 {
			stack[top].key = true
		}
	}
}

// feed shows text to an ending in pieces, whose lengths are those of cuts.
func feed(end endDetector, text, cuts []byte) {
	for i := 0; len(text) > 0; i++ {
		n := len(text)
		if i < len(cuts) {
			n = min(n, int(cuts[i]))
		}
		_, _ = end.Write(text[:n])
		text = text[n:]
	}
}

var streamProtocols = []protocol{protocolChoices, protocolTyped, protocolOllama}

func FuzzStreamEnd(f *testing.F) {
	for _, odd := range modelstub.EdgeCaseStreams() {
		if len(odd.Bytes()) < 1<<11 {
			f.Add(odd.Bytes(), []byte{1, 7, 255, 3}, byte(0))
		}
	}
	for _, text := range []string{
		events(delta, stop, done), events(delta, delta1, stop), events(errorChunk), "data: [DO", "data:[DONE]\r\r", "event: error\n",
		"data: \n\n", "data\ndata:{\n", events(`{"type":"response.completed"}`), events(`{"choices":[{"finish_reason":7}]}`),
		events(`{"choices":{"index":0,"finish_reason":"stop"}}`), "\r\ndata: " + stop + "\r\ndata: " + delta1 + "\r\n",
		events(errorChunk, delta, done), events(`{"error":"","choices":null}`, `{"error":{}}`), "event: message_stop\ndata: {}\r\n\r\n",
		`{"done":false}` + "\n" + `{"done":true}`, `{"error":"x"}` + "\r\n" + `{"done":1}`, "event: error\ndata: {}\n\n" + events(`{"type":"x.delta"}`),
	} {
		for i := range streamProtocols {
			f.Add([]byte(text), []byte{2, 5}, byte(i))
			f.Add([]byte(text), []byte{0, 1, 1, 1, 9}, byte(i))
		}
	}
	f.Fuzz(func(t *testing.T, text, cuts []byte, which byte) {
		proto := streamProtocols[int(which)%len(streamProtocols)]
		whole, pieces := streamEnd{protocol: proto}, streamEnd{protocol: proto}
		feed(&whole, text, nil)
		feed(&pieces, text, cuts)
		if whole.complete() != pieces.complete() || whole.upstreamFailed() != pieces.upstreamFailed() {
			t.Errorf("complete %t and failed %t at once, %t and %t in pieces", whole.complete(), whole.upstreamFailed(), pieces.complete(), pieces.upstreamFailed())
		}
		complete, failed, ok := askOracle(text, proto)
		if ok && (whole.complete() != complete || whole.upstreamFailed() != failed) {
			t.Errorf("complete %t, failed %t; want %t, %t", whole.complete(), whole.upstreamFailed(), complete, failed)
		}
	})
}

// recordedStreams are whole streams of each protocol. They are complete from the mark on,
// and cut before it.
var recordedStreams = map[string]struct {
	protocol protocol
	text     string
}{
	"chat": {protocolChoices, events(
		`{"id":"c","object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"logprobs":null,"finish_reason":null}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{"content":"a \"word\" [DONE] \n"},"finish_reason":null}]}`,
		`{"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`) + mark +
		events(`{"id":"c","choices":[],"usage":{"total_tokens":7}}`, done)},
	"chat with empty reasons and errors": {protocolChoices, events(
		`{"error":"","choices":[{"index":0,"delta":{"content":"a"},"finish_reason":""}]}`,
		`{"error":{},"choices":[{"index":0,"delta":{"content":"b"},"finish_reason":"null"}]}`) + "data: [DONE]\n" + mark + "\n"},
	"chat with two choices": {protocolChoices, events(
		`{"choices":[{"index":0,"delta":{"content":"a"}},{"index":1,"delta":{"content":"b"}}]}`,
		`{"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}`,
		`{"choices":[{"index":0,"delta":{},"finish_reason":"tool_calls"}]}`) + mark + events(done)},
	"completions": {protocolChoices, events(`{"object":"text_completion","choices":[{"index":0,"text":"a","finish_reason":null}]}`,
		`{"choices":[{"index":0,"text":"","finish_reason":"length"}]}`) + mark + events(done)},
	"responses": {protocolTyped, "event: response.created\n" + events(`{"type":"response.created","response":{"error":null}}`) +
		"event: response.output_text.delta\n" + events(`{"type":"response.output_text.delta","delta":"response.completed"}`) +
		"event: response.completed\n" + events(`{"type":"response.completed","response":{"status":"completed"}}`) + mark},
	"messages": {protocolTyped, messageStart +
		"event: ping\n" + events(`{"type": "ping"}`) +
		"event: content_block_delta\n" + events(`{"type":"content_block_delta","delta":{"type":"text_delta","text":"message_stop"}}`) +
		"event: message_delta\n" + events(`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":1}}`) +
		"event: message_stop\n" + events(`{"type":"message_stop"}`) + mark},
	"Ollama": {protocolOllama, `{"model":"m","message":{"role":"assistant","content":"{\"done\":true}"},"done":false}` + "\n" +
		`{"model":"m","message":{"role":"assistant","content":""},"done_reason":"stop","done":true,"eval_count":298}` + mark + "\n"},
}

const mark = "<the end>"

// checkCut feeds the first n bytes of a recorded stream, in pieces, to its detector.
func checkCut(t *testing.T, name, lineEnd string, n int, pieces []byte) {
	t.Helper()
	recorded := recordedStreams[name]
	text := strings.ReplaceAll(recorded.text, "\n", lineEnd)
	before, after, _ := strings.Cut(text, mark)
	text = before + after
	n = min(n, len(text))
	end := streamEnd{protocol: recorded.protocol}
	feed(&end, []byte(text[:n]), pieces)
	// The second byte of the last line end adds nothing.
	earliest := len(before) - len(lineEnd) + 1
	if recorded.protocol == protocolOllama {
		earliest = len(before)
	}
	if got := end.complete(); got && n < earliest || !got && n >= len(before) {
		t.Errorf("%s: complete %t after %d of %d bytes, the end is at %d", name, got, n, len(text), len(before))
	}
}

func TestCutStreams(t *testing.T) {
	for name, recorded := range recordedStreams {
		for _, lineEnd := range []string{"\n", "\r\n", "\r"} {
			for n := range 2 * len(recorded.text) {
				checkCut(t, name, lineEnd, n, []byte{byte(n), 1, 1, 40, 1})
			}
		}
	}
}

// Recorded streams are incomplete wherever they are cut, and complete otherwise.
func FuzzCutStreams(f *testing.F) {
	f.Add(byte(0), byte(0), uint16(100), []byte{1, 2, 3})
	f.Add(byte(6), byte(1), uint16(10000), []byte{200, 0, 1})
	names := slices.Sorted(maps.Keys(recordedStreams))
	f.Fuzz(func(t *testing.T, which, lineEnd byte, n uint16, pieces []byte) {
		checkCut(t, names[int(which)%len(names)], []string{"\n", "\r\n", "\r"}[lineEnd%3], int(n), pieces)
	})
}

// Lines longer than what is looked at pass, and say nothing.
func TestLinesThatAreTooLong(t *testing.T) {
	long := strings.Repeat("x", maxEventBytes)
	for name, c := range map[string]struct {
		text     string
		complete bool
	}{
		"a finish that is cut":    {`data: {"choices":[{"index":0,"finish_reason":"stop","x":"` + long + `"}]}` + "\n\n", false},
		"an event after it":       {"data: " + long + "\n\n" + events(stop), true},
		"an endless line":         {"data: " + long + long, false},
		"the next is looked at":   {": " + long + "\r\n" + events(done), true},
		"an error that is cut":    {`data: {"error":{"message":"` + long + `"}}` + "\n\n", false},
		"a finish on many lines":  {"data: " + long + "\ndata: x\n" + events(stop), false},
		"done within a long line": {"data: " + long + " [DONE]\n", false},
	} {
		for _, piece := range []int{1 << 12, 1 << 15, 1 << 21} {
			s := streamEnd{protocol: protocolChoices}
			for rest := []byte(c.text); len(rest) > 0; {
				n := min(piece, len(rest))
				_, _ = s.Write(rest[:n])
				rest = rest[n:]
			}
			if piece < 1<<21 && s.complete() != c.complete {
				t.Errorf("%s, in pieces of %d: complete %t", name, piece, s.complete())
			}
			if held := cap(s.partial) + cap(s.data); held > 4*maxEventBytes {
				t.Errorf("%s: holds %d bytes", name, held)
			}
		}
	}
}

func TestChoiceIndexAboveLimit(t *testing.T) {
	s := streamEnd{protocol: protocolChoices}
	for i := range 128 {
		feed(&s, []byte(events(fmt.Sprintf(`{"choices":[{"index":%d,"delta":{}}]}`, i))), nil)
	}
	for i := range 64 {
		if s.complete() {
			t.Fatalf("complete with %d of 64 choices finished", i)
		}
		feed(&s, []byte(events(fmt.Sprintf(`{"choices":[{"index":%d,"finish_reason":"stop"}]}`, i))), nil)
	}
	if !s.complete() {
		t.Error("all finished, and not complete")
	}
}

func FuzzJSONEnd(f *testing.F) {
	for _, text := range []string{fullJSON, `{}`, ` [ ] `, `{"a":"}\\\"{"}`, `[[[{"x":[]}]],"]"]`, "7", "null", `"\""`, `{`, `}`, "", `{"a":1}{`} {
		f.Add([]byte(text), []byte{1, 0, 2, 200})
	}
	f.Fuzz(func(t *testing.T, text, cuts []byte) {
		var at, pieces jsonEnd
		feed(&at, text, nil)
		feed(&pieces, text, cuts)
		if at != pieces {
			t.Errorf("%+v at once, %+v in pieces", at, pieces)
		}
		trimmed := bytes.TrimSpace(text)
		if !json.Valid(text) || trimmed[0] != '{' && trimmed[0] != '[' {
			return
		}
		if !at.complete() {
			t.Errorf("%q is whole", text)
		}
		var part jsonEnd
		for i, c := range trimmed[:len(trimmed)-1] {
			if part.step(c); part.complete() {
				t.Fatalf("%q is no whole", trimmed[:i+1])
			}
		}
	})
}

func BenchmarkSSE(b *testing.B) {
	var stream strings.Builder
	for i := range 50 {
		fmt.Fprintf(&stream, `data: {"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m",`+
			`"choices":[{"index":0,"delta":{"content":" word%d"},"finish_reason":null}]}`+"\n\n", i)
	}
	text := []byte(stream.String())
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		end := streamEnd{protocol: protocolChoices}
		_, _ = end.Write(text) // never fails
	}
}
