package wire

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"

	"headgate/e2e/harness"
	"headgate/internal/modelstub"
)

// An answer that the upstream cuts off is cut off at the client: its bytes are forwarded, nothing
// is added, and it does not end like a complete one.
func TestTruncatedAnswers(t *testing.T) {
	t.Parallel()
	p := newDirectAndGated(t, modelstub.Config{}, harness.Settings{Workers: 1})
	cases := 0
	for name, a := range testRequests() {
		faults := []string{"truncate=half", "truncate=half;length=wrong", "reset_after=1", "malformed=1"}
		if strings.Contains(a.body, streamed) {
			faults = []string{"truncate=2", "truncate=0", "reset_after=2", "malformed=2"}
		}
		if name == "refused by upstream" {
			continue // answered before the fault strikes
		}
		for _, fault := range faults {
			cases++
			t.Run(name+" "+fault, func(t *testing.T) {
				whole := p.fetch(t, p.stub.URL, a)
				a := a
				a.header = map[string]string{"Stub-Fault": fault}
				got := p.fetch(t, p.gate.URL, a)
				if !got.Broken {
					t.Errorf("the answer ended as if it were whole: status %d, %.300q", got.Status, got.Body)
				}
				if !strings.HasPrefix(whole.Body, got.Body) {
					t.Errorf("got %.300q, which is no beginning of the whole answer %.300q", got.Body, whole.Body)
				}
			})
		}
	}
	harness.Eventually(t, "every task is counted as truncated and the permit is back", func() bool {
		m := p.gate.Scrape(t)
		return m.Sum("headgate_tasks_total", "outcome", "truncated") == float64(cases) && m.Sum("headgate_in_flight") == 0
	})
}

// After a reset before any byte, the client gets a 502 of the gate.
func TestResetBeforeHeadersIs502(t *testing.T) {
	t.Parallel()
	p := newDirectAndGated(t, modelstub.Config{}, harness.Settings{Workers: 1})
	for name, a := range testRequests() {
		if name == "refused by upstream" {
			continue
		}
		a.header = map[string]string{"Stub-Fault": "reset"}
		got := p.fetch(t, p.gate.URL, a)
		if got.Status != http.StatusBadGateway || !strings.Contains(got.Body, `"code":"upstream_unreachable"`) {
			t.Errorf("%s: status %d, body %s", name, got.Status, got.Body)
		}
		if got.Header.Get("Retry-After") != "" || got.Header.Get("Headgate-Reason") != "" {
			t.Errorf("%s: looks like a refusal: %v", name, got.Header)
		}
	}
	if got := p.stub.Stats().Faulted; got != int64(len(testRequests())-1) {
		t.Errorf("the stub was called %d times, want once for each request", got)
	}
}

// Bytes reach the client at once, while the upstream still holds back the rest.
func TestPiecesAreForwardedAtOnce(t *testing.T) {
	t.Parallel()
	p := newDirectAndGated(t, modelstub.Config{}, harness.Settings{Workers: 1})
	for _, encoding := range []string{"", "gzip", "br", "zstd"} {
		ctx, leave := context.WithCancel(t.Context())
		defer leave()
		r := testRequest{path: "/v1/chat/completions", body: body(hello, streamed), header: map[string]string{
			"Stub-Fault": "hang_after=3", "Stub-Encoding": encoding,
		}}.request(t, p.gate.URL)
		res, err := p.client.Do(r.WithContext(ctx))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if encoding == "" {
			lines := bufio.NewScanner(res.Body)
			for events := 0; events < 3; {
				if !lines.Scan() {
					t.Fatalf("the stream ended after %d events: %v", events, lines.Err())
				}
				if strings.HasPrefix(lines.Text(), "data: ") {
					events++
				}
			}
		} else if _, err := res.Body.Read(make([]byte, 1)); err != nil {
			t.Fatalf("%s: %v", encoding, err)
		}
		if got := p.stub.Stats().InFlight; got != 1 {
			t.Errorf("%q: the stub has %d calls in flight, want the one that hangs", encoding, got)
		}
		leave()
		harness.Eventually(t, "the stub sees the client leave, and the permit is back", func() bool {
			return p.stub.Stats().InFlight == 0 && p.gate.Scrape(t).Sum("headgate_in_flight") == 0
		})
	}
	harness.Eventually(t, "all four count as client_gone", func() bool {
		return p.gate.Scrape(t).Sum("headgate_tasks_total", "outcome", "client_gone") == 4
	})
}
