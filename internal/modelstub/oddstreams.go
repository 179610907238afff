package modelstub

import (
	"bytes"
	"strings"
)

// OddStream is a server-sent event body that is legal and unusual. Each one
// ends as a complete chat stream does, so a middleman must pass it on byte for
// byte and count it as completed.
type OddStream struct {
	// Name is the value of [HeaderStream].
	Name string
	// Writes are the body's pieces; the stub flushes after each.
	Writes [][]byte
}

// Bytes returns the whole body.
func (o OddStream) Bytes() []byte { return bytes.Join(o.Writes, nil) }

// hugeEvent is the size of the text in the "huge" stream.
const hugeEvent = 1 << 20

// Frames that the odd streams share.
const (
	oddHello = `{"id":"chatcmpl-odd","object":"chat.completion.chunk","created":1700000000,"model":"stub-model","choices":[{"index":0,"delta":{"role":"assistant","content":"hello"},"finish_reason":null}]}`
	oddStop  = `{"id":"chatcmpl-odd","object":"chat.completion.chunk","created":1700000000,"model":"stub-model","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	oddUsage = `{"id":"chatcmpl-odd","object":"chat.completion.chunk","created":1700000000,"model":"stub-model","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":1,"total_tokens":4}}`
	oddHead  = "data: " + oddHello + "\n\n"
	oddTail  = "data: " + oddStop + "\n\ndata: [DONE]\n\n"
)

// OddStreams returns the odd streams in a fixed order. The caller owns the
// result.
func OddStreams() []OddStream {
	return []OddStream{
		odd("comments", ": waiting\n", ": waiting\n\n", ":\n", oddHead, ": between\n\n", oddTail, ": after the end\n\n"),
		odd("crlf", strings.ReplaceAll(oddHead+oddTail, "\n", "\r\n")),
		odd("cr", strings.ReplaceAll(oddHead+oddTail, "\n", "\r")),
		odd("mixed-line-ends", "data: "+oddHello+"\r\n\n", "data: "+oddStop+"\n\r\n", "data: [DONE]\r\n\r\n"),
		odd("multi-line-data", oddLines(oddHello), oddTail),
		odd("no-space", "data:"+oddHello+"\n\n", "data:"+oddStop+"\n\ndata:[DONE]\n\n"),
		odd("unknown-events", "event: ping\ndata: {}\n\n", "event\nid: 7\nretry: 1000\nunknown: field\n\n", oddHead, oddTail),
		odd("event-names", "event: message\nid: 1\n"+oddHead, "event: message\nid: 2\n"+oddTail),
		odd("usage", oddHead, "data: "+oddStop+"\n\n", "data: "+oddUsage+"\n\n", "data: [DONE]\n\n"),
		odd("huge", strings.Replace(oddHead, "hello", strings.Repeat("x", hugeEvent), 1), oddTail),
		odd("done-without-blank-line", oddHead, "data: "+oddStop+"\n\ndata: [DONE]\n"),
		odd("done-without-line-end", oddHead, "data: "+oddStop+"\n\ndata: [DONE]"),
		odd("no-done", oddHead, "data: "+oddStop+"\n\n"),
		oddSplit("utf-8", strings.Replace(oddHead, "hello", "größe 水門 🌊 e\u0301", 1)+oddTail, 1),
		oddSplit("split", oddHead+oddTail, 7),
		odd("one-write", oddHead+strings.Repeat(oddHead, 63)+oddTail),
		odd("byte-order-mark", "\ufeff"+oddHead, oddTail),
		odd("done-in-text", strings.Replace(oddHead, "hello", `data: [DONE]\n\n`, 1), oddTail),
		odd("blank-lines", "\n\n\n", oddHead, "\n\n", oddTail, "\n"),
	}
}

func odd(name string, writes ...string) OddStream {
	o := OddStream{Name: name}
	for _, w := range writes {
		o.Writes = append(o.Writes, []byte(w))
	}
	return o
}

// oddSplit cuts a body into writes of size bytes, across events and
// characters alike.
func oddSplit(name, body string, size int) OddStream {
	o := OddStream{Name: name}
	for rest := []byte(body); len(rest) > 0; {
		n := min(size, len(rest))
		o.Writes = append(o.Writes, rest[:n])
		rest = rest[n:]
	}
	return o
}

// oddLines puts an event's JSON on several data lines, which joined by line
// ends are the same JSON.
func oddLines(json string) string {
	return "data: " + strings.ReplaceAll(json, `,"`, ",\ndata: \"") + "\n\n"
}

func (o *OddStream) reply(j *job) reply {
	r := j.base()
	r.contentType, r.gaps = typeEvents, len(o.Writes)
	r.events = func(yield func(event) bool) {
		for i, w := range o.Writes {
			if !yield(event{data: w, paced: true, last: i == len(o.Writes)-1}) {
				return
			}
		}
	}
	return r
}
