package bench

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// bodyBytes is the length of a request body.
const bodyBytes = 4 << 10

// request returns a whole request as bytes, since all of them are equal.
func request(answer string) []byte {
	const head, tail = `{"model":"m","messages":[{"role":"user","content":"`, `"}],"max_tokens":256}`
	text := strings.Repeat("total = total + price[i] * count[i]; ", bodyBytes/30)
	body := head + text[:bodyBytes-len(head)-len(tail)] + tail
	return fmt.Appendf(nil, "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: bench\r\nAccept: application/json\r\n"+
		"Authorization: Bearer k\r\nContent-Type: application/json\r\n%s: %s\r\nContent-Length: %d\r\n\r\n%s",
		answerHeader, answer, len(body), body)
}

// conn is a client's connection, kept alive.
type conn struct {
	net.Conn
	in *bufio.Reader
}

func dial(addr string) (*conn, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	return &conn{c, bufio.NewReader(c)}, nil
}

// roundTrip sends a request and reads its whole answer.
func (c *conn) roundTrip(request []byte) error {
	if _, err := c.Write(request); err != nil {
		return err
	}
	res, err := http.ReadResponse(c.in, nil)
	if err != nil {
		return err
	}
	n, err := io.Copy(io.Discard, res.Body)
	switch {
	case err != nil:
		return err
	case res.StatusCode != http.StatusOK || n < int64(len(completion)):
		return fmt.Errorf("status %d with %d bytes", res.StatusCode, n)
	}
	return nil
}

// loadResult is the result of a load.
type loadResult struct {
	done   float64 // answers
	rate   float64 // answers a second
	failed float64
	err    error // of one that failed
}

// generateLoad keeps a number of requests outstanding for a time.
func generateLoad(addr string, outstanding int, answer string, d time.Duration) loadResult {
	text := request(answer)
	var done, failed atomic.Int64
	errs := make([]error, outstanding)
	var group sync.WaitGroup
	start := time.Now()
	end := start.Add(d)
	for i := range outstanding {
		group.Go(func() {
			for first := true; first || time.Now().Before(end); first = false {
				if err := loopUntil(addr, text, end, &done); err != nil {
					errs[i] = err
					failed.Add(1)
				}
			}
		})
	}
	group.Wait()
	n := float64(done.Load())
	return loadResult{n, n / time.Since(start).Seconds(), float64(failed.Load()), cmp.Or(errs...)}
}

// loopUntil sends requests on one connection, at least one, until the end or the first failure.
func loopUntil(addr string, text []byte, end time.Time, done *atomic.Int64) error {
	c, err := dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	for {
		if err := c.roundTrip(text); err != nil {
			return err
		}
		done.Add(1)
		if !time.Now().Before(end) {
			return nil
		}
	}
}
