package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"headgate/internal/modelstub"
	"headgate/proxy/admission"
)

// An answer that ends without its proper end must not look whole to the client,
// and one that has its end must.
func TestEndsOfStreams(t *testing.T) {
	cases := map[string]struct {
		path    string
		events  string
		tail    string // after the events
		end     func(context.Context, net.Conn)
		outcome admission.Outcome
		broken  bool
	}{
		"done":                           {chatPath, events(delta, stop, done), lastChunk, nil, admission.Completed, false},
		"done without a finish":          {chatPath, events(delta, done), lastChunk, nil, admission.Completed, false},
		"finish without done":            {chatPath, events(delta, stop), lastChunk, nil, admission.Completed, false},
		"usage after the finish":         {chatPath, events(delta, stop, usage), lastChunk, nil, admission.Completed, false},
		"both choices finished":          {chatPath, events(delta, delta1, stop1, stop), lastChunk, nil, admission.Completed, false},
		"no end":                         {chatPath, events(delta, delta, delta), lastChunk, nil, admission.Truncated, true},
		"nothing at all":                 {chatPath, "", lastChunk, nil, admission.Truncated, true},
		"comments only":                  {chatPath, ": hello\n\n", lastChunk, nil, admission.Truncated, true},
		"done in the text only":          {chatPath, events(`{"choices":[{"index":0,"delta":{"content":"data: [DONE]"}}]}`), lastChunk, nil, admission.Truncated, true},
		"cut within the last event":      {chatPath, events(delta) + "data: " + stop[:40], lastChunk, nil, admission.Truncated, true},
		"cut within done":                {chatPath, events(delta) + "data: [DO", lastChunk, nil, admission.Truncated, true},
		"one choice of two unfinished":   {chatPath, events(delta, delta1, stop), lastChunk, nil, admission.Truncated, true},
		"second choice unfinished":       {chatPath, events(delta1, delta, stop1), lastChunk, nil, admission.Truncated, true},
		"space before what it says":      {chatPath, strings.ReplaceAll(events(delta, stop), "data: ", "data: \t "), lastChunk, nil, admission.Completed, false},
		"space before an error":          {chatPath, strings.ReplaceAll(events(delta, errorChunk), "data: ", "data:  "), lastChunk, nil, admission.UpstreamError, false},
		"error event, clean end":         {chatPath, events(delta, errorChunk), lastChunk, nil, admission.UpstreamError, false},
		"error event and done":           {chatPath, events(delta, errorChunk, done), lastChunk, nil, admission.UpstreamError, false},
		"null error is none":             {chatPath, events(`{"error":null,"choices":[{"index":0,"finish_reason":"stop"}]}`), lastChunk, nil, admission.Completed, false},
		"hung up without the last chunk": {chatPath, events(delta), "", nil, admission.Truncated, true},
		"done, but no last chunk":        {chatPath, events(delta, stop, done), "", nil, admission.Completed, false},
		"done, then a reset":             {chatPath, events(delta, stop, done), "", resetOnEnd, admission.Completed, false},
		"finish, but no last chunk":      {chatPath, events(delta, stop), "", nil, admission.Truncated, true},
		"reset":                          {chatPath, events(delta), "", resetOnEnd, admission.Truncated, true},
		"framing that is none":           {chatPath, events(delta), "zz\r\nnot a chunk\r\n", nil, admission.Truncated, true},
		"a chunk shorter than it says":   {chatPath, events(delta), "ff\r\ndata: [DO", nil, admission.Truncated, true},
		"unset errors": {chatPath, events(`{"error":"","choices":[{"index":0,"delta":{},"finish_reason":null}]}`,
			`{"error":{},"choices":[]}`, `{"error":false}`, `{"error":0}`, `{"error":[]}`,
			`{"error":"","choices":[{"index":0,"finish_reason":"stop"}]}`), lastChunk, nil, admission.Completed, false},
		"unset errors without end": {chatPath, events(`{"error":"","choices":[{"index":0,"delta":{}}]}`), lastChunk, nil,
			admission.Truncated, true},
		"an error as text":              {chatPath, events(delta, `{"error":"overloaded"}`), lastChunk, nil, admission.UpstreamError, false},
		"an error by event name":        {chatPath, events(delta) + "event: error\ndata: {}\n\n", lastChunk, nil, admission.UpstreamError, false},
		"an error beside a finish":      {chatPath, events(`{"error":{"code":1},"choices":[{"index":0,"finish_reason":"error"}]}`), lastChunk, nil, admission.UpstreamError, false},
		"the stream goes on to its end": {chatPath, events(delta, errorChunk, delta, stop, done), lastChunk, nil, admission.Completed, false},
		"the stream goes on and is cut": {chatPath, events(delta, errorChunk, delta), lastChunk, nil, admission.Truncated, true},
		"empty finish reasons":          {chatPath, events(`{"choices":[{"index":0,"finish_reason":""}]}`), lastChunk, nil, admission.Truncated, true},
		"null as a text":                {chatPath, events(`{"choices":[{"index":0,"finish_reason":"null"}]}`), lastChunk, nil, admission.Truncated, true},
		"empty reasons before the last": {chatPath, events(`{"choices":[{"index":0,"finish_reason":""}]}`, stop), lastChunk, nil, admission.Completed, false},
		"finish without its blank line": {chatPath, events(delta) + "data: " + stop + "\n", lastChunk, nil, admission.Truncated, true},
		"done without its blank line":   {chatPath, events(delta) + "data: [DONE]\n", lastChunk, nil, admission.Completed, false},
		"a chunk on two data lines":     {chatPath, "data: {\"choices\":[{\"index\":0,\ndata: \"finish_reason\":\"stop\"}]}\n\n", lastChunk, nil, admission.Completed, false},
		"lines that end in CRLF":        {chatPath, strings.ReplaceAll(events(delta, stop), "\n", "\r\n"), lastChunk, nil, admission.Completed, false},
		"message stop":                  {"/v1/messages", "event: message_stop\ndata: {\"type\":\"message_stop\"}\n\n", lastChunk, nil, admission.Completed, false},
		"message stop by its type":      {"/v1/messages", events(`{"type":"message_stop"}`), lastChunk, nil, admission.Completed, false},
		"message without its stop":      {"/v1/messages", messageStart + events(`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`), lastChunk, nil, admission.Truncated, true},
		"message error":                 {"/v1/messages", messageStart + "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\"}}\n\n", lastChunk, nil, admission.UpstreamError, false},
		"completions":                   {"/v1/completions", events(delta, stop, done), lastChunk, nil, admission.Completed, false},
		"completions without end":       {"/v1/completions", events(delta), lastChunk, nil, admission.Truncated, true},
		"response completed":            {"/v1/responses", "event: response.completed\n" + events(`{"type":"response.completed"}`), lastChunk, nil, admission.Completed, false},
		"response incomplete":           {"/v1/responses", events(`{"type":"response.incomplete"}`), lastChunk, nil, admission.Completed, false},
		"response completed by name":    {"/v1/responses", "event: response.completed\ndata: {}\n\n", lastChunk, nil, admission.Completed, false},
		"response failed":               {"/v1/responses", events(`{"type":"response.failed"}`), lastChunk, nil, admission.UpstreamError, false},
		"response error":                {"/v1/responses", events(`{"type":"error","message":"x"}`), lastChunk, nil, admission.UpstreamError, false},
		"response with deltas only":     {"/v1/responses", events(`{"type":"response.output_text.delta","delta":"response.completed"}`), lastChunk, nil, admission.Truncated, true},
		"response reset":                {"/v1/responses", events(`{"type":"response.created"}`), "", resetOnEnd, admission.Truncated, true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			body := chunks(c.events)
			if c.events == "" {
				body = ""
			}
			r := newTestProxy(t, withEndpoints(withRawUpstream(chunkedHead+body+c.tail, c.end)))
			a := r.post(c.path, stream)
			if (a.err != nil) != c.broken {
				t.Errorf("broken %t (%v), want %t", a.err != nil, a.err, c.broken)
			}
			if !c.broken && string(a.body) != c.events {
				t.Errorf("body %q, want %q", a.body, c.events)
			}
			// What was cut off may lose its last piece, but nothing is added.
			if !strings.HasPrefix(c.events+"data: [DONE]\n\n", string(a.body)) {
				t.Errorf("body %q is no part of %q", a.body, c.events)
			}
			r.wantOutcome(c.outcome, http.StatusOK)
		})
	}
}

