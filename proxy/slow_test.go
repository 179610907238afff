package proxy

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"headgate/proxy/admission"
)

// requestHead is a request's head on the wire; lines end the header.
func requestHead(path string, lines ...string) string {
	all := append([]string{"POST " + path + " HTTP/1.1", "Host: gate.test", "Content-Type: application/json"}, lines...)
	return strings.Join(all, "\r\n") + "\r\n\r\n"
}

func lengthOf(body string) string { return fmt.Sprintf("Content-Length: %d", len(body)) }

func (r *testProxy) write(c net.Conn, s string) {
	r.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		r.Fatal(err)
	}
}

// readResponse reads one answer from a connection.
func (r *testProxy) readResponse(br *bufio.Reader) answer {
	r.Helper()
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		r.Fatal(err)
	}
	return read(res)
}

func TestBodyThatStopsArriving(t *testing.T) {
	for name, c := range map[string]string{
		"after a part":             requestHead(chatPath, lengthOf(chat)) + chat[:20],
		"before it begins":         requestHead(chatPath, lengthOf(chat)),
		"within a chunk":           requestHead(chatPath, "Transfer-Encoding: chunked") + "40\r\n" + chat[:20],
		"before the last chunk":    requestHead(chatPath, "Transfer-Encoding: chunked") + chunks(chat),
		"though it was called for": requestHead(chatPath, "Expect: 100-continue", lengthOf(chat)),
	} {
		t.Run(name, func(t *testing.T) {
			withSynctest(t, withOneWorker, func(r *testProxy) {
				began := time.Now()
				conn := r.dialRaw()
				go func() { _, _ = io.WriteString(conn, c) }()
				br := bufio.NewReader(conn)
				a := r.readResponse(br)
				for a.status == http.StatusContinue {
					a = r.readResponse(br)
				}
				r.wantFailure(a, http.StatusRequestTimeout, "body_timeout")
				if d := time.Since(began); d < 30*time.Second || d > 31*time.Second {
					t.Errorf("given up after %s", d)
				}
				if _, err := br.ReadByte(); err != io.EOF {
					t.Errorf("the connection is still of use: %v", err)
				}
				r.wantOutcome(admission.Invalid, http.StatusRequestTimeout)
			})
		})
	}
}

// A body may take as long as it likes, as long as it goes on.
func TestBodyThatTrickles(t *testing.T) {
	withSynctest(t, withOneWorker, func(r *testProxy) {
		conn := r.dialRaw()
		r.write(conn, requestHead(chatPath, lengthOf(chat)))
		for i := range len(chat) {
			time.Sleep(20 * time.Second)
			r.write(conn, chat[i:i+1])
		}
		// The deadline counts from the arrival, and has passed by now.
		r.wantRefused(r.readResponse(bufio.NewReader(conn)), admission.ReasonDeadlinePassed)
	})
}

func TestClientThatDiesWhileItSends(t *testing.T) {
	for name, end := range map[string]func(net.Conn){
		"hangs up": func(c net.Conn) { _ = c.Close() },
		"resets":   func(c net.Conn) { resetOnEnd(context.Background(), c); _ = c.Close() },
	} {
		for kind, part := range map[string]string{
			"announced": requestHead(chatPath, lengthOf(chat)) + chat[:20],
			"chunked":   requestHead(chatPath, "Transfer-Encoding: chunked") + "40\r\n" + chat[:20],
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				r := newTestProxy(t, withOneWorker)
				conn := r.dialRaw()
				r.write(conn, part)
				r.eventually("its task has begun", func() bool { return r.heldResources().buffered > 0 })
				end(conn)
				r.wantOutcome(admission.ClientGone, 0)
				r.wantCompleted(r.chat())
			})
		}
	}
}

// A client that takes nothing loses its permit after a while.
func TestReaderThatStops(t *testing.T) {
	for name, header := range map[string][]string{
		"of a stream":      {"Stub-Chunks", "1000"},
		"of a huge answer": {"Stub-Stream", "huge"},
	} {
		t.Run(name, func(t *testing.T) {
			withSynctest(t, withOneWorker, func(r *testProxy) {
				began := time.Now()
				conn := r.dialRaw()
				lines := []string{lengthOf(stream), header[0] + ": " + header[1]}
				r.write(conn, requestHead(chatPath, lines...)+stream)
				if _, err := conn.Read(make([]byte, 1)); err != nil {
					t.Fatal(err)
				}
				o := r.task(1)
				if d := time.Since(began); o.Outcome != admission.ClientGone || d > 61*time.Second || d < 59*time.Second {
					t.Errorf("outcome %s after %s", o.Outcome, d)
				}
				if !errors.Is(o.Err, os.ErrDeadlineExceeded) {
					t.Errorf("for the log: %v", o.Err)
				}
				r.wantCompleted(r.chat())
			})
		})
	}
}

