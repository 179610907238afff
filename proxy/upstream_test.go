package proxy

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"headgate/internal/modelstub"
	"headgate/proxy/admission"
	"headgate/proxy/fault"
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

// What a patient client waits for, it gets: silence under the limit is no fault.
func TestUpstreamIdleBelowTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		body   string
		header []string
		least  time.Duration
	}{
		"20 s mid-stream":                          {stream, []string{"Stub-Fault", "silence=20s;after=2"}, 20 * time.Second},
		"119 s mid-stream":                         {stream, []string{"Stub-Fault", "silence=119s;after=2"}, 119 * time.Second},
		"20 s within a body":                       {chat, []string{"Stub-Fault", "silence=20s;after=1"}, 20 * time.Second},
		"40 s to the headers":                      {chat, []string{"Stub-Fault", "latency=40s"}, 40 * time.Second},
		"40 s to the headers, ten minutes' stream": {stream, []string{"Stub-Fault", "latency=40s", "Stub-Service", "10m", "Stub-Chunks", "60"}, 10 * time.Minute},
		"a byte every second":                      {chat, []string{"Stub-Fault", "drip=1s"}, 10 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			want := directAnswer(t, c.body, withoutFault(c.header)...)
			withSynctest(t, nil, func(r *testProxy) {
				began := time.Now()
				a := r.post(chatPath, c.body, c.header...)
				r.wantCompleted(a)
				if string(a.body) != want {
					t.Errorf("%d bytes, want %d as they are sent", len(a.body), len(want))
				}
				if d := time.Since(began); d < c.least {
					t.Errorf("took %s, want at least %s", d, c.least)
				}
				if o := r.wantOutcome(admission.Completed, http.StatusOK); o.Turnaround < c.least {
					t.Errorf("turnaround %s", o.Turnaround)
				}
			})
		})
	}
}

// withoutFault leaves the headers that change bytes, but not times.
func withoutFault(header []string) []string {
	var out []string
	for i := 0; i < len(header); i += 2 {
		if header[i] == "Stub-Chunks" {
			out = append(out, header[i:i+2]...)
		}
	}
	return out
}

func TestUpstreamIdleAboveTimeout(t *testing.T) {
	for name, c := range map[string]struct {
		body, fault string
		answered    bool
	}{
		"before the headers":           {chat, "hang", false},
		"before the headers, streamed": {stream, "hang", false},
		"after the headers":            {stream, "hang_after=0", true},
		"mid-stream":                   {stream, "hang_after=2", true},
		"within a body":                {chat, "hang_after=1", true},
	} {
		t.Run(name, func(t *testing.T) {
			withSynctest(t, nil, func(r *testProxy) {
				began := time.Now()
				a := r.post(chatPath, c.body, "Stub-Fault", c.fault)
				if d := time.Since(began); d < 119*time.Second || d > 121*time.Second {
					t.Errorf("given up after %s", d)
				}
				if o := r.task(1); o.Outcome != admission.UpstreamTimeout {
					t.Errorf("outcome %s", o.Outcome)
				}
				if !c.answered {
					e := r.wantFailure(a, http.StatusGatewayTimeout, "upstream_timeout")
					if e.Type != "server_error" {
						t.Errorf("type %s", e.Type)
					}
				} else if a.err == nil {
					t.Errorf("a whole answer: %d %s", a.status, a.body)
				}
				r.eventually("the upstream was told", func() bool { return r.stub.Stats().ClientGone == 1 })
			})
		})
	}
}

// The time that a client takes to read is not the upstream's silence.
func TestSlowReaderIsNotASilentUpstream(t *testing.T) {
	edit := func(p *fixture) { p.pool.IdleTimeout, p.config.Timeouts.ClientWrite = 5*time.Second, time.Hour }
	withSynctest(t, edit, func(r *testProxy) {
		conn := r.dialRaw()
		r.write(conn, requestHead(chatPath, lengthOf(stream))+stream)
		buf := make([]byte, 64)
		var got strings.Builder
		for !strings.HasSuffix(got.String(), lastChunk) {
			n, err := conn.Read(buf)
			if err != nil {
				t.Fatal(err)
			}
			got.Write(buf[:n])
			time.Sleep(7 * time.Second)
		}
		r.wantOutcome(admission.Completed, http.StatusOK)
	})
}