const messageStart = "event: message_start\ndata: {\"type\":\"message_start\"}\n\n"

// withEndpoints makes a pool forward the endpoints of Anthropic and Ollama.
func withEndpoints(edit func(*fixture)) func(*fixture) {
	return func(p *fixture) {
		edit(p)
		p.pool.Endpoints = append(p.pool.Endpoints, gatedPosts("/v1/api/chat", "/v1/api/generate")...)
	}
}

// The last object of an answer of Ollama has done set; its line need not end.
func TestEndsOfNDJSON(t *testing.T) {
	const word, last = `{"message":{"content":"x"},"done":false}` + "\n", `{"done":true,"done_reason":"stop"}`
	for name, c := range map[string]struct {
		body    string
		outcome admission.Outcome
		broken  bool
	}{
		"whole":                 {word + word + last + "\n", admission.Completed, false},
		"no last line end":      {word + last, admission.Completed, false},
		"one object":            {last, admission.Completed, false},
		"no end":                {word + word, admission.Truncated, true},
		"cut in the last line":  {word + last[:15], admission.Truncated, true},
		"cut by one byte":       {word + last[:len(last)-1], admission.Truncated, true},
		"done as a text":        {word + `{"done":"true"}` + "\n", admission.Truncated, true},
		"done in the answer":    {`{"response":"{\"done\":true}","done":false}` + "\n", admission.Truncated, true},
		"an error":              {word + `{"error":"out of memory"}` + "\n", admission.UpstreamError, false},
		"an unset error":        {`{"error":"","done":false}` + "\n", admission.Truncated, true},
		"it goes on and is cut": {`{"error":"slow"}` + "\n" + word, admission.Truncated, true},
	} {
		for _, contentType := range []string{"application/x-ndjson", "application/json", "", "text/plain; charset=utf-8"} {
			for _, path := range []string{"/v1/api/chat", "/v1/api/generate"} {
				t.Run(name+", "+contentType+", "+path, func(t *testing.T) {
					t.Parallel()
					r := newTestProxy(t, withEndpoints(withRawUpstream(untypedHead(contentType)+c.body, nil)))
					a := r.post(path, stream)
					if (a.err != nil) != c.broken {
						t.Errorf("broken %t (%v), want %t", a.err != nil, a.err, c.broken)
					}
					r.wantOutcome(c.outcome, http.StatusOK)
				})
			}
		}
	}
}

