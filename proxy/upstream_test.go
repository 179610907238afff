package proxy

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"

	"headgate/proxy/admission"
)

func TestUpstreamRefusalIsPassedOn(t *testing.T) {
	for name, retry := range map[string]string{"with Retry-After": "17", "with a date": "Fri, 31 Dec 2100 23:59:59 GMT", "with nonsense": "soon", "without": ""} {
		t.Run(name, func(t *testing.T) {
			r := newTestProxy(t, nil)
			fault := "status=429"
			if retry != "" {
				fault += ";retry_after=" + retry
			}
			a := r.chat("Stub-Fault", fault)
			if a.status != http.StatusTooManyRequests || a.header.Get("Retry-After") != retry || a.reason() != "" {
				t.Errorf("status %d, Retry-After %q, reason %q", a.status, a.header.Get("Retry-After"), a.reason())
			}
			r.wantOutcome(admission.UpstreamRefused, http.StatusTooManyRequests)
			if ours, theirs := r.sum("headgate_refusals_total"), r.sum("headgate_upstream_refusals_total"); ours != 0 || theirs != 1 {
				t.Errorf("%v refusals of ours, %v of the upstream", ours, theirs)
			}
		})
	}
}

func TestUpstreamStatusIsPassedOn(t *testing.T) {
	for _, status := range []int{200, 201, 202, 204, 206, 299, 300, 301, 302, 304, 307, 400, 401, 403, 404, 409, 418, 422, 500, 501, 502, 503, 504, 529, 599, 600, 999} {
		wire := "HTTP/1.1 " + strconv.Itoa(status) + " Odd\r\nContent-Type: application/json\r\nLocation: /elsewhere\r\nContent-Length: 2\r\n\r\n{}"
		if status == 204 || status == 304 {
			wire = "HTTP/1.1 " + strconv.Itoa(status) + " Odd\r\n\r\n"
		}
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			r := newTestProxy(t, withRawUpstream(wire, nil))
			r.client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
			a := r.chat()
			if a.status != status || a.err != nil {
				t.Errorf("status %d (%v)", a.status, a.err)
			}
			want := admission.Completed
			if status >= 500 {
				want = admission.UpstreamError
			}
			r.wantOutcome(want, status)
		})
	}
}

// Statuses below 200 are no answers. Those before the answer are swallowed.
func TestInformationalStatus(t *testing.T) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
	for name, c := range map[string]struct {
		wire   string
		status int
	}{
		"100 first":       {"HTTP/1.1 100 Continue\r\n\r\n" + ok, 200},
		"103 first":       {"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + ok, 200},
		"101":             {"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nbytes", 502},
		"100 and no more": {"HTTP/1.1 100 Continue\r\n\r\n", 502},
		"zero":            {"HTTP/1.1 000 Odd\r\nContent-Length: 2\r\n\r\n{}", 502},
		"42":              {"HTTP/1.1 042 Odd\r\nContent-Length: 2\r\n\r\n{}", 502},
		"negative":        {"HTTP/1.1 -12 Odd\r\nContent-Length: 2\r\n\r\n{}", 502},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestProxy(t, withRawUpstream(c.wire, nil))
			if a := r.chat(); a.status != c.status {
				t.Errorf("status %d (%v), want %d", a.status, a.err, c.status)
			}
			res, err := r.client.Get(r.server.url() + modelsPath)
			if err != nil {
				t.Fatal(err)
			}
			if a := read(res); a.status != c.status {
				t.Errorf("models: status %d, want %d", a.status, c.status)
			}
		})
	}
}

func TestInvalidUpstreamStatus(t *testing.T) {
	for name, wire := range map[string]string{
		"nothing":              "",
		"not HTTP":             "SSH-2.0-OpenSSH_9.6\r\n",
		"half a status line":   "HTTP/1.1 2",
		"no end of the header": "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n",
		"two lengths":          "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
		"a negative length":    "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n{}",
		"an unknown framing":   "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n{}",
		"a header of no name":  "HTTP/1.1 200 OK\r\n: x\r\n\r\n{}",
		"an endless header":    "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 11<<20),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTestProxy(t, withRawUpstream(wire, nil))
			e := r.wantFailure(r.chat(), http.StatusBadGateway, "upstream_unreachable")
			if e.Type != "server_error" {
				t.Errorf("type %s", e.Type)
			}
			r.wantOutcome(admission.UpstreamError, http.StatusBadGateway)
		})
	}
}

func TestUpstreamThatCannotBeReached(t *testing.T) {
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = discardLog()
	secure.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	secure.StartTLS()
	defer secure.Close()
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for name, base := range map[string]string{
		"nobody listens":           gone.URL,
		"a certificate of unknown": secure.URL,
		"TLS to a plain server":    "https://" + plain.Listener.Addr().String(),
		"a name that is none":      "http://no-such-host.invalid",
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestProxy(t, func(p *fixture) {
				withOneWorker(p)
				p.pool.Upstream = must(url.Parse(base + "/v1"))
			})
			for range 2 {
				r.wantFailure(r.chat(), http.StatusBadGateway, "upstream_unreachable")
			}
			if n := r.recorder.outcomes(); n[admission.UpstreamError] != 2 {
				t.Errorf("outcomes %v", n)
			}
			if !strings.Contains(r.logs.String(), "level=WARN") {
				t.Errorf("nothing in the log: %s", r.logs)
			}
		})
	}
}

// However the client frames its body, the upstream gets it with one length.
func TestRequestsToTheUpstreamAreFramedOnce(t *testing.T) {
	for name, wire := range map[string]string{
		"announced": requestHead(chatPath, lengthOf(chat)) + chat,
		"chunked":   requestHead(chatPath, "Transfer-Encoding: chunked") + chunks(chat[:10], chat[10:]) + lastChunk,
		"both":      requestHead(chatPath, lengthOf(chat), "Transfer-Encoding: chunked") + chunks(chat) + lastChunk,
		"expected":  requestHead(chatPath, lengthOf(chat), "Expect: 100-continue") + chat,
		"trailers":  requestHead(chatPath, "Transfer-Encoding: chunked", "Trailer: X-Sum") + chunks(chat) + "0\r\nX-Sum: 1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			seen := make(chan *http.Request, 1)
			r := newTestProxy(t, func(p *fixture) {
				p.upstream = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					seen <- r.Clone(r.Context())
					w.Header().Set("Connection", "close")
					_, _ = w.Write([]byte("ok"))
				})
			})
			if got := r.exchange(strings.Replace(wire, "\r\n", "\r\nConnection: close\r\n", 1)); !strings.Contains(got, " 200 OK") {
				t.Fatalf("%q", got)
			}
			req := <-seen
			if req.ContentLength != int64(len(chat)) || len(req.TransferEncoding) != 0 {
				t.Errorf("length %d, transfer encoding %v", req.ContentLength, req.TransferEncoding)
			}
			for _, name := range []string{"Expect", "Transfer-Encoding", "Trailer"} {
				if v := req.Header.Values(name); v != nil {
					t.Errorf("%s: %v", name, v)
				}
			}
		})
	}
}
