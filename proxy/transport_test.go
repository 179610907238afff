package proxy

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"headgate/proxy/admission"
)

// wireRequest is a request as a wireServer read it.
type wireRequest struct {
	conn, n int // which connection, and which request on it, from 1
	*http.Request
	body string
}

// wireServer is an upstream in terms of connections. A script is called when the first
// byte of a request has arrived, and says whether the connection stays.
type wireServer struct {
	net.Listener
	script func(*wireConn) bool
	served sync.WaitGroup

	mu    sync.Mutex
	conns []*wireConn
	seen  []wireRequest
}

// wireConn is a connection before its nth request.
type wireConn struct {
	net.Conn
	server  *wireServer
	in      *bufio.Reader
	conn, n int
}

// withWireServer makes a wireServer the upstream of a test's pool.
func withWireServer(t *testing.T, p *fixture, script func(*wireConn) bool) *wireServer {
	t.Helper()
	s := &wireServer{Listener: p.network.listen(t), script: script}
	p.pool.Upstream = must(url.Parse("http://" + s.Addr().String() + "/v1"))
	s.served.Go(s.serve)
	p.more = func(r *testProxy) []Pool { // in the bubble of the test, if there is one
		r.Cleanup(s.close)
		return nil
	}
	return s
}

func (s *wireServer) serve() {
	for {
		c, err := s.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		w := &wireConn{Conn: c, server: s, in: bufio.NewReader(c), conn: len(s.conns) + 1}
		s.conns = append(s.conns, w)
		s.mu.Unlock()
		s.served.Go(func() {
			defer c.Close()
			for w.n = 1; ; w.n++ {
				if _, err := w.in.Peek(1); err != nil || !s.script(w) {
					return
				}
			}
		})
	}
}

func (s *wireServer) close() {
	_ = s.Listener.Close()
	s.mu.Lock()
	for _, c := range s.conns {
		_ = c.Close()
	}
	s.mu.Unlock()
	s.served.Wait()
}

func (s *wireServer) requests() []wireRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]wireRequest(nil), s.seen...)
}

// read reads the request.
func (c *wireConn) read() bool {
	r, err := http.ReadRequest(c.in)
	if err != nil {
		return false
	}
	body, err := io.ReadAll(r.Body)
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	c.server.seen = append(c.server.seen, wireRequest{c.conn, c.n, r, string(body)})
	return err == nil
}

// answer reads the request and answers it.
func (c *wireConn) answer() bool {
	if !c.read() {
		return false
	}
	_, err := io.WriteString(c, jsonHead+lengthOf(fullJSON)+"\r\n\r\n"+fullJSON)
	return err == nil
}

// An upstream may close an idle connection while a request is on its way: no client
// notices. Here every connection is closed exactly when its second request is there, in
// each of the ways that this can look like.
func TestIdleRaceIsRetried(t *testing.T) {
	large := `{"model":"m","input":"` + strings.Repeat("x", 1<<20) + `"}`
	for name, c := range map[string]struct {
		path, body string
		end        func(*wireConn)
	}{
		"after the request":          {chatPath, chat, func(c *wireConn) { c.read() }},
		"after the request, a reset": {chatPath, chat, func(c *wireConn) { c.read(); resetOnEnd(context.Background(), c.Conn) }},
		"before the request is read": {chatPath, chat, func(*wireConn) {}},
		"a stream":                   {chatPath, stream, func(c *wireConn) { c.read() }},
		"while a large one is written": {"/v1/embeddings", large, func(c *wireConn) {
			_, _ = io.CopyN(io.Discard, c.in, 100<<10)
			resetOnEnd(context.Background(), c.Conn)
		}},
		"a response that is not kept": {responsesPath, `{"model":"m","store":false,"background":null}`, func(c *wireConn) { c.read() }},
		"completions":                 {"/v1/completions", chat, func(c *wireConn) { c.read() }},
		"an endpoint with retry":      {"/v1/rerank", chat, func(c *wireConn) { c.read() }},
	} {
		t.Run(name, func(t *testing.T) {
			const burst = 8
			var raced atomic.Int64
			var first sync.WaitGroup // each of the first requests gets a connection of its own
			first.Add(burst)
			var upstream *wireServer
			r := newTestProxy(t, func(p *fixture) {
				p.gate.Workers = burst
				p.pool.Endpoints = []Endpoint{{Method: "POST", Path: "/v1/rerank", Gate: true, Retry: true}}
				upstream = withWireServer(t, p, func(w *wireConn) bool {
					if w.n > 1 {
						raced.Add(1)
						c.end(w)
						return false
					}
					if w.conn <= burst {
						first.Done()
						first.Wait()
					}
					return w.answer()
				})
			})
			for range 4 {
				var calls []call
				for range burst {
					calls = append(calls, r.start(c.path, c.body))
				}
				for _, call := range calls {
					r.wantCompleted(call.wait())
				}
			}
			if n := r.sum("headgate_upstream_retries_total", "pool", "main"); int64(n) != raced.Load() || n < burst {
				t.Errorf("%v retries counted, %d connections ended with a request", n, raced.Load())
			}
			if n := strings.Count(r.logs.String(), "sent again"); int64(n) != raced.Load() {
				t.Errorf("%d log lines, want %d", n, raced.Load())
			}
			for _, q := range upstream.requests() {
				if q.body != c.body && q.n == 1 {
					t.Errorf("the upstream got %d bytes, want %d", len(q.body), len(c.body))
				}
				if len(q.Header.Values("Idempotency-Key"))+len(q.Header.Values("X-Idempotency-Key")) > 0 {
					t.Errorf("a mark of ours: %v", q.Header)
				}
			}
		})
	}
}