// The pieces of a stream go out one by one as they come, headers first.
func TestStreamIsPassedOnAsItComes(t *testing.T) {
	for framing, header := range map[string]string{
		"chunked":   "Transfer-Encoding: chunked\r\n\r\n",
		"announced": "Content-Length: 340\r\n\r\n",
		"unframed":  "Connection: close\r\n\r\n",
	} {
		t.Run(framing, func(t *testing.T) {
			pieces := make([]string, 10)
			for i := range pieces {
				pieces[i] = "data: {\"choices\":[]}            \n\n" // 34 bytes
			}
			pieces[9] = "data: [DONE]                    \n\n"
			talk := func(_ context.Context, c net.Conn) {
				for _, p := range pieces {
					time.Sleep(100 * time.Millisecond)
					if framing == "chunked" {
						p = chunks(p)
					}
					_, _ = c.Write([]byte(p))
				}
				if framing == "chunked" {
					_, _ = c.Write([]byte(lastChunk))
				}
			}
			wire := "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" + header
			withSynctest(t, withRawUpstream(wire, talk), func(r *testProxy) {
				began := time.Now()
				res, err := r.client.Do(r.request(context.Background(), chatPath, stream))
				if err != nil {
					t.Fatal(err)
				}
				defer res.Body.Close()
				if d := time.Since(began); d > 50*time.Millisecond {
					t.Errorf("headers after %s", d)
				}
				if res.Header.Get("X-Accel-Buffering") != "no" {
					t.Error("no X-Accel-Buffering: no")
				}
				br := bufio.NewReader(res.Body)
				for i := range pieces {
					if _, err := br.ReadString('\n'); err != nil {
						t.Fatal(err)
					}
					if _, err := br.ReadString('\n'); err != nil {
						t.Fatal(err)
					}
					want := time.Duration(i+1) * 100 * time.Millisecond
					if d := time.Since(began); d < want || d > want+50*time.Millisecond {
						t.Errorf("piece %d after %s, want %s", i, d, want)
					}
				}
			})
		})
	}
}

func TestTimesThatAreObserved(t *testing.T) {
	withSynctest(t, withOneWorker, func(r *testProxy) {
		first := r.start(chatPath, chat, "Stub-Service", "10s")
		r.eventually("the first runs", func() bool { return r.heldResources().inFlight == 1 })
		second := r.queueCalls(1, chat, "Stub-Service", "5s")[0]
		first.wait()
		second.wait()
		near := func(what string, got, want time.Duration) {
			if got < want-100*time.Millisecond || got > want+100*time.Millisecond {
				t.Errorf("%s %s, want %s", what, got, want)
			}
		}
		o := r.task(2)
		near("queued", o.Queued, 10*time.Second)
		near("service", o.Service, 5*time.Second)
		near("first byte", o.FirstByte, 15*time.Second)
		near("turnaround", o.Turnaround, 15*time.Second)
		if !o.Granted || o.Gate < 0 {
			t.Errorf("%+v", o)
		}
	})
}

// withInjector puts faults on the way to the rig's endpoint.
func withInjector(p *fixture) *fault.Injector {
	way := fault.New(&http.Transport{DialContext: p.network.dial, DisableCompression: true}, 1)
	p.pool.Transport = way
	return way
}

