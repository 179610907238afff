package proxy

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"testing"
	"time"

	"headgate/internal/testkit"
	"headgate/proxy/admission"
)

// darkRelay relays connections. Once they are dark, both ends stay open and nothing
// passes any more, as after a failed network path. Later connections work.
type darkRelay struct {
	net.Listener
	target string
	mu     sync.Mutex
	conns  []net.Conn
	dark   []*sync.Mutex // of each connection; locked: nothing passes
	copies sync.WaitGroup
}

func newDarkRelay(t *testing.T, target string) *darkRelay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &darkRelay{Listener: l, target: target}
	d.copies.Go(d.serve)
	t.Cleanup(func() {
		_ = l.Close()
		d.mu.Lock()
		for i := range d.dark {
			_ = d.conns[2*i].Close()
			_ = d.conns[2*i+1].Close()
			d.dark[i].TryLock() // whether it was dark or not
			d.dark[i].Unlock()
		}
		d.mu.Unlock()
		d.copies.Wait()
	})
	return d
}

func (d *darkRelay) serve() {
	for {
		in, err := d.Accept()
		if err != nil {
			return
		}
		out, err := net.Dial("tcp", d.target)
		if err != nil {
			_ = in.Close()
			continue
		}
		dark := new(sync.Mutex)
		d.mu.Lock()
		d.conns, d.dark = append(d.conns, in, out), append(d.dark, dark)
		d.mu.Unlock()
		relay := func(to, from net.Conn) {
			defer to.Close()
			buf := make([]byte, 4<<10)
			for {
				n, err := from.Read(buf)
				dark.Lock()
				_, _ = to.Write(buf[:n])
				dark.Unlock()
				if err != nil {
					return
				}
			}
		}
		d.copies.Go(func() { relay(in, out) })
		d.copies.Go(func() { relay(out, in) })
	}
}

// cut makes the present connections dark and returns how many there are.
func (d *darkRelay) cut() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, m := range d.dark {
		m.Lock()
	}
	return len(d.dark)
}

// newHTTP2Proxy is a proxy in front of an HTTP/2 upstream behind a relay.
func newHTTP2Proxy(t *testing.T, pingAfter time.Duration, handler http.HandlerFunc) (*testProxy, *darkRelay) {
	t.Helper()
	upstream := httptest.NewUnstartedServer(handler)
	upstream.EnableHTTP2 = true
	upstream.Config.ErrorLog = discardLog()
	upstream.StartTLS()
	t.Cleanup(upstream.Close)
	relay := newDarkRelay(t, upstream.Listener.Addr().String())
	roots := x509.NewCertPool()
	roots.AddCert(upstream.Certificate())
	r := newTestProxy(t, func(p *fixture) {
		p.pool.IdleTimeout = testkit.Timeout(500 * time.Millisecond)
		if pingAfter < time.Hour {
			p.pool.IdleTimeout = time.Hour
		}
		p.pool.Upstream = must(url.Parse("https://" + relay.Addr().String() + "/v1"))
		conns := newUpstreamConns(func() *http.Transport {
			transport := newTransport(p.pool)
			transport.TLSClientConfig = &tls.Config{RootCAs: roots, ServerName: "example.com", MinVersion: tls.VersionTLS12}
			transport.HTTP2.SendPingTimeout = pingAfter
			transport.HTTP2.PingTimeout = testkit.Timeout(300 * time.Millisecond)
			return transport
		})
		p.pool.Transport = conns
	})
	r.proxy.routes.Load().pools[0].conns = r.proxy.routes.Load().pools[0].transport.(*upstreamConns)
	return r, relay
}

func answerHTTP2(t *testing.T) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("the request came by %s", r.Proto)
		}
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, fullJSON)
	}
}

// A dead HTTP/2 connection fails one request, which a ping detects long before the
// upstream's idle timeout; the next request gets a new connection.
func TestDeadHTTP2ConnectionIsDetected(t *testing.T) {
	r, relay := newHTTP2Proxy(t, testkit.Timeout(300*time.Millisecond), answerHTTP2(t))
	r.wantCompleted(r.chat())
	if n := relay.cut(); n != 1 {
		t.Fatalf("%d connections", n)
	}
	// A request that may be sent twice would be: the limits are short here.
	r.wantFailure(r.post(responsesPath, `{"model":"m","store":true}`), http.StatusBadGateway, "upstream_unreachable")
	r.wantCompleted(r.chat())
}

// A connection on which a request went silent is not used again, even without pings.
func TestSilentHTTP2ConnectionIsNotUsedAgain(t *testing.T) {
	r, relay := newHTTP2Proxy(t, time.Hour, answerHTTP2(t))
	r.wantCompleted(r.chat())
	relay.cut()
	r.wantFailure(r.chat(), http.StatusGatewayTimeout, "upstream_timeout")
	r.wantCompleted(r.chat())
}

// The same holds when the silence begins within the answer.
func TestSilenceWithinAnHTTP2Answer(t *testing.T) {
	started := make(chan struct{}, 2)
	r, relay := newHTTP2Proxy(t, time.Hour, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, events(delta))
		_ = http.NewResponseController(w).Flush()
		if started <- struct{}{}; len(started) == 2 {
			_, _ = io.WriteString(w, events(stop, done))
			return
		}
		<-r.Context().Done()
	})
	first := r.start(chatPath, stream)
	r.eventually("the stream has begun", func() bool { return len(started) == 1 })
	relay.cut()
	if a := first.wait(); a.err == nil {
		t.Errorf("a whole answer: %q", a.body)
	}
	if o := r.task(1); o.Outcome != admission.UpstreamTimeout {
		t.Errorf("outcome %s", o.Outcome)
	}
	r.wantCompleted(r.post(chatPath, stream))
}

// Requests that share the connection of a silent one go on.
func TestSilenceSparesOtherHTTP2Requests(t *testing.T) {
	release := make(chan struct{})
	r, _ := newHTTP2Proxy(t, time.Hour, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Content-Type", "text/event-stream")
		if string(body) != stream { // the silent one
			<-r.Context().Done()
			return
		}
		tick := time.NewTicker(testkit.Timeout(500*time.Millisecond) / 10)
		defer tick.Stop()
		for {
			_, _ = io.WriteString(w, events(delta))
			_ = http.NewResponseController(w).Flush()
			select {
			case <-release:
				_, _ = io.WriteString(w, events(stop, done))
				return
			case <-tick.C:
			}
		}
	})
	going := r.start(chatPath, stream)
	r.eventually("the stream has begun", func() bool { return r.heldResources().inFlight == 1 })
	r.wantFailure(r.chat(), http.StatusGatewayTimeout, "upstream_timeout")
	close(release)
	r.wantCompleted(going.wait())
}

func TestHTTP2ConnectionsArePinged(t *testing.T) {
	c := newTransport(Pool{}).HTTP2
	if c.SendPingTimeout <= 0 || c.SendPingTimeout > 30*time.Second || c.PingTimeout <= 0 || c.PingTimeout > 15*time.Second {
		t.Errorf("a ping after %s, closed after another %s", c.SendPingTimeout, c.PingTimeout)
	}
}