// The same over TLS, where closing looks different, with both versions of HTTP.
func TestIdleRaceOverTLS(t *testing.T) {
	for name, http2 := range map[string]bool{"HTTP/1.1": false, "HTTP/2": true} {
		t.Run(name, func(t *testing.T) {
			type connKey struct{}
			type served struct {
				net.Conn
				n atomic.Int64
			}
			upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				c := r.Context().Value(connKey{}).(*served)
				_, _ = io.Copy(io.Discard, r.Body)
				if (r.ProtoMajor == 2) != http2 {
					t.Errorf("by %s", r.Proto)
				}
				if c.n.Add(1) > 1 {
					_ = c.Conn.(*tls.Conn).NetConn().Close()
					panic(http.ErrAbortHandler)
				}
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, fullJSON)
			}))
			upstream.EnableHTTP2 = http2
			upstream.Config.ErrorLog = discardLog()
			upstream.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
				return context.WithValue(ctx, connKey{}, &served{Conn: c})
			}
			upstream.StartTLS()
			t.Cleanup(upstream.Close)
			r := newTestProxy(t, func(p *fixture) {
				p.pool.Upstream = must(url.Parse(upstream.URL + "/v1"))
				p.pool.Connections.TLS.CA = pemOf(upstream.Certificate().Raw)
			})
			for range 4 {
				r.wantCompleted(r.chat())
			}
			if n := r.sum("headgate_upstream_retries_total"); n != 2 {
				t.Errorf("%v retries, want 2", n)
			}
		})
	}
}

// What may have been begun upstream is not sent again, and nothing is sent three times.
func TestWhatIsNotRetried(t *testing.T) {
	endSecond := func(w *wireConn) bool {
		if w.n == 1 && w.conn == 1 {
			return w.answer()
		}
		w.read()
		return false
	}
	endWith := func(answer string) func(*wireConn) bool {
		return func(w *wireConn) bool {
			if w.n == 1 && w.conn == 1 {
				return w.answer()
			}
			w.read()
			_, _ = io.WriteString(w, answer)
			return false
		}
	}
	post := func(path, body string, header ...string) func(*testProxy) answer {
		return func(r *testProxy) answer { return r.post(path, body, header...) }
	}
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = io.WriteString(z, `{"model":"m","store":true}`)
	_ = z.Close()
	for name, c := range map[string]struct {
		script func(*wireConn) bool
		send   func(*testProxy) answer
		seen   int // requests upstream, the first and answered one included
	}{
		"the retry fails too":        {endSecond, post(chatPath, chat), 3},
		"reading, the retry fails":   {endSecond, getModels, 3},
		"begun to answer":            {endWith("H"), post(chatPath, chat), 2},
		"an interim answer":          {endWith("HTTP/1.1 100 Continue\r\n\r\n"), post(chatPath, chat), 2},
		"headers only":               {endWith(jsonHead), post(chatPath, chat), 2},
		"a path of the settings":     {endSecond, post("/v1/rerank", chat), 2},
		"with an idempotency key":    {endSecond, post("/v1/rerank", chat, "Idempotency-Key", "k"), 2},
		"with another one":           {endSecond, post("/v1/rerank", chat, "X-Idempotency-Key", "k"), 2},
		"a form":                     {endSecond, post("/v1/rerank", "--b\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--b--\r\n", "Content-Type", "multipart/form-data; boundary=b"), 2},
		"a response to keep":         {endSecond, post(responsesPath, `{"model":"m","store":true}`), 2},
		"one to keep, said late":     {endSecond, post(responsesPath, `{"model":"m","store":false,"store":true}`), 2},
		"one to keep, spelled oddly": {endSecond, post(responsesPath, `{"model":"m","st\u006fre":true}`), 2},
		"one to keep, compressed":    {endSecond, post(responsesPath, zipped.String(), "Content-Encoding", "gzip"), 2},
		"one in the background":      {endSecond, post(responsesPath, `{"background":true,"model":"m"}`), 2},
	} {
		t.Run(name, func(t *testing.T) {
			var upstream *wireServer
			r := newTestProxy(t, func(p *fixture) {
				p.pool.Endpoints = []Endpoint{{Method: "POST", Path: "/v1/rerank", Gate: true}}
				upstream = withWireServer(t, p, c.script)
			})
			r.wantCompleted(r.chat())
			if a := c.send(r); a.status != http.StatusBadGateway {
				t.Errorf("status %d (%v)", a.status, a.err)
			}
			seen := upstream.requests()
			if len(seen) != c.seen {
				t.Errorf("%d requests upstream, want %d", len(seen), c.seen)
			}
			if n := r.sum("headgate_upstream_retries_total"); int(n) != c.seen-2 {
				t.Errorf("%v retries counted, want %d", n, c.seen-2)
			}
			if name == "with an idempotency key" && seen[1].Header.Get("Idempotency-Key") != "k" {
				t.Errorf("the client's key did not arrive: %v", seen[1].Header)
			}
		})
	}
}

