package proxy

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
)

// rawUpstream is an upstream that writes given bytes on the wire, whatever they are
// worth, and then does something to the connection.
type rawUpstream struct {
	wire string
	end  func(context.Context, net.Conn)
}

func (s rawUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(err)
	}
	defer conn.Close()
	_, _ = buffered.WriteString(s.wire)
	_ = buffered.Flush() // the proxy may have hung up already
	if s.end != nil {
		s.end(r.Context(), conn)
	}
}

// resetOnEnd breaks a connection so that the other side sees a reset.
func resetOnEnd(_ context.Context, c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// holdOpen keeps a connection open until the other side hangs up.
func holdOpen(_ context.Context, c net.Conn) { _, _ = io.Copy(io.Discard, c) }

func withRawUpstream(wire string, end func(context.Context, net.Conn)) func(*fixture) {
	return func(p *fixture) { p.upstream = rawUpstream{wire, end} }
}

// Heads of answers.
const (
	chunkedHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
	jsonHead    = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
	lastChunk   = "0\r\n\r\n"
)

// chunks frames each piece as one chunk, without the last one.
func chunks(pieces ...string) string {
	var b strings.Builder
	for _, p := range pieces {
		fmt.Fprintf(&b, "%x\r\n%s\r\n", len(p), p)
	}
	return b.String()
}

// events makes each piece an event with data.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		fmt.Fprintf(&b, "data: %s\n\n", d)
	}
	return b.String()
}

// Pieces of streams.
const (
	delta          = `{"choices":[{"index":0,"delta":{"content":"x"},"finish_reason":null}]}`
	stop           = `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	delta1         = `{"choices":[{"index":1,"delta":{"content":"x"},"finish_reason":null}]}`
	stop1          = `{"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}`
	usage          = `{"choices":[],"usage":{"total_tokens":4}}`
	errorChunk     = `{"error":{"message":"out of memory","type":"server_error","param":null,"code":null}}`
	done           = "[DONE]"
	fullJSON       = `{"choices":[{"message":{"content":"a \"}\" in a string"}}]}`
	fullJSONLength = "Content-Length: 56\r\n\r\n"
)
