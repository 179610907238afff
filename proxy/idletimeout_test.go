package proxy

import (
	"bufio"
	"context"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"headgate/proxy/admission"
)

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