func getModels(r *testProxy) answer {
	res, err := r.client.Get(r.server.url() + modelsPath)
	if err != nil {
		return answer{err: err}
	}
	return read(res)
}

// A connection that has not served before does not end because it was idle.
func TestNewConnectionIsNotRetried(t *testing.T) {
	var upstream *wireServer
	r := newTestProxy(t, func(p *fixture) {
		upstream = withWireServer(t, p, func(w *wireConn) bool { w.read(); return false })
	})
	r.wantFailure(r.chat(), http.StatusBadGateway, "upstream_unreachable")
	if a := getModels(r); a.status != http.StatusBadGateway {
		t.Errorf("models: status %d", a.status)
	}
	if n := len(upstream.requests()); n != 2 {
		t.Errorf("%d requests upstream, want 2", n)
	}
}

// Reading is retried once as well, though several idle connections have ended.
func TestReadingIsRetried(t *testing.T) {
	var upstream *wireServer
	const burst = 4
	var first sync.WaitGroup
	first.Add(burst)
	r := newTestProxy(t, func(p *fixture) {
		upstream = withWireServer(t, p, func(w *wireConn) bool {
			if w.n > 1 {
				w.read()
				return false
			}
			if w.conn <= burst {
				first.Done()
				first.Wait()
			}
			return w.answer()
		})
	})
	var calls []call
	for range burst {
		calls = append(calls, r.start(chatPath, chat))
	}
	for _, c := range calls {
		r.wantCompleted(c.wait())
	}
	r.wantCompleted(getModels(r))
	seen := upstream.requests()
	last := seen[len(seen)-1]
	if len(seen) != burst+2 || last.conn != burst+1 || last.body != "" || last.ContentLength != 0 || len(last.TransferEncoding) > 0 {
		t.Errorf("%d requests, the last on connection %d with length %d %v", len(seen), last.conn, last.ContentLength, last.TransferEncoding)
	}
	if n := r.sum("headgate_upstream_retries_total"); n != 1 {
		t.Errorf("%v retries", n)
	}
}

// Nothing is sent again for a client that has left.
func TestNoRetryWithoutClient(t *testing.T) {
	var upstream *wireServer
	arrived, gone := make(chan struct{}), make(chan struct{})
	r := newTestProxy(t, func(p *fixture) {
		upstream = withWireServer(t, p, func(w *wireConn) bool {
			if w.n == 1 {
				return w.answer()
			}
			w.read()
			close(arrived)
			<-gone
			return false
		})
	})
	r.wantCompleted(r.chat())
	second := r.start(chatPath, chat)
	<-arrived
	second.leave()
	<-second.answer
	o := r.task(2)
	close(gone)
	if o.Outcome != admission.ClientGone || len(upstream.requests()) != 2 {
		t.Errorf("outcome %s, %d requests upstream", o.Outcome, len(upstream.requests()))
	}
}