// untypedHead is the head of an answer that ends with its connection.
func untypedHead(contentType string) string {
	head := "HTTP/1.1 200 OK\r\nConnection: close\r\n"
	if contentType != "" {
		head += "Content-Type: " + contentType + "\r\n"
	}
	return head + "\r\n"
}

// An endpoint that answers in JSON, or in SSE on request, does so without saying it.
func TestAnswersWithoutAUsefulContentType(t *testing.T) {
	for name, c := range map[string]struct {
		path, request, body string
		outcome             admission.Outcome
		broken              bool
	}{
		"whole JSON":        {chatPath, chat, fullJSON, admission.Completed, false},
		"half a JSON":       {chatPath, chat, " \n" + fullJSON[:30], admission.Truncated, true},
		"half an embedding": {"/v1/embeddings", chat, `{"data":[{"embedding":[0.1,`, admission.Truncated, true},
		"half a message":    {"/v1/messages", chat, `{"type":"message","content":[`, admission.Truncated, true},
		"half a response":   {"/v1/responses", chat, `{"id":"x"`, admission.Truncated, true},
		"nothing":           {chatPath, chat, "", admission.Truncated, true},
		"plain text":        {chatPath, chat, "hello", admission.Completed, false},
		"a whole stream":    {chatPath, stream, events(delta, stop, done), admission.Completed, false},
		"half a stream":     {chatPath, stream, events(delta), admission.Truncated, true},
		"half an error":     {chatPath, stream, `{"error":{`, admission.Truncated, true},
		"an unknown form":   {"/v1/extra", chat, `{"half":`, admission.Completed, false},
	} {
		for _, contentType := range []string{"", "text/plain; charset=utf-8", "application/octet-stream"} {
			t.Run(name+", "+contentType, func(t *testing.T) {
				t.Parallel()
				r := newTestProxy(t, func(p *fixture) {
					withEndpoints(withRawUpstream(untypedHead(contentType)+c.body, nil))(p)
					p.pool.Endpoints = append(p.pool.Endpoints, gatedPosts("/v1/extra")...)
				})
				a := r.post(c.path, c.request)
				if (a.err != nil) != c.broken {
					t.Errorf("broken %t (%v), want %t", a.err != nil, a.err, c.broken)
				}
				r.wantOutcome(c.outcome, http.StatusOK)
			})
		}
	}
}

