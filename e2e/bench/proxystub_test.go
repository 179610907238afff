package bench

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

// answerHeader sets what the stub answers; every proxy passes it on.
const answerHeader = "Bench-Answer"

// What the stub can answer.
const (
	answerJSON   = "json"   // a small chat completion
	answerStream = "stream" // one of streamChunks chunks, with a pause before each
	answerHold   = "hold"   // nothing until the caller goes
	answerOpen   = "open"   // a stream that stops after its first chunk
)

const (
	streamChunks = 50
	streamPause  = time.Millisecond
)

const completion = `{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"m","choices":[{"index":0,` +
	`"message":{"role":"assistant","content":"Yes, since addition distributes over multiplication."},"finish_reason":"stop"}],` +
	`"usage":{"prompt_tokens":1000,"completion_tokens":9,"total_tokens":1009}}` + "\n"

// serveStub answers at once. It reads and writes the connection itself: what
// the stub costs is added to every side, and would hide what they differ in.
func serveStub() error {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	for {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		go serveConn(c)
	}
}

func serveConn(c net.Conn) {
	defer c.Close()
	r := bufio.NewReader(c)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		if _, err := io.Copy(io.Discard, req.Body); err != nil {
			return
		}
		for i, piece := range answers[req.Header.Get(answerHeader)] {
			if i > 0 {
				time.Sleep(streamPause) // or many chunks would come as one
			}
			if _, err := io.WriteString(c, piece); err != nil {
				return
			}
		}
	}
}

// answers are the pieces that the stub writes, by the name that asks for them.
var answers = map[string][]string{
	"":           {completeResponse},
	answerJSON:   {completeResponse},
	answerStream: streamResponse(),
	answerHold:   nil,
	answerOpen:   streamResponse()[:2],
}

var completeResponse = fmt.Sprintf("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(completion), completion)

func streamResponse() []string {
	pieces := []string{"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"}
	event := func(data string) {
		text := "data: " + data + "\n\n"
		pieces = append(pieces, fmt.Sprintf("%x\r\n%s\r\n", len(text), text))
	}
	const head = `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"m","choices":[{"index":0,"delta":`
	for range streamChunks - 2 {
		event(head + `{"content":" word"},"finish_reason":null}]}`)
	}
	event(head + `{},"finish_reason":"stop"}]}`)
	event("[DONE]")
	return append(pieces, "0\r\n\r\n")
}

// serveReverse is httputil.ReverseProxy with nothing around it but room for
// idle connections; with the default of two a host it would mostly dial.
func serveReverse(target string) error {
	to, err := url.Parse(strings.TrimSpace(target))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	fmt.Println(l.Addr())
	return http.Serve(l, &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 1024, DisableCompression: true},
		ErrorLog:  log.New(io.Discard, "", 0), // the client counts what fails
	})
}