// A connection that ends later has not ended because it was idle, and past its deadline
// nobody waits for the answer.
func TestRetryInTime(t *testing.T) {
	for name, c := range map[string]struct {
		after    time.Duration
		deadline string
		status   int
	}{
		"at once":             {0, "", http.StatusOK},
		"within a second":     {retryWithin - time.Millisecond, "", http.StatusOK},
		"after a second":      {retryWithin + time.Millisecond, "", http.StatusBadGateway},
		"after a while":       {time.Minute, "", http.StatusBadGateway},
		"before the deadline": {500 * time.Millisecond, "0.6", http.StatusOK},
		"after the deadline":  {500 * time.Millisecond, "0.4", http.StatusBadGateway},
	} {
		t.Run(name, func(t *testing.T) {
			withSynctest(t, func(p *fixture) {
				withWireServer(t, p, func(w *wireConn) bool {
					if w.n == 1 {
						return w.answer()
					}
					w.read()
					time.Sleep(c.after)
					return false
				})
			}, func(r *testProxy) {
				r.wantCompleted(r.chat())
				if a := r.chat(deadlineHeader, cmp.Or(c.deadline, "60")); a.status != c.status {
					t.Errorf("status %d (%v), want %d", a.status, a.err, c.status)
				}
			})
		})
	}
}

// An upstream that closes idle connections after five seconds, as uvicorn does, does not
// meet any request: they are closed here before.
func TestIdleConnectionsAreClosedFirst(t *testing.T) {
	const burst = 4
	for name, c := range map[string]struct {
		idle, between time.Duration
		conns         int // of three bursts
		retries       bool
	}{
		"used in time":       {4 * time.Second, 3900 * time.Millisecond, burst, false},
		"after five seconds": {4 * time.Second, 5 * time.Second, 3 * burst, false},
		"just before":        {4 * time.Second, 4990 * time.Millisecond, 3 * burst, false},
		"kept for longer":    {time.Minute, 4990 * time.Millisecond, 3 * burst, true},
		"not kept":           {0, time.Millisecond, 3 * burst, false},
	} {
		t.Run(name, func(t *testing.T) {
			var upstream *wireServer
			withSynctest(t, func(p *fixture) {
				p.gate.Workers, p.pool.Connections.Idle = burst, c.idle
				upstream = withWireServer(t, p, func(w *wireConn) bool {
					_ = w.SetReadDeadline(time.Time{})
					if c.retries && w.n > 1 { // it had begun to close when the request arrived
						w.read()
						return false
					}
					time.Sleep(time.Millisecond) // so that the requests of a burst do not share a connection
					ok := w.answer()
					_ = w.SetReadDeadline(time.Now().Add(5 * time.Second))
					return ok
				})
			}, func(r *testProxy) {
				for range 3 {
					var calls []call
					for range burst {
						calls = append(calls, r.start(chatPath, chat))
					}
					for _, call := range calls {
						r.wantCompleted(call.wait())
					}
					time.Sleep(c.between)
				}
				upstream.mu.Lock()
				defer upstream.mu.Unlock()
				if n := r.sum("headgate_upstream_retries_total"); n > 0 != c.retries || !c.retries && len(upstream.conns) != c.conns {
					t.Errorf("%v retries, %d connections", n, len(upstream.conns))
				}
			})
		})
	}
}

// A balancer of connections has two replicas; the second one is added while all
// connections are in use. It gets its share of the work once they have reached their
// maximum age, and each of them is announced to end.
func TestConnectionsHaveAMaximumAge(t *testing.T) {
	const workers = 8
	for name, c := range map[string]struct {
		age   time.Duration
		least int // requests of the last minute, of 8 × 60, that the second replica gets
	}{
		"a minute": {time.Minute, workers * 60 / 3},
		"no limit": {0, 0},
	} {
		t.Run(name, func(t *testing.T) {
			var added atomic.Bool
			var second, announced, minute atomic.Int64
			var upstream *wireServer
			withSynctest(t, func(p *fixture) {
				p.gate.Workers, p.pool.Connections.MaxAge = workers, c.age
				var replicas sync.Map
				upstream = withWireServer(t, p, func(w *wireConn) bool {
					on, _ := replicas.LoadOrStore(w.conn, added.Load() && w.conn%2 == 0)
					time.Sleep(900 * time.Millisecond)
					if on.(bool) && minute.Load() == 3 {
						second.Add(1)
					}
					r, err := http.ReadRequest(w.in)
					if err != nil {
						return false
					}
					_, _ = io.Copy(io.Discard, r.Body)
					if r.Close {
						announced.Add(1)
					}
					_, _ = io.WriteString(w, jsonHead+lengthOf(fullJSON)+"\r\n\r\n"+fullJSON)
					return !r.Close
				})
			}, func(r *testProxy) {
				for i := range int64(4) {
					minute.Store(i)
					added.Store(i > 0)
					for range 60 {
						var calls []call
						for range workers {
							calls = append(calls, r.start(chatPath, chat))
						}
						for _, call := range calls {
							r.wantCompleted(call.wait())
						}
						time.Sleep(100 * time.Millisecond)
					}
				}
				if n := int(second.Load()); n < c.least || c.least == 0 && n > 0 {
					t.Errorf("the second replica got %d of %d requests", n, workers*60)
				}
				upstream.mu.Lock()
				defer upstream.mu.Unlock()
				if c.age == 0 && len(upstream.conns) != workers || c.age > 0 && len(upstream.conns) > 6*workers {
					t.Errorf("%d connections", len(upstream.conns))
				}
				if n := r.sum("headgate_upstream_retries_total"); n != 0 {
					t.Errorf("%v retries", n)
				}
			})
		})
	}
}