// A client that leaves once it has read the end has a complete answer, though the
// upstream has not closed yet; one that leaves before has not.
func TestClientClosesAfterTheEnd(t *testing.T) {
	const ndjson = "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n"
	const chunkedJSON = jsonHead + "Transfer-Encoding: chunked\r\n\r\n"
	gzipHead := strings.Replace(chunkedHead, "\r\n", "\r\nContent-Encoding: gzip\r\n", 1)
	for name, c := range map[string]struct {
		path, head, body string
		outcome          admission.Outcome
	}{
		"done":                 {chatPath, chunkedHead, events(delta, stop, done), admission.Completed},
		"a finish":             {chatPath, chunkedHead, events(delta, stop), admission.Completed},
		"an error":             {chatPath, chunkedHead, events(delta, errorChunk), admission.UpstreamError},
		"deltas only":          {chatPath, chunkedHead, events(delta, delta), admission.ClientGone},
		"completions":          {"/v1/completions", chunkedHead, events(delta, stop, done), admission.Completed},
		"a response":           {"/v1/responses", chunkedHead, events(`{"type":"response.completed"}`), admission.Completed},
		"half a response":      {"/v1/responses", chunkedHead, events(`{"type":"response.created"}`), admission.ClientGone},
		"a message":            {"/v1/messages", chunkedHead, messageStart + events(`{"type":"message_stop"}`), admission.Completed},
		"half a message":       {"/v1/messages", chunkedHead, messageStart, admission.ClientGone},
		"Ollama":               {"/v1/api/chat", ndjson, `{"done":false}` + "\n" + `{"done":true}` + "\n", admission.Completed},
		"half of Ollama":       {"/v1/api/chat", ndjson, `{"done":false}` + "\n", admission.ClientGone},
		"JSON":                 {chatPath, chunkedJSON, fullJSON, admission.Completed},
		"half a JSON":          {chatPath, chunkedJSON, fullJSON[:30], admission.ClientGone},
		"a compressed stream":  {chatPath, gzipHead, encodeBody("gzip", events(delta, stop, done)), admission.Completed},
		"half of a compressed": {chatPath, gzipHead, encodeBody("gzip", events(delta)), admission.ClientGone},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTestProxy(t, withEndpoints(withRawUpstream(c.head+chunks(c.body), holdOpen)))
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			res, err := r.client.Do(r.request(ctx, c.path, stream))
			if err != nil {
				t.Fatal(err)
			}
			defer res.Body.Close()
			if _, err := io.ReadFull(res.Body, make([]byte, len(c.body))); err != nil {
				t.Fatal(err)
			}
			leave()
			o := r.wantOutcome(c.outcome, http.StatusOK)
			if counts, bad := classifyForSLO(&o, time.Minute); c.outcome == admission.Completed && (!counts || bad) {
				t.Errorf("counts for the SLO %t, bad %t", counts, bad)
			}
		})
	}
}

func TestEndsOfJSON(t *testing.T) {
	half := fullJSON[:30]
	length := func(n int) string { return jsonHead + "Content-Length: " + strconv.Itoa(n) + "\r\n\r\n" }
	const unframed, chunked = jsonHead + "Connection: close\r\n\r\n", jsonHead + "Transfer-Encoding: chunked\r\n\r\n"
	cases := map[string]struct {
		wire    string
		outcome admission.Outcome
		broken  bool
	}{
		"whole":                          {length(len(fullJSON)) + fullJSON, admission.Completed, false},
		"whole, chunked":                 {chunked + chunks(fullJSON) + lastChunk, admission.Completed, false},
		"whole, to the end":              {unframed + fullJSON, admission.Completed, false},
		"white space around it":          {length(len(fullJSON)+3) + "\n" + fullJSON + "\r\n", admission.Completed, false},
		"a list":                         {length(len("[[],{}]")) + "[[],{}]", admission.Completed, false},
		"a word":                         {length(len("null")) + "null", admission.Completed, false},
		"nothing, and said so":           {length(0), admission.Completed, false},
		"half of what was announced":     {length(len(fullJSON)) + half, admission.Truncated, true},
		"half, announced as the whole":   {length(len(half)) + half, admission.Truncated, true},
		"half, chunked":                  {chunked + chunks(half) + lastChunk, admission.Truncated, true},
		"half, to the end":               {unframed + half, admission.Truncated, true},
		"open string":                    {length(len(`{"a":"}`)) + `{"a":"}`, admission.Truncated, true},
		"open escape":                    {length(len(`{"a":"\"}`)) + `{"a":"\"}`, admission.Truncated, true},
		"nothing, chunked":               {chunked + lastChunk, admission.Truncated, true},
		"an error that is cut is passed": {strings.Replace(unframed, "200 OK", "400 Bad Request", 1) + half, admission.Completed, false},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTestProxy(t, withRawUpstream(c.wire, nil))
			a := r.chat()
			if (a.err != nil) != c.broken {
				t.Errorf("broken %t (%v), want %t: %q", a.err != nil, a.err, c.broken, a.body)
			}
			if o := r.task(1); o.Outcome != c.outcome {
				t.Errorf("outcome %s, want %s", o.Outcome, c.outcome)
			}
		})
	}
}

