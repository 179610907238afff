package fault

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"headgate/internal/testkit"
)

const fullAnswer = `{"id":"1","choices":[{"finish_reason":"stop","text":"what the model says to it"}]}`

// fakeEndpoint answers every call with the same text.
type fakeEndpoint struct {
	text    string
	unknown bool // the length of the answer is not announced
	calls   atomic.Int64
	open    atomic.Int64 // answers that were not closed
}

func (e *fakeEndpoint) RoundTrip(r *http.Request) (*http.Response, error) {
	e.calls.Add(1)
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	e.open.Add(1)
	res := &http.Response{StatusCode: 200, Header: http.Header{}, ContentLength: int64(len(e.text)), Request: r}
	if e.unknown {
		res.ContentLength = -1
	}
	res.Body = &countedBody{Reader: strings.NewReader(e.text), open: &e.open}
	return res, nil
}

type countedBody struct {
	io.Reader
	open   *atomic.Int64
	closed atomic.Bool
}

func (c *countedBody) Close() error {
	if c.closed.CompareAndSwap(false, true) {
		c.open.Add(-1)
	}
	return nil
}

// testInjector is an Injector before an endpoint.
type testInjector struct {
	testing.TB
	*Injector
	endpoint *fakeEndpoint
}

func newTestInjector(t testing.TB) *testInjector {
	to := &fakeEndpoint{text: fullAnswer}
	return &testInjector{TB: t, Injector: New(to, 1), endpoint: to}
}

func (r *testInjector) inject(f Fault, ttl time.Duration) *Lease {
	r.Helper()
	l, err := r.Inject(f, Scope{}, ttl)
	if err != nil {
		r.Fatal(err)
	}
	return l
}

func (r *testInjector) clear() Report {
	r.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), testkit.Timeout(time.Second))
	defer cancel()
	report, err := r.Clear(ctx)
	if err != nil {
		r.Fatal(err)
	}
	return report
}

// answer is what came of one call.
type answer struct {
	status int
	text   string
	took   time.Duration
	err    error
}

func (a answer) intact() bool { return a.err == nil && a.status == 200 && a.text == fullAnswer }

func (r *testInjector) call(ctx context.Context) answer {
	began := time.Now()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://endpoint/v1", strings.NewReader("{}"))
	if err != nil {
		return answer{err: err}
	}
	res, err := r.RoundTrip(req)
	if err != nil {
		return answer{err: err, took: time.Since(began)}
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	return answer{res.StatusCode, string(text), time.Since(began), err}
}

// start makes a call in the background.
func (r *testInjector) start(ctx context.Context) <-chan answer {
	c := make(chan answer, 1)
	go func() { c <- r.call(ctx) }()
	return c
}

var errCallerGone = errors.New("the caller left")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Hits is how many calls the fault has hit.
func (l *Lease) Hits() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hits
}