func pemOf(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

// newCertificate returns a certificate for localhost signed by itself, with its key in PEM.
func newCertificate(t *testing.T) (cert, key string) {
	t.Helper()
	private := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der := must(x509.CreateCertificate(rand.Reader, template, template, private.Public(), private))
	return pemOf(der), string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(private))}))
}

// The upstream's certificate is checked against the given authority, and asks for ours.
func TestUpstreamTLS(t *testing.T) {
	serverCert, serverKey := newCertificate(t)
	clientCert, clientKey := newCertificate(t)
	otherCert, otherKey := newCertificate(t)
	clients := x509.NewCertPool()
	clients.AppendCertsFromPEM([]byte(clientCert))
	upstream := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, fullJSON)
	}))
	upstream.Config.ErrorLog = discardLog()
	upstream.TLS = &tls.Config{
		MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{must(tls.X509KeyPair([]byte(serverCert), []byte(serverKey)))},
		ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: clients,
	}
	upstream.StartTLS()
	t.Cleanup(upstream.Close)
	for name, c := range map[string]struct {
		tls    TLS
		status int
	}{
		"nothing given":             {TLS{}, http.StatusBadGateway},
		"no certificate of ours":    {TLS{CA: serverCert}, http.StatusBadGateway},
		"one that is not accepted":  {TLS{serverCert, otherCert, otherKey}, http.StatusBadGateway},
		"another authority":         {TLS{otherCert, clientCert, clientKey}, http.StatusBadGateway},
		"all":                       {TLS{serverCert, clientCert, clientKey}, http.StatusOK},
		"an authority among others": {TLS{otherCert + serverCert, clientCert, clientKey}, http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestProxy(t, func(p *fixture) {
				p.pool.Upstream = must(url.Parse(upstream.URL + "/v1"))
				p.pool.Connections.TLS = c.tls
			})
			if a := r.chat(); a.status != c.status {
				t.Errorf("status %d, want %d\n%s", a.status, c.status, r.logs)
			}
		})
	}
	for name, c := range map[string]TLS{
		"an authority that is none": {CA: "x"}, "a certificate without key": {Cert: clientCert},
		"a key without certificate": {Key: clientKey}, "the key of another one": {Cert: clientCert, Key: otherKey},
	} {
		if _, err := c.Config(); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}

// Pools whose connections would be made differently do not share them after a reload.
func TestReloadWithOtherConnections(t *testing.T) {
	for name, c := range map[string]struct {
		edit func(*Pool)
		kept bool
	}{
		"the same":       {func(*Pool) {}, true},
		"other models":   {func(p *Pool) { p.Models = []string{"m"} }, true},
		"another age":    {func(p *Pool) { p.Connections.MaxAge++ }, false},
		"another idle":   {func(p *Pool) { p.Connections.Idle++ }, false},
		"another CA":     {func(p *Pool) { p.Connections.TLS.CA, _ = newCertificate(t) }, false},
		"another server": {func(p *Pool) { p.Upstream = must(url.Parse("http://127.0.0.1:1/v1")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newTestProxy(t, nil)
			before := r.proxy.routes.Load().pools[0].conns
			after := r.config
			after.Pools = append([]Pool(nil), after.Pools...)
			c.edit(&after.Pools[0])
			r.proxy.Apply(must(r.proxy.Prepare(after)))
			if kept := r.proxy.routes.Load().pools[0].conns == before; kept != c.kept {
				t.Errorf("kept: %t", kept)
			}
		})
	}
}