// A compressed stream is looked into, wherever it is cut, and never changed.
func TestCompressedAnswersThatAreCutOff(t *testing.T) {
	for _, encoding := range []string{"gzip", "br", "zstd"} {
		for name, c := range map[string]struct {
			body, fault string
			outcome     admission.Outcome
		}{
			"stream, cut":      {stream, "truncate=3", admission.Truncated},
			"stream, reset":    {stream, "reset_after=3", admission.Truncated},
			"stream, error":    {stream, "error_event=3", admission.UpstreamError},
			"stream, framing":  {stream, "malformed=3", admission.Truncated},
			"stream, silence":  {stream, "hang_after=3", admission.UpstreamTimeout},
			"body, cut":        {chat, "truncate=half", admission.Truncated},
			"body, length":     {chat, "truncate=half;length=wrong", admission.Truncated},
			"body, whole":      {chat, "", admission.Completed},
			"stream, whole":    {stream, "", admission.Completed},
			"stream, dripping": {stream, "drip=1ms", admission.Completed},
		} {
			t.Run(encoding+", "+name, func(t *testing.T) {
				withSynctest(t, nil, func(r *testProxy) {
					a := r.post(chatPath, c.body, "Stub-Encoding", encoding, "Stub-Fault", c.fault)
					if o := r.task(1); o.Outcome != c.outcome {
						t.Errorf("outcome %s (%v), want %s", o.Outcome, o.Err, c.outcome)
					}
					whole := c.outcome == admission.Completed || c.outcome == admission.UpstreamError
					if (a.err == nil) != whole {
						t.Errorf("whole %t (%v), want %t", a.err == nil, a.err, whole)
					}
				})
			})
		}
	}
}

// An encoding that nobody here knows ends where it ends.
func TestUnknownEncodingIsPassedOn(t *testing.T) {
	wire := strings.Replace(jsonHead, "\r\n", "\r\nContent-Encoding: secret\r\n", 1) + "Content-Length: 3\r\n\r\nabc"
	r := newTestProxy(t, withRawUpstream(wire, nil))
	a := r.chat()
	r.wantCompleted(a)
	if string(a.body) != "abc" || a.header.Get("Content-Encoding") != "secret" {
		t.Errorf("%q %v", a.body, a.header)
	}
	r.wantOutcome(admission.Completed, http.StatusOK)
}

// After its terminal event a stream is over, though the upstream stays.
func TestUpstreamStaysAfterTheEnd(t *testing.T) {
	chatEnd, responseEnd := events(delta, stop, done), events(`{"type":"response.completed"}`)
	for name, c := range map[string]struct {
		path, events string
		outcome      admission.Outcome
	}{
		"chat":            {chatPath, chatEnd, admission.Completed},
		"completions":     {"/v1/completions", chatEnd, admission.Completed},
		"responses":       {"/v1/responses", responseEnd, admission.Completed},
		"comments follow": {chatPath, chatEnd + ": bye\n\n", admission.Completed},
	} {
		t.Run(name, func(t *testing.T) {
			withSynctest(t, withRawUpstream(chunkedHead+chunks(c.events), holdOpen), func(r *testProxy) {
				began := time.Now()
				a := r.post(c.path, stream)
				r.wantCompleted(a)
				if string(a.body) != c.events {
					t.Errorf("body %q, want %q", a.body, c.events)
				}
				if d := time.Since(began); d > 2*trailingIdle {
					t.Errorf("ended after %s", d)
				}
				r.wantOutcome(c.outcome, http.StatusOK)
			})
		})
	}
}

func TestUpstreamStaysAfterACompressedEnd(t *testing.T) {
	for _, encoding := range []string{"gzip", "br", "zstd"} {
		t.Run(encoding, func(t *testing.T) {
			packed := directAnswer(t, stream, "Stub-Encoding", encoding)
			head := strings.Replace(chunkedHead, "\r\n", "\r\nContent-Encoding: "+encoding+"\r\n", 1)
			withSynctest(t, withRawUpstream(head+chunks(packed), holdOpen), func(r *testProxy) {
				a := r.post(chatPath, stream)
				r.wantCompleted(a)
				if string(a.body) != packed {
					t.Errorf("%d bytes, want %d", len(a.body), len(packed))
				}
				r.wantOutcome(admission.Completed, http.StatusOK)
			})
		})
	}
}

