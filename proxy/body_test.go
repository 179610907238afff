package proxy

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/zstd"

	"headgate/proxy/admission"
)

// pack compresses a body.
func pack(encoding, body string) string {
	var b bytes.Buffer
	var w io.WriteCloser
	switch encoding {
	case "gzip", "x-gzip", "GZIP":
		w = gzip.NewWriter(&b)
	case "deflate":
		w = zlib.NewWriter(&b)
	case "br":
		w = brotli.NewWriter(&b)
	case "zstd":
		w = must(zstd.NewWriter(&b, zstd.WithEncoderConcurrency(1)))
	default:
		return body
	}
	must(io.WriteString(w, body))
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.String()
}

// A compressed request is looked into, and forwarded as it was sent.
func TestCompressedRequests(t *testing.T) {
	got := make(chan string, 1)
	r := newRig(t, func(p *plan) {
		p.pool.Models = []string{"m"}
		p.upstream = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			got <- r.Header.Get("Content-Encoding") + " " + string(body)
		})
	})
	for _, encoding := range []string{"gzip", "x-gzip", "GZIP", "deflate", "br", "zstd", "identity", "Identity"} {
		body := pack(encoding, chat)
		r.completed(r.post(chatPath, body, "Content-Encoding", encoding))
		if seen := <-got; seen != encoding+" "+body {
			t.Errorf("%s: upstream saw %.60q", encoding, seen)
		}
		r.fails(r.post(chatPath, pack(encoding, `{"model":"x"}`), "Content-Encoding", encoding), http.StatusNotFound, "model_not_found")
	}
}

func TestCompressedRequestsThatCannotBeRead(t *testing.T) {
	const limit = 1 << 20
	bomb := strings.Repeat(" ", 4<<20) + chat
	cases := map[string]struct {
		encoding, body string
		status         int
		code           string
	}{
		"not gzip":                {"gzip", chat, 400, "invalid_body"},
		"not zstd":                {"zstd", chat, 400, "invalid_body"},
		"not brotli":              {"br", "\xff\xff\xff" + chat, 400, "invalid_body"},
		"not zlib":                {"deflate", chat, 400, "invalid_body"},
		"half a gzip":             {"gzip", pack("gzip", chat)[:30], 400, "invalid_body"},
		"half a zstd":             {"zstd", pack("zstd", chat)[:30], 400, "invalid_body"},
		"nothing":                 {"gzip", "", 400, "invalid_body"},
		"unknown":                 {"snappy", chat, 415, "unsupported_content_encoding"},
		"two encodings":           {"gzip, gzip", pack("gzip", pack("gzip", chat)), 415, "unsupported_content_encoding"},
		"JSON that is none":       {"gzip", pack("gzip", "{"), 400, "invalid_json"},
		"gzip bomb":               {"gzip", pack("gzip", bomb), 413, "request_too_large"},
		"zlib bomb":               {"deflate", pack("deflate", bomb), 413, "request_too_large"},
		"brotli bomb":             {"br", pack("br", bomb), 413, "request_too_large"},
		"zstd bomb":               {"zstd", pack("zstd", bomb), 413, "request_too_large"},
		"a zstd window of 1 GiB":  {"zstd", "\x28\xb5\x2f\xfd\x00\xa0\x01\x00\x00", 400, "invalid_body"},
		"one byte over the limit": {"gzip", pack("gzip", strings.Repeat(" ", limit+1-len(chat))+chat), 413, "request_too_large"},
		"exactly the limit":       {"gzip", pack("gzip", strings.Repeat(" ", limit-len(chat))+chat), 200, ""},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, func(p *plan) { p.pool.BodyLimit = limit })
			a := r.post(chatPath, c.body, "Content-Encoding", c.encoding)
			if c.status == 200 {
				r.completed(a)
				return
			}
			r.fails(a, c.status, c.code)
			r.want(admission.Invalid, c.status)
			if n := r.stub.Stats().Calls; n != 0 {
				t.Errorf("%d calls went upstream", n)
			}
		})
	}
}

