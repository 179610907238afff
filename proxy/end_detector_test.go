package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"headgate/internal/modelstub"
)

// sseOracle says what streamEnd should, slowly: all lines at once, JSON by
// encoding/json. It gives up (ok is false) on texts that the two read apart.
type sseOracle struct {
	responses                bool
	open, finished           map[int]bool
	done, failed, unreadable bool
}

func askOracle(text []byte, responses bool) (complete, failed, ok bool) {
	o := sseOracle{responses: responses, open: make(map[int]bool), finished: make(map[int]bool)}
	lines := strings.Split(strings.ReplaceAll(string(text), "\r", "\n"), "\n")
	for _, line := range lines[:len(lines)-1] { // the last one has not ended
		name, value, colon := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		if !colon || value == "" && name == "data" {
			continue
		}
		switch {
		case name == "event" && responses:
			o.event(value)
		case name == "data" && strings.TrimSpace(value) == "[DONE]":
			o.done = true
		case name == "data" && (responses || value[0] == '{'):
			o.data(value)
		}
	}
	unfinished := false
	for index := range o.open {
		unfinished = unfinished || !o.finished[index]
	}
	return o.done || len(o.finished) > 0 && !unfinished, o.failed, !o.unreadable
}

func (o *sseOracle) event(name string) {
	switch name {
	case "response.completed", "response.incomplete":
		o.done = true
	case "response.failed", "error":
		o.done, o.failed = true, true
	}
}

func (o *sseOracle) data(value string) {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(value), &object) != nil || hasRepeatedKeys(value) {
		o.unreadable = true
		return
	}
	if o.responses {
		var name string
		if json.Unmarshal(object["type"], &name) == nil {
			o.event(name)
		}
		return
	}
	if e, ok := object["error"]; ok && string(e) != "null" {
		o.done, o.failed = true, true
		return
	}
	var choices []struct {
		Index  *int            `json:"index"`
		Finish json.RawMessage `json:"finish_reason"`
	}
	if list, ok := object["choices"]; ok && json.Unmarshal(list, &choices) != nil {
		o.unreadable = true
		return
	}
	for _, c := range choices {
		index := 0
		if c.Index != nil {
			index = *c.Index
		}
		if index < 0 || index >= 64 {
			o.unreadable = true // beyond what is kept apart
			return
		}
		o.open[index] = true
		if c.Finish != nil && string(c.Finish) != "null" {
			o.finished[index] = true
		}
	}
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

func FuzzSSEEnd(f *testing.F) {
	for _, odd := range modelstub.EdgeCaseStreams() {
		if len(odd.Bytes()) < 1<<11 {
			f.Add(odd.Bytes(), []byte{1, 7, 255, 3}, false)
		}
	}
	for _, text := range []string{
		events(delta, stop, done), events(delta, delta1, stop), events(errorChunk), "data: [DO", "data:[DONE]\r\r", "event: error\n",
		"data: \n\n", "data\ndata:{\n", events(`{"type":"response.completed"}`), events(`{"choices":[{"finish_reason":7}]}`),
		events(`{"choices":{"index":0,"finish_reason":"stop"}}`), "\r\ndata: " + stop + "\r\ndata: " + delta1 + "\r\n",
	} {
		f.Add([]byte(text), []byte{2, 5}, false)
		f.Add([]byte(text), []byte{0, 1, 1, 1, 9}, true)
	}
	f.Fuzz(func(t *testing.T, text, cuts []byte, responses bool) {
		proto := protocolChoices
		if responses {
			proto = protocolTyped
		}
		whole, pieces := streamEnd{protocol: proto}, streamEnd{protocol: proto}
		feed(&whole, text, nil)
		feed(&pieces, text, cuts)
		if whole.complete() != pieces.complete() || whole.upstreamFailed() != pieces.upstreamFailed() {
			t.Errorf("complete %t and failed %t at once, %t and %t in pieces", whole.complete(), whole.upstreamFailed(), pieces.complete(), pieces.upstreamFailed())
		}
		complete, failed, ok := askOracle(text, responses)
		if ok && (whole.complete() != complete || whole.upstreamFailed() != failed) {
			t.Errorf("complete %t, failed %t; want %t, %t", whole.complete(), whole.upstreamFailed(), complete, failed)
		}
	})
}

// Lines longer than what is looked at pass, and say nothing.
func TestLinesThatAreTooLong(t *testing.T) {
	long := strings.Repeat("x", maxEventBytes)
	for name, c := range map[string]struct {
		text     string
		complete bool
	}{
		"a finish that is cut":    {`data: {"choices":[{"index":0,"finish_reason":"stop","x":"` + long + `"}]}` + "\n", false},
		"a line after it":         {"data: " + long + "\n" + events(stop), true},
		"an endless line":         {"data: " + long + long, false},
		"the next is looked at":   {": " + long + "\r\n" + events(done), true},
		"an error that is cut":    {`data: {"error":{"message":"` + long + `"}}` + "\n", false},
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
			if cap(s.partial) > 2*maxEventBytes {
				t.Errorf("%s: holds %d bytes", name, cap(s.partial))
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
