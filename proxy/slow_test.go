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

// head is a request's head on the wire; lines end the header.
func head(path string, lines ...string) string {
	all := append([]string{"POST " + path + " HTTP/1.1", "Host: gate.test", "Content-Type: application/json"}, lines...)
	return strings.Join(all, "\r\n") + "\r\n\r\n"
}

func lengthOf(body string) string { return fmt.Sprintf("Content-Length: %d", len(body)) }

func (r *rig) write(c net.Conn, s string) {
	r.Helper()
	if _, err := io.WriteString(c, s); err != nil {
		r.Fatal(err)
	}
}

// respond reads one answer from a connection.
func (r *rig) respond(br *bufio.Reader) answer {
	r.Helper()
	res, err := http.ReadResponse(br, nil)
	if err != nil {
		r.Fatal(err)
	}
	return read(res)
}

func TestBodyThatStopsArriving(t *testing.T) {
	for name, c := range map[string]string{
		"after a part":             head(chatPath, lengthOf(chat)) + chat[:20],
		"before it begins":         head(chatPath, lengthOf(chat)),
		"within a chunk":           head(chatPath, "Transfer-Encoding: chunked") + "40\r\n" + chat[:20],
		"before the last chunk":    head(chatPath, "Transfer-Encoding: chunked") + chunks(chat),
		"though it was called for": head(chatPath, "Expect: 100-continue", lengthOf(chat)),
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, oneWorker, func(r *rig) {
				began := time.Now()
				conn := r.raw()
				go func() { _, _ = io.WriteString(conn, c) }()
				br := bufio.NewReader(conn)
				a := r.respond(br)
				for a.status == http.StatusContinue {
					a = r.respond(br)
				}
				r.fails(a, http.StatusRequestTimeout, "body_timeout")
				if d := time.Since(began); d < 30*time.Second || d > 31*time.Second {
					t.Errorf("given up after %s", d)
				}
				if _, err := br.ReadByte(); err != io.EOF {
					t.Errorf("the connection is still of use: %v", err)
				}
				r.want(admission.Invalid, http.StatusRequestTimeout)
			})
		})
	}
}

// A body may take as long as it likes, as long as it goes on.
func TestBodyThatTrickles(t *testing.T) {
	bubble(t, oneWorker, func(r *rig) {
		conn := r.raw()
		r.write(conn, head(chatPath, lengthOf(chat)))
		for i := range len(chat) {
			time.Sleep(20 * time.Second)
			r.write(conn, chat[i:i+1])
		}
		// The deadline counts from the arrival, and has passed by now.
		r.refused(r.respond(bufio.NewReader(conn)), admission.ReasonDeadlinePassed)
	})
}

func TestClientThatDiesWhileItSends(t *testing.T) {
	for name, end := range map[string]func(net.Conn){
		"hangs up": func(c net.Conn) { _ = c.Close() },
		"resets":   func(c net.Conn) { reset(context.Background(), c); _ = c.Close() },
	} {
		for kind, part := range map[string]string{
			"announced": head(chatPath, lengthOf(chat)) + chat[:20],
			"chunked":   head(chatPath, "Transfer-Encoding: chunked") + "40\r\n" + chat[:20],
		} {
			t.Run(name+", "+kind, func(t *testing.T) {
				r := newRig(t, oneWorker)
				conn := r.raw()
				r.write(conn, part)
				r.eventually("its task has begun", func() bool { return r.held().buffered > 0 })
				end(conn)
				r.want(admission.ClientGone, 0)
				r.completed(r.chat())
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
			bubble(t, oneWorker, func(r *rig) {
				began := time.Now()
				conn := r.raw()
				lines := []string{lengthOf(stream), header[0] + ": " + header[1]}
				r.write(conn, head(chatPath, lines...)+stream)
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
				r.completed(r.chat())
			})
		})
	}
}

// A client that is only slow gets everything, however long it takes.
func TestReaderThatIsSlow(t *testing.T) {
	for _, limit := range []time.Duration{0, time.Second} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			edit := func(p *plan) { oneWorker(p); p.config.Timeouts.ClientWrite = limit }
			bubble(t, edit, func(r *rig) {
				limit := r.proxy.timeouts.ClientWrite
				conn := r.raw()
				r.write(conn, head(chatPath, lengthOf(stream), "Stub-Chunks: 200")+stream)
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
				r.want(admission.Completed, http.StatusOK)
			})
		})
	}
}

// A short time to write is a time for each piece, not for the whole answer.
func TestTimeToWriteIsForEachPiece(t *testing.T) {
	for _, limit := range []time.Duration{time.Second, 5 * time.Second, time.Minute} {
		t.Run(limit.String(), func(t *testing.T) {
			edit := func(p *plan) { oneWorker(p); p.config.Timeouts.ClientWrite, p.pool.IdleTimeout = limit, time.Hour }
			bubble(t, edit, func(r *rig) {
				for _, body := range []string{stream, chat} {
					r.completed(r.post(chatPath, body, "Stub-Service", (50 * limit).String(), "Stub-Chunks", "20"))
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
		"an answer":             head(chatPath, lengthOf(chat)) + chat,
		"a stream":              head(chatPath, lengthOf(stream)) + stream,
		"an empty answer":       head(chatPath, lengthOf(chat), "Stub-Fault: status=500") + chat,
		"our own 400":           head(chatPath, "Content-Length: 1") + "{",
		"our own 404":           head("/v1/nothing", "Content-Length: 2") + "{}",
		"our own 405":           "GET " + chatPath + " HTTP/1.1\r\nHost: gate.test\r\n\r\n",
		"a list of models":      "GET /v1/models HTTP/1.1\r\nHost: gate.test\r\n\r\n",
		"a refusal, soon":       head(chatPath, lengthOf(chat), "Headgate-Deadline: 1ns") + chat,
		"a refusal, much later": head(chatPath, lengthOf(chat), "Headgate-Deadline: 10m", "Headgate-Priority: batch") + chat,
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(p *plan) { oneWorker(p); p.pool.IdleTimeout = time.Hour }, func(r *rig) {
				conn := r.raw()
				br := bufio.NewReader(conn)
				r.write(conn, head(chatPath, lengthOf(chat))+chat)
				r.completed(r.respond(br))
				time.Sleep(idle)
				if strings.Contains(second, "10m") {
					defer r.occupy(1)()
				}
				r.write(conn, second)
				if a := r.respond(br); a.err != nil || a.status == 0 {
					t.Errorf("status %d (%v)", a.status, a.err)
				}
			})
		})
	}
}

func TestExpectContinueOnAConnectionThatIsUsedAgain(t *testing.T) {
	bubble(t, oneWorker, func(r *rig) {
		conn := r.raw()
		br := bufio.NewReader(conn)
		for range 3 {
			r.write(conn, head(chatPath, lengthOf(chat), "Expect: 100-continue"))
			if a := r.respond(br); a.status != http.StatusContinue {
				t.Fatalf("status %d before the body", a.status)
			}
			r.write(conn, chat)
			r.completed(r.respond(br))
			time.Sleep(2 * time.Minute)
		}
	})
}