// What a fault does upstream is told to the client, and named in the outcome, as
// if the endpoint had done it.
func TestInjectedFaultsAreUpstreamFaults(t *testing.T) {
	for name, c := range map[string]struct {
		fault   fault.Fault
		body    string
		outcome admission.Outcome
		status  int // of the answer
		broken  bool
	}{
		"none":             {fault.Fault{Kind: fault.Hang, Share: 0}, stream, admission.Completed, 200, false},
		"status":           {fault.Fault{Kind: fault.Status, Code: 503, Share: 1}, chat, admission.UpstreamError, 503, false},
		"its refusal":      {fault.Fault{Kind: fault.Status, Code: 429, Share: 1}, chat, admission.UpstreamRefused, 429, false},
		"reset":            {fault.Fault{Kind: fault.Reset, Share: 1}, chat, admission.UpstreamError, 502, false},
		"refuse":           {fault.Fault{Kind: fault.Refuse, Share: 1}, stream, admission.UpstreamError, 502, false},
		"truncated stream": {fault.Fault{Kind: fault.Truncate, Share: 1}, stream, admission.Truncated, 200, true},
		"truncated answer": {fault.Fault{Kind: fault.Truncate, Share: 1}, chat, admission.Truncated, 200, true},
		"malformed answer": {fault.Fault{Kind: fault.Malformed, Share: 1}, chat, admission.Truncated, 200, true},
		"slow drip":        {fault.Fault{Kind: fault.Drip, Delay: time.Millisecond, Share: 1}, stream, admission.Completed, 200, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var way *fault.Injector
			r := newTestProxy(t, func(p *fixture) { way = withInjector(p) })
			if _, err := way.Inject(c.fault, fault.Scope{}, fault.MaxTTL); err != nil {
				t.Fatal(err)
			}
			a := r.post(chatPath, c.body)
			if (a.err != nil) != c.broken || !c.broken && a.status != c.status {
				t.Errorf("status %d, broken: %v; want %d, %t", a.status, a.err, c.status, c.broken)
			}
			if c.broken && (bytes.Contains(a.body, []byte("[DONE]")) || strings.HasSuffix(string(a.body), "}\n")) {
				t.Errorf("a broken answer looks whole: %q", a.body)
			}
			r.wantOutcome(c.outcome, c.status)
			if befell := way.Report().TotalHits(); befell != 1 && c.fault.Share > 0 {
				t.Errorf("%d calls befallen, want 1", befell)
			}
		})
	}
}

// A call that hangs takes a permit, until the endpoint has been silent for too
// long.
func TestHangTimesOut(t *testing.T) {
	withSynctest(t, func(p *fixture) {
		way := withInjector(p)
		p.pool.IdleTimeout = 30 * time.Second
		p.stub = modelstub.Config{}
		if _, err := way.Inject(fault.Fault{Kind: fault.Hang, Share: 1}, fault.Scope{}, fault.MaxTTL); err != nil {
			t.Fatal(err)
		}
	}, func(r *testProxy) {
		if a := r.chat(); a.status != http.StatusGatewayTimeout {
			t.Errorf("%d, %v", a.status, a.err)
		}
		r.wantOutcome(admission.UpstreamTimeout, http.StatusGatewayTimeout)
	})
}

// When the fault is cleared the task goes on as if nothing had been, and the next
// one has normal latency.
func TestClearedHangContinues(t *testing.T) {
	var way *fault.Injector
	withSynctest(t, func(p *fixture) { way = withInjector(p) }, func(r *testProxy) {
		if _, err := way.Inject(fault.Fault{Kind: fault.Hang, Share: 1}, fault.Scope{}, fault.MaxTTL); err != nil {
			t.Fatal(err)
		}
		time.AfterFunc(10*time.Second, func() {
			if got, err := way.Clear(context.Background()); err != nil || got.Released != 1 {
				t.Errorf("%+v, %v", got, err)
			}
		})
		for i, want := range []time.Duration{10 * time.Second, 0} {
			if a := r.chat(); a.status != http.StatusOK || a.err != nil {
				t.Errorf("%d, %v", a.status, a.err)
			}
			if got := r.task(i + 1).Turnaround; got != want {
				t.Errorf("task %d took %v, want %v", i, got, want)
			}
		}
	})
}
