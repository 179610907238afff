package loadgen

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// countConns makes a server count the connections it is given.
func countConns(srv *httptest.Server) *atomic.Int64 {
	var n atomic.Int64
	srv.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			n.Add(1)
		}
	}
	return &n
}

func TestOwnClientKeepsItsConnections(t *testing.T) {
	const together = 20
	var in, waves atomic.Int64
	release := make(chan struct{}, 1000)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if in.Add(1)%together == 0 { // the whole wave is here
			waves.Add(1)
			for range together {
				release <- struct{}{}
			}
		}
		select {
		case <-release:
			writeJSON(w, answer)
		case <-r.Context().Done():
		}
	}))
	conns := countConns(srv)
	srv.Start()
	defer srv.Close()

	// The second wave begins when the first has long ended, so it finds twenty
	// idle connections; the default transport would have kept two.
	wave := make(Arrivals, together)
	second := make(chan struct{})
	var ended atomic.Int64
	src := &gatedSource{first: wave, open: second}
	rep, err := Run(t.Context(), Config{URL: srv.URL, MaxSendLag: time.Hour, Observe: func(Result) {
		if ended.Add(1) == together {
			close(second)
		}
	}}, src)
	if err != nil {
		t.Fatal(err)
	}
	if rep.ByOutcome[OK] != 2*together || waves.Load() != 2 {
		t.Errorf("outcomes %v in %d waves, want all %d ok in 2", rep.ByOutcome, waves.Load(), 2*together)
	}
	// A connection may still be on its way back to the pool when the next wave starts.
	if n := conns.Load(); n > together+together/2 {
		t.Errorf("%d connections for two waves of %d, want them used again", n, together)
	}
}

// gatedSource yields a sequence, waits, and yields it again.
type gatedSource struct {
	first Arrivals
	open  chan struct{}
	n     int
}

func (g *gatedSource) Next() (Arrival, bool) {
	i := g.n
	g.n++
	if i == len(g.first) {
		<-g.open
	}
	if i >= 2*len(g.first) {
		return Arrival{}, false
	}
	return g.first[i%len(g.first)], true
}

func TestATraceOverRealSockets(t *testing.T) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		sse(stream)(w, r)
	}))
	defer srv.Close()
	code, err := CodeTrace()
	if err != nil {
		t.Fatal(err)
	}
	part := code.Take(500)
	rep, err := Run(t.Context(), Config{URL: srv.URL + "/v1", Stream: true, Speed: 200, Timeout: MaxSpan}, part.Source())
	if err != nil {
		t.Fatal(err)
	}
	if rep.Arrivals != 500 || rep.ByOutcome[OK] != 500 || rep.Span != part.Stats().Span.Seconds() {
		t.Errorf("got %+v, want 500 ok over %v", rep, part.Stats().Span)
	}
	if rep.Bytes != int64(500*len(stream)) || rep.ByStatus["200"] != 500 {
		t.Errorf("%d bytes, statuses %v, want every byte counted", rep.Bytes, rep.ByStatus)
	}
}

func TestOwnClientFollowsNoRedirectAndConnectsNowhere(t *testing.T) {
	srv := httptest.NewServer(http.RedirectHandler("/other", http.StatusPermanentRedirect))
	address := srv.URL
	rep, err := Run(t.Context(), Config{URL: address}, arrivalsAt(0).Source())
	if err != nil || rep.ByStatus["308"] != 1 || rep.ByCause[BadStatus] != 1 {
		t.Errorf("got %v and %+v, want the redirect itself", err, rep)
	}
	srv.Close()
	rep, err = Run(t.Context(), Config{URL: address}, arrivalsAt(0).Source())
	if err != nil || rep.ByCause[Connect] != 1 {
		t.Errorf("got %v and %+v, want no connection", err, rep)
	}
}

func BenchmarkArrival(b *testing.B) {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		writeJSON(w, answer)
	}))
	defer srv.Close()
	arrivals := make(Arrivals, b.N)
	for i := range arrivals {
		arrivals[i] = Arrival{At: time.Duration(i) * 200 * time.Microsecond, PromptTokens: 1000}
	}
	b.ReportAllocs()
	b.ResetTimer()
	rep, err := Run(b.Context(), Config{URL: srv.URL}, arrivals.Source())
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(rep.SendLag.P99*1e3, "ms-lag-p99")
	b.ReportMetric(rep.Turnaround.P50*1e3, "ms-p50")
}
