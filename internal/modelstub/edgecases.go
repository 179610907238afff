package modelstub

import (
	"bytes"
	"strings"
)

// EdgeCaseStream is a server-sent event body that is legal and unusual. Each one ends
// as a complete chat stream does, so a proxy must relay it byte for byte and count it
// as completed.
type EdgeCaseStream struct {
	// Name is the value of [HeaderStream].
	Name string
	// Writes are the body's pieces; the stub flushes after each.
	Writes [][]byte
}

// Bytes returns the whole body.
func (o EdgeCaseStream) Bytes() []byte { return bytes.Join(o.Writes, nil) }

// hugeTextBytes is the size of the text in the "huge" stream.
const hugeTextBytes = 1 << 20

// Frames that the edge-case streams share.
const (
	helloJSON  = `{"id":"chatcmpl-odd","object":"chat.completion.chunk","created":1700000000,"model":"stub-model","choices":[{"index":0,"delta":{"role":"assistant","content":"hello"},"finish_reason":null}]}`
	stopJSON   = `{"id":"chatcmpl-odd","object":"chat.completion.chunk","created":1700000000,"model":"stub-model","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	usageJSON  = `{"id":"chatcmpl-odd","object":"chat.completion.chunk","created":1700000000,"model":"stub-model","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`
	helloEvent = "data: " + helloJSON + "\n\n"
	endEvents  = "data: " + stopJSON + "\n\ndata: [DONE]\n\n"
)

// EdgeCaseStreams returns the edge-case streams in a fixed order. The caller owns the
// result.
func EdgeCaseStreams() []EdgeCaseStream {
	return []EdgeCaseStream{
		edgeCase("comments", ": waiting\n", ": waiting\n\n", ":\n", helloEvent, ": between\n\n", endEvents, ": after the end\n\n"),
		edgeCase("crlf", strings.ReplaceAll(helloEvent+endEvents, "\n", "\r\n")),
		edgeCase("cr", strings.ReplaceAll(helloEvent+endEvents, "\n", "\r")),
		edgeCase("mixed-line-ends", "data: "+helloJSON+"\r\n\n", "data: "+stopJSON+"\n\r\n", "data: [DONE]\r\n\r\n"),
		edgeCase("multi-line-data", multiLineData(helloJSON), endEvents),
		edgeCase("no-space", "data:"+helloJSON+"\n\n", "data:"+stopJSON+"\n\ndata:[DONE]\n\n"),
		edgeCase("unknown-events", "event: ping\ndata: {}\n\n", "event\nid: 7\nretry: 1000\nunknown: field\n\n", helloEvent, endEvents),
		edgeCase("event-names", "event: message\nid: 1\n"+helloEvent, "event: message\nid: 2\n"+endEvents),
		edgeCase("usage", helloEvent, "data: "+stopJSON+"\n\n", "data: "+usageJSON+"\n\n", "data: [DONE]\n\n"),
		edgeCase("huge", strings.Replace(helloEvent, "hello", strings.Repeat("x", hugeTextBytes), 1), endEvents),
		edgeCase("done-without-blank-line", helloEvent, "data: "+stopJSON+"\n\ndata: [DONE]\n"),
		edgeCase("done-without-line-end", helloEvent, "data: "+stopJSON+"\n\ndata: [DONE]"),
		edgeCase("no-done", helloEvent, "data: "+stopJSON+"\n\n"),
		splitEdgeCase("utf-8", strings.Replace(helloEvent, "hello", "größe 水門 🌊 e\u0301", 1)+endEvents, 1),
		splitEdgeCase("split", helloEvent+endEvents, 7),
		edgeCase("one-write", helloEvent+strings.Repeat(helloEvent, 63)+endEvents),
		edgeCase("byte-order-mark", "\ufeff"+helloEvent, endEvents),
		edgeCase("done-in-text", strings.Replace(helloEvent, "hello", `data: [DONE]\n\n`, 1), endEvents),
		edgeCase("blank-lines", "\n\n\n", helloEvent, "\n\n", endEvents, "\n"),
	}
}

func edgeCase(name string, writes ...string) EdgeCaseStream {
	o := EdgeCaseStream{Name: name}
	for _, w := range writes {
		o.Writes = append(o.Writes, []byte(w))
	}
	return o
}

// splitEdgeCase cuts a body into writes of size bytes, across events and
// characters alike.
func splitEdgeCase(name, body string, size int) EdgeCaseStream {
	o := EdgeCaseStream{Name: name}
	for rest := []byte(body); len(rest) > 0; {
		n := min(size, len(rest))
		o.Writes = append(o.Writes, rest[:n])
		rest = rest[n:]
	}
	return o
}

// multiLineData puts an event's JSON on several data lines, which joined by line
// ends are the same JSON.
func multiLineData(json string) string {
	return "data: " + strings.ReplaceAll(json, `,"`, ",\ndata: \"") + "\n\n"
}

func (o *EdgeCaseStream) reply(j *job) reply {
	n := len(o.Writes)
	return reply{
		id: requestID(j.id), contentType: typeEvents, promptTokens: j.prompt.tokens(),
		stream: stream{length: n, paced: n, event: func(i int) event {
			return event{data: o.Writes[i], paced: true, last: i == n-1}
		}},
	}
}
