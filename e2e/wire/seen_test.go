package wire

import (
	"bytes"
	"compress/gzip"
	"net/http"
	"regexp"
	"testing"

	"github.com/google/go-cmp/cmp"

	"headgate/e2e/harness"
)

var traceparent = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-0[01]$`)

// wantEqualRequest compares the requests that the stub received. The gate adds IDs only.
func wantEqualRequest(t *testing.T, direct, gated harness.StubRequest, sent string) {
	t.Helper()
	if string(gated.Body) != sent || string(direct.Body) != sent {
		t.Errorf("bodies of %d (direct) and %d bytes arrived, want the %d bytes that were sent", len(direct.Body), len(gated.Body), len(sent))
	}
	if gated.Length != int64(len(sent)) {
		t.Errorf("Content-Length upstream is %d, want %d", gated.Length, len(sent))
	}
	if got := gated.Header.Get("Traceparent"); !traceparent.MatchString(got) {
		t.Errorf("Traceparent upstream is %q", got)
	}
	if gated.Header.Get("X-Request-Id") == "" {
		t.Error("no X-Request-Id upstream")
	}
	without := func(h http.Header) http.Header {
		h = h.Clone()
		h.Del("Traceparent")
		h.Del("X-Request-Id")
		return h
	}
	if diff := cmp.Diff(without(direct.Header), without(gated.Header)); diff != "" {
		t.Errorf("headers that reached the stub, direct (-), through the gate (+):\n%s", diff)
	}
	if gated.Path != direct.Path {
		t.Errorf("path %q, want %q", gated.Path, direct.Path)
	}
}

func gzipped(t *testing.T, s string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(s)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}
