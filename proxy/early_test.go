package proxy

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// earlyAnswers are requests that are answered before their body is looked at.
var earlyAnswers = map[string]struct {
	method, path string
	header       string
	status       int
}{
	"no such URL":        {"POST", "/v1/nothing", "A: b", http.StatusNotFound},
	"wrong method":       {"PUT", chatPath, "A: b", http.StatusMethodNotAllowed},
	"models by POST":     {"POST", modelsPath, "A: b", http.StatusMethodNotAllowed},
	"no key":             {"POST", chatPath, "A: b", http.StatusUnauthorized},
	"models without key": {"GET", modelsPath, "A: b", http.StatusUnauthorized},
	"wrong priority":     {"POST", chatPath, "Authorization: Bearer k\r\nHeadgate-Priority: x", http.StatusBadRequest},
	"wrong deadline":     {"POST", chatPath, "Authorization: Bearer k\r\nHeadgate-Deadline: x", http.StatusBadRequest},
	"wrong type":         {"POST", chatPath, "Authorization: Bearer k\r\nContent-Type: text/plain", http.StatusUnsupportedMediaType},
	"too large":          {"POST", chatPath, "Authorization: Bearer k\r\nContent-Type: application/json", http.StatusRequestEntityTooLarge},
}

// A client that sends all of a large body before it reads must get to see the
// answer, not a reset.
func TestEarlyAnswerToALargeBody(t *testing.T) {
	const size = 16 << 20
	for name, c := range earlyAnswers {
		for framing, wire := range map[string]string{
			"announced": "Content-Length: 16777216\r\n\r\n" + strings.Repeat(" ", size),
			"chunked":   "Transfer-Encoding: chunked\r\n\r\n" + strings.Repeat(chunks(strings.Repeat(" ", 64<<10)), size/(64<<10)) + lastChunk,
		} {
			t.Run(name+", "+framing, func(t *testing.T) {
				t.Parallel()
				r := newTestProxy(t, withClient("k"))
				conn := r.dialRaw()
				r.write(conn, c.method+" "+c.path+" HTTP/1.1\r\nHost: gate.test\r\n"+c.header+"\r\n"+wire)
				a := r.readResponse(bufio.NewReader(conn))
				if a.status != c.status || a.err != nil {
					t.Errorf("status %d (%v), want %d", a.status, a.err, c.status)
				}
				if !strings.Contains(string(a.body), `"error":{`) {
					t.Errorf("body %s", a.body)
				}
			})
		}
	}
}

// Nor may a client that never ends its body hold the connection for ever.
func TestEarlyAnswerToABodyThatStopsArriving(t *testing.T) {
	for name, c := range earlyAnswers {
		for framing, wire := range map[string]string{
			"announced": "Content-Length: 100000\r\n\r\n ",
			"large":     "Content-Length: 10000000\r\n\r\n ",
			"chunked":   "Transfer-Encoding: chunked\r\n\r\n" + chunks(" "),
			"expected":  "Content-Length: 100000\r\nExpect: 100-continue\r\n\r\n",
		} {
			if c.status == http.StatusRequestEntityTooLarge && framing != "large" {
				continue // is not too large so far
			}
			t.Run(name+", "+framing, func(t *testing.T) {
				withSynctest(t, withClient("k"), func(r *testProxy) {
					began := time.Now()
					conn := r.dialRaw()
					r.write(conn, c.method+" "+c.path+" HTTP/1.1\r\nHost: gate.test\r\n"+c.header+"\r\n"+wire)
					br := bufio.NewReader(conn)
					if a := r.readResponse(br); a.status != c.status || a.err != nil {
						t.Errorf("status %d (%v), want %d", a.status, a.err, c.status)
					}
					if _, err := br.ReadByte(); err != io.EOF {
						t.Errorf("then %v, want the end of the connection", err)
					}
					if d := time.Since(began); d > 45*time.Second {
						t.Errorf("held for %s", d)
					}
				})
			})
		}
	}
}
