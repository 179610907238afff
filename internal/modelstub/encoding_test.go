package modelstub

import (
	"bytes"
	"hash/crc32"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

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
