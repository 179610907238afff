package modelstub

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

// exchange sends one call over a new connection and returns every byte of the
// response.
func exchange(t *testing.T, s *testServer, body string, pairs ...string) (string, error) {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	var extra strings.Builder
	for i := 0; i+1 < len(pairs); i += 2 {
		fmt.Fprintf(&extra, "%s: %s\r\n", pairs[i], pairs[i+1])
	}
	fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: stub\r\nConnection: close\r\n%sContent-Length: %d\r\n\r\n%s", pathChat, extra.String(), len(body), body)
	b, err := io.ReadAll(conn)
	return string(b), err
}

func TestFramingOnTheWire(t *testing.T) {
	s := newTestServer(t, Config{})
	const end = "\r\n0\r\n\r\n"
	tests := []struct {
		name, body, fault string
		chunked, ends     bool // framing, and whether the last chunk comes
		reset             bool
	}{
		{"whole", helloRequest, "", false, false, false},
		{"streamed", streamBody, "", true, true, false},
		{"truncated body", helloRequest, "truncate=half", true, true, false},
		{"truncated body of wrong length", helloRequest, "truncate=half;length=wrong", false, false, false},
		{"truncated stream", streamBody, "truncate=2", true, true, false},
		{"broken framing", streamBody, "malformed=2", true, false, false},
		{"reset", streamBody, "reset_after=2", true, false, true},
		{"error event", streamBody, "error_event=2", true, true, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var pairs []string
			if tt.fault != "" {
				pairs = []string{HeaderFault, tt.fault}
			}
			raw, err := exchange(t, s, tt.body, pairs...)
			if errors.Is(err, syscall.ECONNRESET) != tt.reset {
				t.Errorf("error %v, want a reset: %v", err, tt.reset)
			}
			if got := strings.Contains(raw, "Transfer-Encoding: chunked\r\n"); got != tt.chunked {
				t.Errorf("chunked: %v, want %v", got, tt.chunked)
			}
			if got := strings.Contains(raw, "Content-Length: "); got == tt.chunked {
				t.Errorf("Content-Length: %v beside chunked: %v", got, tt.chunked)
			}
			if got := strings.HasSuffix(raw, end); got != tt.ends {
				t.Errorf("ends with the last chunk: %v, want %v; tail %q", got, tt.ends, raw[max(0, len(raw)-60):])
			}
		})
	}
}

func TestEveryChunkIsFlushed(t *testing.T) {
	s := newTestServer(t, Config{})
	raw, err := exchange(t, s, chatBody(`"stream":true`), HeaderChunks, "10")
	if err != nil {
		t.Fatal(err)
	}
	// One HTTP chunk for each of the first 12 events, one for [DONE], and the
	// last chunk, which is empty.
	_, body, _ := strings.Cut(raw, "\r\n\r\n")
	lines, chunks := bufio.NewReader(strings.NewReader(body)), 0
	for {
		var size int
		if _, err := fmt.Fscanf(lines, "%x\r\n", &size); err != nil {
			t.Fatalf("after %d chunks: %v", chunks, err)
		}
		chunks++
		if size == 0 {
			break
		}
		if _, err := lines.Discard(size + 2); err != nil {
			t.Fatal(err)
		}
	}
	if chunks != 14 {
		t.Errorf("13 events came in %d HTTP chunks, want 14 with the last", chunks)
	}
}

func TestConnectionSurvivesCleanEndings(t *testing.T) {
	var addrs sync.Map
	s := newTestServer(t, Config{Tap: func(r *http.Request, _ []byte) { addrs.Store(r.RemoteAddr, true) }})
	s.client.Transport.(*http.Transport).MaxConnsPerHost = 1
	for _, fault := range []string{"status=500", "truncate=half", "error_event=1", "latency=1ns"} {
		for _, body := range []string{helloRequest, streamBody} {
			if r := s.post(pathChat, body, HeaderFault, fault); r.err != nil {
				t.Errorf("%s: %v", fault, r.err)
			}
		}
	}
	n := 0
	addrs.Range(func(any, any) bool { n++; return true })
	if n != 1 {
		t.Errorf("eight cleanly ended calls used %d connections, want 1", n)
	}
}

func TestOverTLSAndHTTP2(t *testing.T) {
	for _, http2 := range []bool{false, true} {
		stub, err := New(Config{Seed: 1})
		if err != nil {
			t.Fatal(err)
		}
		srv := httptest.NewUnstartedServer(stub)
		srv.EnableHTTP2 = http2
		srv.StartTLS()
		s := &testServer{Stub: stub, t: t, url: srv.URL, client: srv.Client()}
		r := s.ok(pathChat, streamBody)
		if !strings.HasSuffix(r.body, "data: [DONE]\n\n") {
			t.Errorf("HTTP/2 %v: the stream ends with %q", http2, r.body[max(0, len(r.body)-40):])
		}
		for _, fault := range []string{"reset", "reset_after=2", "malformed=2"} {
			if r := s.post(pathChat, streamBody, HeaderFault, fault); r.err == nil {
				t.Errorf("HTTP/2 %v, %s: the call ended cleanly with status %d", http2, fault, r.status)
			} else if !http2 && fault == "reset" && !errors.Is(r.err, syscall.ECONNRESET) {
				t.Errorf("reset under TLS: %v", r.err)
			}
		}
		if got := stub.Stats(); got.Completed != 1 || got.Faulted != 3 {
			t.Errorf("HTTP/2 %v: stats %+v", http2, got)
		}
		stub.Close()
		srv.Close()
	}
}