func TestBodyLimit(t *testing.T) {
	const limit = 40_000
	fill := func(n int) string { return chat + strings.Repeat(" ", n-len(chat)) }
	for name, c := range map[string]struct {
		size   int
		status int
	}{
		"a usual one":   {32_769, 200},
		"exactly":       {limit, 200},
		"one byte more": {limit + 1, 413},
		"much more":     {10 * limit, 413},
	} {
		for framing, header := range map[string]string{"announced": "", "chunked": "chunked"} {
			t.Run(name+", "+framing, func(t *testing.T) {
				r := newRig(t, func(p *plan) { p.pool.BodyLimit = limit })
				req := r.request(context.Background(), chatPath, fill(c.size))
				if header != "" {
					req.ContentLength = -1
				}
				a := r.do(req)
				if c.status == 200 {
					r.completed(a)
					return
				}
				r.fails(a, c.status, "request_too_large")
				r.want(admission.Invalid, c.status)
			})
		}
	}
}

// The client that asks first is told before it sends.
func TestTooLargeIsToldBeforeTheBodyIsSent(t *testing.T) {
	r := newRig(t, func(p *plan) { p.pool.BodyLimit = 1000 })
	got := r.exchange(head(chatPath, "Content-Length: 1001", "Expect: 100-continue"))
	if !strings.HasPrefix(got, "HTTP/1.1 413 ") || strings.Contains(got, "100 Continue") {
		t.Errorf("%q", got)
	}
}

// Memory is taken as bytes arrive, refused when it is used up, and given back.
func TestMemoryForBodies(t *testing.T) {
	const limit = 256 << 10
	body := chat + strings.Repeat(" ", 90<<10)
	r := newRig(t, func(p *plan) {
		oneWorker(p)
		p.gate.Policy = admission.None{}
		p.pool.BodyLimit, p.pool.BufferLimit = limit, limit
	})
	leave := r.occupy(1)
	waiting := r.queue(1, body)
	var group sync.WaitGroup
	for range 5 {
		group.Go(func() { r.refused(r.post(chatPath, strings.Repeat(body, 2)), admission.ReasonMemory) })
	}
	group.Wait()
	r.refused(r.post(chatPath, pack("gzip", strings.Repeat(" ", limit-len(chat))+chat), "Content-Encoding", "gzip"), admission.ReasonMemory)
	leave()
	r.completed(waiting[0].wait())
	r.settle()
	r.completed(r.post(chatPath, chat+strings.Repeat(" ", limit/2)))
	if n := r.seen.outcomes(); n[admission.Refused] != 6 || n[admission.Completed] != 2 {
		t.Errorf("outcomes %v", n)
	}
	if n := r.sum("headgate_refusals_total", "reason", "memory"); n != 6 {
		t.Errorf("%v refusals for memory counted", n)
	}
	if !strings.Contains(r.logs.String(), "level=ERROR") {
		t.Error("an operator is not told")
	}
}

// What is only announced costs nothing much.
func TestAnnouncedBytesAreNotSetAside(t *testing.T) {
	r := newRig(t, func(p *plan) { p.pool.BufferLimit = 4 << 20 })
	for range 20 {
		conn := r.raw()
		r.write(conn, head(chatPath, "Content-Length: 4000000")+"{")
		defer conn.Close()
	}
	r.eventually("all have begun", func() bool { return r.held().buffered >= 20*4096 })
	if n := r.held().buffered; n > 20*largeBuffer {
		t.Errorf("%d bytes are set aside", n)
	}
	r.completed(r.chat())
}

func TestBudget(t *testing.T) {
	var shared, own budget
	shared.limit.Store(100)
	own.limit.Store(50)
	h := holding{shared: &shared}
	if !h.grow(40) || !h.assign(&own) || h.grow(70) || h.n != 40 {
		t.Errorf("holds %d", h.n)
	}
	other := holding{shared: &shared}
	if !other.grow(60) || other.assign(&own) {
		t.Error("more than the pool's own budget was given")
	}
	if shared.used.Load() != 100 || own.used.Load() != 40 {
		t.Errorf("used %d and %d", shared.used.Load(), own.used.Load())
	}
	for range 2 { // a second release gives nothing back
		h.release()
		other.release()
	}
	if shared.used.Load() != 0 || own.used.Load() != 0 {
		t.Errorf("used %d and %d after all was given back", shared.used.Load(), own.used.Load())
	}
}
