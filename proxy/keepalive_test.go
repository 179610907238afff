package proxy

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"headgate/proxy/admission"
)

// Comments of one line, as every known client takes them for nothing.
const keepAliveComment = ": waiting\n"

func withKeepAlive(p *fixture) {
	withOneWorker(p)
	p.pool.StreamKeepAlive = 10 * time.Second
	p.pool.IdleTimeout = 5 * time.Minute
}

func TestWaitingStreamIsKeptAlive(t *testing.T) {
	want := directAnswer(t, stream)
	withSynctest(t, withKeepAlive, func(r *testProxy) {
		leave := r.occupy(1)
		waiting := r.queueCalls(1, stream)[0]
		time.Sleep(35 * time.Second)
		leave()
		a := waiting.wait()
		r.wantCompleted(a)
		if string(a.body) != strings.Repeat(keepAliveComment, 3)+want {
			t.Errorf("%q", a.body)
		}
		for name, value := range map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache", "X-Accel-Buffering": "no"} {
			if a.header.Get(name) != value {
				t.Errorf("%s: %q", name, a.header.Get(name))
			}
		}
		if o := r.task(2); o.Outcome != admission.Completed || o.Status != 200 || o.TaskID != a.header.Get("Headgate-Task-Id") {
			t.Errorf("%+v", o)
		}
	})
}

// Only streams that wait get comments, and only after the time for one.
func TestKeepAliveInterval(t *testing.T) {
	for name, body := range map[string]string{"a stream": stream, "JSON": chat, "stream null": strings.Replace(stream, "true", "null", 1)} {
		t.Run(name, func(t *testing.T) {
			wait := 9 * time.Second
			if body != stream {
				wait = 50 * time.Second
			}
			want := directAnswer(t, body)
			withSynctest(t, withKeepAlive, func(r *testProxy) {
				leave := r.occupy(1)
				waiting := r.queueCalls(1, body)[0]
				time.Sleep(wait)
				leave()
				if a := waiting.wait(); string(a.body) != want || a.err != nil {
					t.Errorf("%d (%v) %q", a.status, a.err, a.body)
				}
			})
		})
	}
}

// A refusal that comes before the first comment still is one.
func TestRefusalBeforeKeepAlive(t *testing.T) {
	withSynctest(t, withKeepAlive, func(r *testProxy) {
		leave := r.occupy(1)
		r.wantRefused(r.queueCalls(1, stream, deadlineHeader, "5")[0].wait(), admission.ReasonDeadlinePassed)
		queued := r.queueCalls(3, stream)
		r.wantRefused(r.post(chatPath, stream), admission.ReasonQueueDepth)
		leave()
		for _, c := range queued {
			r.wantCompleted(c.wait())
		}
	})
}

// After a comment the status has gone out: what goes wrong is told in the stream.
func TestErrorAfterKeepAlive(t *testing.T) {
	const json = `{"model":"m","messages":[{"role":"user","content":"hello"}],"stream":true}`
	cases := map[string]struct {
		header  []string
		code    string // of the error event; of an upstream's own error, null
		message string
		outcome admission.Outcome
	}{
		"the upstream's 500":     {[]string{"Stub-Fault", "status=500"}, "", "", admission.UpstreamError},
		"the upstream's 429":     {[]string{"Stub-Fault", "status=429"}, "", "", admission.UpstreamRefused},
		"the upstream's 404":     {[]string{"Stub-Fault", "status=404"}, "", "", admission.Completed},
		"the upstream is reset":  {[]string{"Stub-Fault", "reset"}, "upstream_unreachable", "", admission.UpstreamError},
		"the deadline passes":    {[]string{deadlineHeader, "25"}, "deadline_passed", "Retry in", admission.DeadlinePassed},
		"the upstream is silent": {[]string{"Stub-Fault", "hang"}, "upstream_timeout", "", admission.UpstreamTimeout},
		"compressed, unasked":    {[]string{"Stub-Encoding", "gzip"}, "upstream_error", "", admission.UpstreamError},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			withSynctest(t, withKeepAlive, func(r *testProxy) {
				leave := r.occupy(1)
				waiting := r.queueCalls(1, json, c.header...)[0]
				time.Sleep(20*time.Second + time.Millisecond)
				if c.code != "deadline_passed" {
					leave()
				}
				a := waiting.wait()
				r.wantCompleted(a)
				rest, ok := strings.CutPrefix(string(a.body), strings.Repeat(keepAliveComment, 2))
				rest, ok2 := strings.CutPrefix(rest, "data: ")
				rest, ok3 := strings.CutSuffix(rest, "\n\n")
				if !ok || !ok2 || !ok3 || strings.Contains(rest, "\n") {
					t.Fatalf("%q", a.body)
				}
				if c.code != "" {
					if e := r.wantErrorBody([]byte(rest), c.code); !strings.Contains(e.Message, c.message) {
						t.Errorf("%+v", e)
					}
				} else if !strings.HasPrefix(rest, `{"error":{`) {
					t.Errorf("%q", rest)
				}
				leave()
				r.wantIdle()
				if n := r.recorder.outcomes(); n[c.outcome] != 1 {
					t.Errorf("outcomes %v, want one %s", n, c.outcome)
				}
			})
		})
	}
}