// After an error the stream may go on. If it does not, it is aborted in the end.
func TestUpstreamStaysAfterAnError(t *testing.T) {
	withSynctest(t, withRawUpstream(chunkedHead+chunks(events(delta, errorChunk)), holdOpen), func(r *testProxy) {
		if a := r.post(chatPath, stream); a.err == nil {
			t.Error("ended cleanly")
		}
		r.wantOutcome(admission.UpstreamError, http.StatusOK)
	})
}

// Errors that are none, and pauses after them, cut no stream.
func TestUnsetErrorsCutNothing(t *testing.T) {
	const word = `{"error":"","choices":[{"index":0,"delta":{"content":"x"},"finish_reason":""}]}`
	slow := func(_ context.Context, c net.Conn) {
		for _, e := range []string{word, errorChunk, word, word, stop, done} {
			time.Sleep(30 * time.Second)
			_, _ = fmt.Fprint(c, chunks(events(e)))
		}
		_, _ = fmt.Fprint(c, lastChunk)
	}
	withSynctest(t, withRawUpstream(chunkedHead+chunks(events(word)), slow), func(r *testProxy) {
		a := r.post(chatPath, stream)
		r.wantCompleted(a)
		if want := events(word, word, errorChunk, word, word, stop, done); string(a.body) != want {
			t.Errorf("body %q, want %q", a.body, want)
		}
		r.wantOutcome(admission.Completed, http.StatusOK)
	})
}

// An upstream that keeps sending after the end does not keep its permit. What it sends is
// cut, so the answer is aborted, though it was complete.
func TestUpstreamKeepsSendingAfterEnd(t *testing.T) {
	chatter := func(_ context.Context, c net.Conn) {
		for {
			if _, err := fmt.Fprint(c, chunks(": ping\n\n")); err != nil {
				return
			}
			time.Sleep(time.Second)
		}
	}
	withSynctest(t, withRawUpstream(chunkedHead+chunks(events(delta, stop, done)), chatter), func(r *testProxy) {
		began := time.Now()
		a := r.post(chatPath, stream)
		if a.err == nil {
			t.Error("ended cleanly")
		}
		if d := time.Since(began); d > trailingMax+time.Second {
			t.Errorf("ended after %s", d)
		}
		r.wantOutcome(admission.Completed, http.StatusOK)
	})
}

// directAnswer returns what the stub answers without anything in between.
func directAnswer(t *testing.T, body string, header ...string) string {
	t.Helper()
	stub := must(modelstub.New(modelstub.Config{}))
	req := must(http.NewRequest(http.MethodPost, chatPath, strings.NewReader(body)))
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	w := newBufferWriter()
	stub.ServeHTTP(w, req)
	return w.body.String()
}

// Comments of one line, as every known client takes them for nothing.
const keepAliveComment = ": waiting\n"

func withKeepAlive(p *fixture) {
	withOneWorker(p)
	p.pool.StreamKeepAlive = 10 * time.Second
	p.pool.IdleTimeout = 5 * time.Minute
}

func TestWaitingStreamIsKeptAlive(t *testing.T) {
	want := directAnswer(t, stream)
	withSynctest(t, withKeepAlive, func(r *testProxy) {
		leave := r.occupy(1)
		waiting := r.queueCalls(1, stream)[0]
		time.Sleep(35 * time.Second)
		leave()
		a := waiting.wait()
		r.wantCompleted(a)
		if string(a.body) != strings.Repeat(keepAliveComment, 3)+want {
			t.Errorf("%q", a.body)
		}
		for name, value := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"} {
			if a.header.Get(name) != value {
				t.Errorf("%s: %q", name, a.header.Get(name))
			}
		}
		if o := r.task(2); o.Outcome != admission.Completed || o.Status != 200 || o.TaskID != a.header.Get("Headgate-Task-Id") {
			t.Errorf("%+v", o)
		}
	})
}