// A client that is only slow gets everything, however long it takes.
func TestReaderThatIsSlow(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Second} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			edit := func(p *fixture) { withOneWorker(p); p.config.Timeouts.ClientWrite = limit }
			withSynctest(t, edit, func(r *testProxy) {
				limit := r.proxy.timeouts.ClientWrite
				conn := r.dialRaw()
				r.write(conn, requestHead(chatPath, lengthOf(stream), "Stub-Chunks: 200")+stream)
				got := new(strings.Builder)
				buf := make([]byte, 256)
				for !strings.HasSuffix(got.String(), "\r\n"+lastChunk) {
					n, err := conn.Read(buf)
					if err != nil {
						t.Fatal(err)
					}
					got.Write(buf[:n])
					time.Sleep(limit / 20)
				}
				if !strings.Contains(got.String(), "[DONE]") {
					t.Errorf("%q", got)
				}
				r.wantOutcome(admission.Completed, http.StatusOK)
			})
		})
	}
}

// A short time to write is a time for each piece, not for the whole answer.
func TestTimeToWriteIsForEachPiece(t *testing.T) {
	for _, limit := range []time.Duration{time.Second, 5 * time.Second, time.Minute} {
		t.Run(limit.String(), func(t *testing.T) {
			edit := func(p *fixture) {
				withOneWorker(p)
				p.config.Timeouts.ClientWrite, p.pool.IdleTimeout = limit, time.Hour
			}
			withSynctest(t, edit, func(r *testProxy) {
				for _, body := range []string{stream, chat} {
					r.wantCompleted(r.post(chatPath, body, "Stub-Service", (50 * limit).String(), "Stub-Chunks", "20"))
				}
			})
		})
	}
}

// A deadline that one answer has left on a connection must not break the next,
// whichever it is.
func TestConnectionThatIsUsedAgainLater(t *testing.T) {
	idle := 2 * time.Minute
	for name, second := range map[string]string{
		"an answer":             requestHead(chatPath, lengthOf(chat)) + chat,
		"a stream":              requestHead(chatPath, lengthOf(stream)) + stream,
		"an empty answer":       requestHead(chatPath, lengthOf(chat), "Stub-Fault: status=500") + chat,
		"our own 400":           requestHead(chatPath, "Content-Length: 1") + "{",
		"our own 404":           requestHead("/v1/nothing", "Content-Length: 2") + "{}",
		"our own 405":           "GET " + chatPath + " HTTP/1.1\r\nHost: gate.test\r\n\r\n",
		"a list of models":      "GET /v1/models HTTP/1.1\r\nHost: gate.test\r\n\r\n",
		"a refusal, soon":       requestHead(chatPath, lengthOf(chat), "Headgate-Deadline: 1ns") + chat,
		"a refusal, much later": requestHead(chatPath, lengthOf(chat), "Headgate-Deadline: 10m", "Headgate-Priority: batch") + chat,
	} {
		t.Run(name, func(t *testing.T) {
			withSynctest(t, func(p *fixture) { withOneWorker(p); p.pool.IdleTimeout = time.Hour }, func(r *testProxy) {
				conn := r.dialRaw()
				br := bufio.NewReader(conn)
				r.write(conn, requestHead(chatPath, lengthOf(chat))+chat)
				r.wantCompleted(r.readResponse(br))
				time.Sleep(idle)
				if strings.Contains(second, "10m") {
					defer r.occupy(1)()
				}
				r.write(conn, second)
				if a := r.readResponse(br); a.err != nil || a.status == 0 {
					t.Errorf("status %d (%v)", a.status, a.err)
				}
			})
		})
	}
}

func TestExpectContinueOnAConnectionThatIsUsedAgain(t *testing.T) {
	withSynctest(t, withOneWorker, func(r *testProxy) {
		conn := r.dialRaw()
		br := bufio.NewReader(conn)
		for range 3 {
			r.write(conn, requestHead(chatPath, lengthOf(chat), "Expect: 100-continue"))
			if a := r.readResponse(br); a.status != http.StatusContinue {
				t.Fatalf("status %d before the body", a.status)
			}
			r.write(conn, chat)
			r.wantCompleted(r.readResponse(br))
			time.Sleep(2 * time.Minute)
		}
	})
}