// What is no stream cannot be told in one but as an error.
func TestNonStreamAnswerAfterKeepAlive(t *testing.T) {
	for name, c := range map[string]struct{ status, body, want string }{
		"JSON":            {"200 OK", "{}", `"code":"upstream_error"`},
		"an error object": {"418 Odd", "{\"error\": {\n\"message\": \"short and stout\"}, \"x\":1}", `{"error":{"message":"short and stout"},"x":1}`},
		"an error text":   {"503 Odd", "{\"error\":\"data: evil\\n\\n data\"}", `answered with status 503`},
		"markup":          {"502 Odd", "<html>", `answered with status 502`},
		"nothing":         {"204 Odd", "", `answered with status 204`},
	} {
		t.Run(name, func(t *testing.T) {
			wire := "HTTP/1.1 " + c.status + "\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n" + c.body
			first := make(chan struct{})
			edit := func(p *fixture) {
				withKeepAlive(p)
				hits := 0
				p.upstream = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					if hits++; hits == 1 {
						<-first
						return
					}
					if r.Header.Get("Accept-Encoding") != "" {
						t.Error("an encoding was asked for that nobody could name")
					}
					rawUpstream{wire, nil}.ServeHTTP(w, r)
				})
			}
			withSynctest(t, edit, func(r *testProxy) {
				first = make(chan struct{})
				running := r.start(chatPath, chat)
				r.eventually("one runs", func() bool { return r.heldResources().inFlight == 1 })
				waiting := r.queueCalls(1, stream, "Accept-Encoding", "gzip")[0]
				time.Sleep(15 * time.Second)
				close(first)
				running.wait()
				a := waiting.wait()
				r.wantCompleted(a)
				if !strings.Contains(string(a.body), c.want) || strings.Count(string(a.body), "data:") != 1 {
					t.Errorf("%q, want %q", a.body, c.want)
				}
			})
		})
	}
}

// A stream that breaks after a comment is broken off, as any other is.
func TestTruncatedStreamAfterKeepAlive(t *testing.T) {
	for _, fault := range []string{"truncate=2", "reset_after=2", "malformed=2", "hang_after=2"} {
		t.Run(fault, func(t *testing.T) {
			withSynctest(t, withKeepAlive, func(r *testProxy) {
				leave := r.occupy(1)
				waiting := r.queueCalls(1, stream, "Stub-Fault", fault)[0]
				time.Sleep(15 * time.Second)
				leave()
				if a := waiting.wait(); a.err == nil || strings.Contains(string(a.body), "error") {
					t.Errorf("a whole answer: %q", a.body)
				}
			})
		})
	}
}

func TestClientGoneAfterKeepAlive(t *testing.T) {
	withSynctest(t, withKeepAlive, func(r *testProxy) {
		leave := r.occupy(1)
		waiting := r.queueCalls(1, stream)[0]
		time.Sleep(15 * time.Second)
		waiting.leave()
		<-waiting.answer
		r.eventually("nobody waits", func() bool { return r.heldResources().depth == 0 })
		leave()
		if n := r.stub.Stats().Calls; n != 1 {
			t.Errorf("%d calls went upstream", n)
		}
	})
}