// Only streams that wait get comments, and only after the time for one.
func TestKeepAliveInterval(t *testing.T) {
	for name, body := range map[string]string{"a stream": stream, "JSON": chat, "stream null": strings.Replace(stream, "true", "null", 1)} {
		t.Run(name, func(t *testing.T) {
			wait := 9 * time.Second
			if body != stream {
				wait = 50 * time.Second
			}
			want := directAnswer(t, body)
			withSynctest(t, withKeepAlive, func(r *testProxy) {
				leave := r.occupy(1)
				waiting := r.queueCalls(1, body)[0]
				time.Sleep(wait)
				leave()
				if a := waiting.wait(); string(a.body) != want || a.err != nil {
					t.Errorf("%d (%v) %q", a.status, a.err, a.body)
				}
			})
		})
	}
}

// A refusal that comes before the first comment still is one.
func TestRefusalBeforeKeepAlive(t *testing.T) {
	withSynctest(t, withKeepAlive, func(r *testProxy) {
		leave := r.occupy(1)
		r.wantRefused(r.queueCalls(1, stream, deadlineHeader, "5")[0].wait(), admission.ReasonDeadlinePassed)
		queued := r.queueCalls(3, stream)
		r.wantRefused(r.post(chatPath, stream), admission.ReasonQueueDepth)
		leave()
		for _, c := range queued {
			r.wantCompleted(c.wait())
		}
	})
}

// After a comment the status has gone out: what goes wrong is told in the stream.
func TestErrorAfterKeepAlive(t *testing.T) {
	const json = `{"model":"m","messages":[{"role":"user","content":"hello"}],"stream":true}`
	cases := map[string]struct {
		header  []string
		code    string // of the error event; of an upstream's own error, null
		message string
		outcome admission.Outcome
	}{
		"the upstream's 500":     {[]string{"Stub-Fault", "status=500"}, "", "", admission.UpstreamError},
		"the upstream's 429":     {[]string{"Stub-Fault", "status=429"}, "", "", admission.UpstreamRefused},
		"the upstream's 404":     {[]string{"Stub-Fault", "status=404"}, "", "", admission.Completed},
		"the upstream is reset":  {[]string{"Stub-Fault", "reset"}, "upstream_unreachable", "", admission.UpstreamError},
		"the deadline passes":    {[]string{deadlineHeader, "25"}, "deadline_passed", "Retry in", admission.DeadlinePassed},
		"the upstream is silent": {[]string{"Stub-Fault", "hang"}, "upstream_timeout", "", admission.UpstreamTimeout},
		"compressed, unasked":    {[]string{"Stub-Encoding", "gzip"}, "upstream_error", "", admission.UpstreamError},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			withSynctest(t, withKeepAlive, func(r *testProxy) {
				leave := r.occupy(1)
				waiting := r.queueCalls(1, json, c.header...)[0]
				time.Sleep(20*time.Second + time.Millisecond)
				if c.code != "deadline_passed" {
					leave()
				}
				a := waiting.wait()
				r.wantCompleted(a)
				rest, ok := strings.CutPrefix(string(a.body), strings.Repeat(keepAliveComment, 2))
				for more := true; more; { // until the upstream has answered
					rest, more = strings.CutPrefix(rest, keepAliveComment)
				}
				rest, ok2 := strings.CutPrefix(rest, "data: ")
				rest, ok3 := strings.CutSuffix(rest, "\n\n")
				if !ok || !ok2 || !ok3 || strings.Contains(rest, "\n") {
					t.Fatalf("%q", a.body)
				}
				if c.code != "" {
					if e := r.wantErrorBody([]byte(rest), c.code); !strings.Contains(e.Message, c.message) {
						t.Errorf("%+v", e)
					}
				} else if !strings.HasPrefix(rest, `{"error":{`) {
					t.Errorf("%q", rest)
				}
				leave()
				r.wantIdle()
				if n := r.recorder.outcomes(); n[c.outcome] != 1 {
					t.Errorf("outcomes %v, want one %s", n, c.outcome)
				}
			})
		})
	}
}

