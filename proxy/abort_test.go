package proxy

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"headgate/proxy/admission"
)

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
		"a whole stream":           {post, stream, chunkedHead + chunks(events(delta, stop, done)) + lastChunk, admission.Completed, false},
		"a stream without end":     {post, stream, chunkedHead + chunks(events(delta)) + lastChunk, admission.Truncated, true},
		"a stream that hangs up":   {post, stream, chunkedHead + chunks(events(delta)), admission.Truncated, true},
		"framing that is none":     {post, stream, chunkedHead + chunks(events(delta)) + "zz\r\n", admission.Truncated, true},
		"whole JSON":               {post, chat, unframed + fullJSON, admission.Completed, false},
		"half a JSON":              {post, chat, unframed + fullJSON[:30], admission.Truncated, true},
		"a list of models":         {get, "", chunkedHead + chunks(fullJSON) + lastChunk, 0, false},
		"a list that is cut short": {get, "", chunkedHead + chunks(fullJSON), 0, true},
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