func TestHundredArrivalsInOneInstant(t *testing.T) {
	s := newTestServer(t, Config{Slots: 8})
	start := make(chan struct{})
	var wg sync.WaitGroup
	for range 100 {
		wg.Go(func() {
			<-start
			if r := s.post(pathChat, helloRequest); r.err != nil || r.status != http.StatusOK {
				t.Errorf("status %d, error %v", r.status, r.err)
			}
		})
	}
	close(start)
	wg.Wait()
	got := s.Stats()
	if got.Completed != 100 || got.PeakServing > 8 || got.PeakInFlight > 100 || got.InFlight+got.Serving+got.Waiting != 0 {
		t.Errorf("stats %+v", got)
	}
}

func BenchmarkWholeChat(b *testing.B)    { benchmark(b, helloRequest) }
func BenchmarkStreamedChat(b *testing.B) { benchmark(b, streamBody) }

// benchmark measures what the stub itself costs, to be kept small beside what
// is measured through it.
func benchmark(b *testing.B, body string) {
	stub, err := New(Config{Slots: 4})
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		stub.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, pathChat, strings.NewReader(body)))
	}
}

func TestCompressedAnswersDecodeToThePlainOnes(t *testing.T) {
	s := newTestServer(t, Config{})
	for _, body := range []string{helloRequest, chatBody(`"stream":true`)} {
		plain := s.ok(pathChat, body)
		for _, encoding := range []string{"gzip", "br", "zstd"} {
			packed := s.ok(pathChat, body, HeaderEncoding, encoding)
			if got := packed.header.Get("Content-Encoding"); got != encoding {
				t.Errorf("Content-Encoding %q, want %q", got, encoding)
			}
			if packed.length >= 0 && packed.length != int64(len(packed.body)) {
				t.Errorf("%s: Content-Length %d, body has %d bytes", encoding, packed.length, len(packed.body))
			}
			got, err := decodeBody(encoding, []byte(packed.body), DefaultMaxBody)
			if err != nil || string(got) != plain.body {
				t.Errorf("%s: error %v; the decoded answer differs from the plain one", encoding, err)
			}
			if again := s.ok(pathChat, body, HeaderEncoding, encoding); again.body != packed.body {
				t.Errorf("%s: the same call gave other bytes", encoding)
			}
		}
	}
}

func TestCompressedRequests(t *testing.T) {
	s := newTestServer(t, Config{MaxBody: 10_000})
	plain := s.ok(pathChat, helloRequest)
	for _, encoding := range []string{"gzip", "br", "zstd"} {
		packed, err := compress(encoding, []byte(helloRequest))
		if err != nil {
			t.Fatal(err)
		}
		if got := s.ok(pathChat, string(packed), "Content-Encoding", encoding); got.body != plain.body {
			t.Errorf("%s: the answer differs from that to the plain request", encoding)
		}
		bomb, err := compress(encoding, bytes.Repeat([]byte(" "), 1<<20))
		if err != nil || len(bomb) > 10_000 {
			t.Fatalf("%s: bomb of %d bytes, error %v", encoding, len(bomb), err)
		}
		if r := s.post(pathChat, string(bomb), "Content-Encoding", encoding); r.status != http.StatusRequestEntityTooLarge {
			t.Errorf("%s: a body that unpacks to 1 MiB got status %d, want 413", encoding, r.status)
		}
	}
}

func TestTrailer(t *testing.T) {
	s := newTestServer(t, Config{})
	for _, body := range []string{helloRequest, chatBody(`"stream":true`)} {
		r := s.ok(pathChat, body, HeaderTrailer, "1")
		want := strconv.FormatUint(uint64(crc32.ChecksumIEEE([]byte(r.body))), 16)
		if got := r.trailer.Get(TrailerChecksum); got != want {
			t.Errorf("trailer %q, want %q", got, want)
		}
	}
}

func TestEdgeCaseStreams(t *testing.T) {
	s := newTestServer(t, Config{})
	seen := map[string]bool{}
	for _, o := range EdgeCaseStreams() {
		if seen[o.Name] {
			t.Errorf("two streams are named %q", o.Name)
		}
		seen[o.Name] = true
		r := s.ok(pathChat, helloRequest, HeaderStream, o.Name)
		if r.body != string(o.Bytes()) {
			t.Errorf("%s: the body differs from Bytes()", o.Name)
		}
		if !strings.HasPrefix(r.header.Get("Content-Type"), "text/event-stream") {
			t.Errorf("%s: Content-Type %q", o.Name, r.header.Get("Content-Type"))
		}
		checkOddStreamEnds(t, o)
	}
	if got := s.Stats(); got.Completed != int64(len(seen)) || len(seen) < 10 {
		t.Errorf("%d streams, stats %+v", len(seen), got)
	}
}

// checkOddStreamEnds reads a stream by the rules of the HTML standard and
// expects valid data and a proper end.
func checkOddStreamEnds(t *testing.T, o EdgeCaseStream) {
	t.Helper()
	text := strings.TrimPrefix(string(o.Bytes()), "\ufeff")
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	stopped := false
	for block := range strings.SplitSeq(text, "\n\n") {
		var data []string
		for line := range strings.SplitSeq(block, "\n") {
			if value, ok := strings.CutPrefix(line, "data:"); ok {
				data = append(data, strings.TrimPrefix(value, " "))
			}
		}
		joined := strings.Join(data, "\n")
		if joined == "" || joined == "[DONE]" {
			continue
		}
		decode(t, joined)
		stopped = stopped || strings.Contains(joined, `"finish_reason":"stop"`)
	}
	if !stopped {
		t.Errorf("%s: no event has a finish_reason", o.Name)
	}
}