// What is no stream cannot be told in one but as an error.
func TestNonStreamAnswerAfterKeepAlive(t *testing.T) {
	for name, c := range map[string]struct{ status, body, want string }{
		"JSON":            {"200 OK", "{}", `"code":"upstream_error"`},
		"an error object": {"418 Odd", "{\"error\": {\n\"message\": \"short and stout\"}, \"x\":1}", `{"error":{"message":"short and stout"},"x":1}`},
		"an error text":   {"503 Odd", "{\"error\":\"data: evil\\n\\n data\"}", `answered with status 503`},
		"markup":          {"502 Odd", "<html>", `answered with status 502`},
		"nothing":         {"204 Odd", "", `answered with status 204`},
	} {
		t.Run(name, func(t *testing.T) {
			wire := "HTTP/1.1 " + c.status + "\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + c.body
			first := make(chan struct{})
			edit := func(p *fixture) {
				withKeepAlive(p)
				hits := 0
				p.upstream = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if hits++; hits == 1 {
						<-first
						return
					}
					if r.Header.Get("Accept-Encoding") != "" {
						t.Error("an encoding was asked for that nobody could name")
					}
					rawUpstream{wire, nil}.ServeHTTP(w, r)
				})
			}
			withSynctest(t, edit, func(r *testProxy) {
				first = make(chan struct{})
				running := r.start(chatPath, chat)
				r.eventually("one runs", func() bool { return r.heldResources().inFlight == 1 })
				waiting := r.queueCalls(1, stream, "Accept-Encoding", "gzip")[0]
				time.Sleep(15 * time.Second)
				close(first)
				running.wait()
				a := waiting.wait()
				r.wantCompleted(a)
				if !strings.Contains(string(a.body), c.want) || strings.Count(string(a.body), "data:") != 1 {
					t.Errorf("%q, want %q", a.body, c.want)
				}
			})
		})
	}
}

// A stream that breaks after a comment is broken off, as any other is.
func TestTruncatedStreamAfterKeepAlive(t *testing.T) {
	for _, fault := range []string{"truncate=2", "reset_after=2", "malformed=2", "hang_after=2"} {
		t.Run(fault, func(t *testing.T) {
			withSynctest(t, withKeepAlive, func(r *testProxy) {
				leave := r.occupy(1)
				waiting := r.queueCalls(1, stream, "Stub-Fault", fault)[0]
				time.Sleep(15 * time.Second)
				leave()
				if a := waiting.wait(); a.err == nil || strings.Contains(string(a.body), "error") {
					t.Errorf("a whole answer: %q", a.body)
				}
			})
		})
	}
}

func TestClientGoneAfterKeepAlive(t *testing.T) {
	withSynctest(t, withKeepAlive, func(r *testProxy) {
		leave := r.occupy(1)
		waiting := r.queueCalls(1, stream)[0]
		time.Sleep(15 * time.Second)
		waiting.leave()
		<-waiting.answer
		r.eventually("nobody waits", func() bool { return r.heldResources().depth == 0 })
		leave()
		if n := r.stub.Stats().Calls; n != 1 {
			t.Errorf("%d calls went upstream", n)
		}
	})
}

// An HTTP/1.0 client takes the end of the connection for the end of the answer:
// what is cut short must be reset, and what is whole must not.
func TestAnswersToHTTP10(t *testing.T) {
	const get, post = "GET " + modelsPath, "POST " + chatPath
	unframed := jsonHead + "Connection: close\r\n\r\n"
	for name, c := range map[string]struct {
		ask, body, wire string
		outcome         admission.Outcome
		broken          bool
	}{
		"a whole stream":         {post, stream, chunkedHead + chunks(events(delta, stop, done)) + lastChunk, admission.Completed, false},
		"a stream without end":   {post, stream, chunkedHead + chunks(events(delta)) + lastChunk, admission.Truncated, true},
		"a stream that hangs up": {post, stream, chunkedHead + chunks(events(delta)), admission.Truncated, true},
		"framing that is none":   {post, stream, chunkedHead + chunks(events(delta)) + "zz\r\n", admission.Truncated, true},
		"whole JSON":             {post, chat, unframed + fullJSON, admission.Completed, false},
		"half a JSON":            {post, chat, unframed + fullJSON[:30], admission.Truncated, true},
		"a list of models":       {get, "", chunkedHead + chunks(fullJSON) + lastChunk, 0, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTestProxy(t, withRawUpstream(c.wire, nil))
			conn := r.dialRaw()
			head := c.ask + " HTTP/1.0\r\nHost: gate.test\r\nContent-Type: application/json\r\n" + lengthOf(c.body) + "\r\n\r\n"
			if _, err := io.WriteString(conn, head+c.body); err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(conn)
			if (err != nil) != c.broken {
				t.Errorf("broken %t (%v), want %t: %q", err != nil, err, c.broken, got)
			}
			if !c.broken && !strings.HasPrefix(string(got), "HTTP/1.0 200 OK\r\n") {
				t.Errorf("answer %q", got)
			}
			if c.ask == post {
				r.wantOutcome(c.outcome, http.StatusOK)
			}
		})
	}
}
