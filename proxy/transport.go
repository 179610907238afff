package proxy

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/tidwall/gjson"
)

const (
	// Of an upstream connection, in each direction: enough for the usual request in
	// one write. An open stream holds both, and a copyBuffer.
	connBuffer   = 8 << 10
	maxIdleConns = 1024

	// An HTTP/2 connection without a frame for so long is pinged, and closed if there is no
	// answer: a dead one would fail every request until the kernel gives it up.
	pingAfter   = 15 * time.Second
	pingTimeout = 10 * time.Second

	// retryWithin is how soon after the request a connection must end for the end to be
	// that of an idle connection: a round trip, with much to spare. One that ends later
	// has probably failed at the request.
	retryWithin = time.Second
	// ageSpread is the part of the maximum age by which those of single connections
	// differ, so that connections that began together do not end together.
	ageSpread = 0.1
)

// Connections are the settings of a pool's connections to its upstream. They are
// comparable: equal ones may share connections.
type Connections struct {
	Idle   time.Duration // how long one is kept without a request; 0: a new one for every request
	MaxAge time.Duration // an older one is closed after its next answer; 0: no limit
	TLS    TLS
}

// TLS says whom an https upstream must be, and who the proxy is. All are in PEM.
type TLS struct {
	CA   string // accepted authorities; empty: those of the system
	Cert string // the proxy's own certificate, with intermediate ones; empty: none
	Key  string // its private key
}

// Config returns the configuration of connections, nil for the default one.
func (c TLS) Config() (*tls.Config, error) {
	if c == (TLS{}) {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if c.CA != "" {
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM([]byte(c.CA)) {
			return nil, errors.New("no certificate of an authority in PEM")
		}
	}
	if c.Cert != "" || c.Key != "" {
		pair, err := tls.X509KeyPair([]byte(c.Cert), []byte(c.Key))
		if err != nil {
			return nil, fmt.Errorf("client certificate: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// newTransport returns a pool's own transport: no shared limits, no compression of
// its own (the client gets what it requested), and enough idle connections for all
// tasks that can be in flight.
func newTransport(p Pool) *http.Transport {
	dialer := &net.Dialer{Timeout: p.ConnectTimeout, KeepAlive: 30 * time.Second}
	tlsConfig, _ := p.Connections.TLS.Config() // has been validated
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           limitAge(dialer.DialContext, p.Connections.MaxAge),
		TLSClientConfig:       tlsConfig,
		TLSHandshakeTimeout:   p.ConnectTimeout,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
		DisableKeepAlives:     p.Connections.Idle == 0,
		MaxIdleConnsPerHost:   maxIdleConns,
		IdleConnTimeout:       p.Connections.Idle,
		ExpectContinueTimeout: time.Second,
		WriteBufferSize:       connBuffer,
		ReadBufferSize:        connBuffer,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
	}
}

type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

// agingConn is a connection that is to be closed some time.
type agingConn struct {
	net.Conn
	end time.Time
}

// limitAge makes dialled connections end at about a maximum age; 0: they do not.
func limitAge(dial dialFunc, most time.Duration) dialFunc {
	if most == 0 {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		age := most - time.Duration(float64(most)*ageSpread*rand.Float64())
		return &agingConn{c, time.Now().Add(age)}, nil
	}
}

// tooOld reports whether a connection, or the one that it encrypts, has reached its
// maximum age.
func tooOld(c net.Conn) bool {
	for {
		switch over := c.(type) {
		case *agingConn:
			return !time.Now().Before(over.end)
		case interface{ NetConn() net.Conn }:
			c = over.NetConn()
		default:
			return false
		}
	}
}

// upstreamConns are the connections of a pool to its upstream. It sends a request a
// second time if its connection turns out to be closed: an upstream that closes idle
// connections does so while a request is on its way. It is safe for concurrent use.
type upstreamConns struct {
	dial    func() *http.Transport
	current atomic.Pointer[http.Transport]
	fresh   *http.Transport            // uses each connection once
	onRetry func(*http.Request, error) // may be nil
}

func newUpstreamConns(dial func() *http.Transport) *upstreamConns {
	u := &upstreamConns{dial: dial, fresh: dial()}
	u.fresh.DisableKeepAlives = true
	u.current.Store(dial())
	return u
}

// CloseIdleConnections closes those that are idle.
func (u *upstreamConns) CloseIdleConnections() { u.current.Load().CloseIdleConnections() }

// renew makes later requests use new connections. Requests on the present ones, which
// HTTP/2 shares, go on.
func (u *upstreamConns) renew() { u.current.Swap(u.dial()).CloseIdleConnections() }

// upstreamSilent is called when a request was given up because its upstream was
// silent: its connection may be dead. HTTP/1 has closed it; HTTP/2 would use it again.
func (p *pool) upstreamSilent() {
	if p.conns != nil && p.Upstream.Scheme == "https" {
		p.conns.renew()
	}
}

// RoundTrip sends a request on one of the present connections, or a new one. If it was
// a used one and ended before the answer, RoundTrip sends a request that may be
// repeated once more, on a new one.
func (u *upstreamConns) RoundTrip(r *http.Request) (*http.Response, error) {
	var a attempt
	res, err := u.current.Load().RoundTrip(a.begin(r))
	if err == nil || !a.endedIdle(err) || !mayRepeat(r) {
		return res, err
	}
	again := *r
	if r.Body != nil && r.Body != http.NoBody {
		body, bodyErr := r.GetBody()
		if bodyErr != nil {
			return nil, err
		}
		again.Body = body
	}
	if u.onRetry != nil {
		u.onRetry(r, err)
	}
	return u.fresh.RoundTrip(new(attempt).begin(&again))
}

// attempt is what happens to one request on its connection.
type attempt struct {
	header http.Header

	mu       sync.Mutex // the transport reports from several goroutines
	reused   bool       // the connection has served before
	answered bool       // a byte of an answer came
	sent     time.Time  // the last byte of the request; of one that was not sent, when it began
}

// begin returns the request as it goes to the transport.
//
// net/http sends a request again by itself, on any connection and as often as that
// fails, if it counts as idempotent: by its method, or by a header with an idempotency
// key. Here neither shows: a body that cannot be had again prevents the first, a
// spelling of the header that is as good for the upstream prevents the second. What
// remains is what an upstream has never begun: nothing was written, or it said so
// (HTTP/2).
func (a *attempt) begin(r *http.Request) *http.Request {
	a.header = maps.Clone(r.Header)
	for _, key := range []string{"Idempotency-Key", "X-Idempotency-Key"} {
		if v, ok := a.header[key]; ok {
			delete(a.header, key)
			a.header[strings.ToLower(key)] = v
		}
	}
	out := r.WithContext(httptrace.WithClientTrace(r.Context(), &httptrace.ClientTrace{
		GotConn: a.gotConn, WroteRequest: a.wroteRequest, GotFirstResponseByte: a.gotFirstByte,
	}))
	out.Header = a.header
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		out.GetBody = nil
		if r.Body == nil || r.Body == http.NoBody {
			out.Body = io.NopCloser(strings.NewReader(""))
		}
	}
	return out
}

func (a *attempt) gotConn(c httptrace.GotConnInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reused, a.answered, a.sent = c.Reused, false, time.Now()
	if tooOld(c.Conn) { // announced, so that the upstream does not expect another request
		a.header.Set("Connection", "close")
	}
}

func (a *attempt) wroteRequest(w httptrace.WroteRequestInfo) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.Err == nil {
		a.sent = time.Now()
	}
}

func (a *attempt) gotFirstByte() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answered = true
}

// streamError has the shape of net/http's error about one stream of an HTTP/2
// connection, for errors.As.
type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (e streamError) Error() string { return fmt.Sprintf("stream %d: code %d", e.StreamID, e.Code) }

// endedIdle reports whether the attempt failed because its connection, which had served
// before, ended about when the request was sent.
func (a *attempt) endedIdle(err error) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.reused && !a.answered && time.Since(a.sent) <= retryWithin && !errors.As(err, new(streamError))
}

// retryPermit travels in the context of a request, since drills wrap the transport.
type retryPermit struct {
	until   time.Time   // the task's deadline; zero: none
	allowed func() bool // called once it matters
}

type retryPermitKey struct{}

// mayRepeat reports whether a request may be sent a second time. One that only reads
// may; any other needs a permit.
func mayRepeat(r *http.Request) bool {
	if r.Context().Err() != nil || r.Body != nil && r.Body != http.NoBody && r.GetBody == nil {
		return false
	}
	permit, _ := r.Context().Value(retryPermitKey{}).(*retryPermit)
	switch {
	case permit != nil && !permit.until.IsZero() && !time.Now().Before(permit.until):
		return false
	case r.Method == http.MethodGet, r.Method == http.MethodHead:
		return true
	default:
		return permit != nil && permit.allowed()
	}
}

// allowRetry permits that the task's request is sent a second time.
func (t *task) allowRetry(ctx context.Context, body []byte) context.Context {
	permit := &retryPermit{until: t.dueAt, allowed: func() bool { return t.repeatable(body) }}
	return context.WithValue(ctx, retryPermitKey{}, permit)
}

// generating are the endpoints that only generate: a request that is served twice costs
// time and leaves nothing behind.
var generating = map[string]bool{
	chatPath: true, "/v1/completions": true, "/v1/embeddings": true, "/v1/messages": true, responsesPath: true,
}

// repeatable reports whether the upstream may get the task's request twice.
func (t *task) repeatable(body []byte) bool {
	path := t.r.URL.Path
	switch {
	case t.endpoint.Retry:
		return true
	case t.r.Method != http.MethodPost || !generating[path]:
		return false
	}
	return path != responsesPath || isIdentity(t.r.Header.Get("Content-Encoding")) && !keepsResponse(body)
}

// keepsResponse reports whether a request to /v1/responses asks the upstream to keep
// something: the answer, or work in the background. Any of several values counts.
func keepsResponse(body []byte) (keeps bool) {
	gjson.ParseBytes(body).ForEach(func(key, value gjson.Result) bool {
		asked := value.Type != gjson.False && value.Type != gjson.Null
		keeps = asked && (key.Str == "store" || key.Str == "background")
		return !keeps
	})
	return keeps
}

// retryReporter counts and logs the requests to a pool's upstream that are sent again.
func retryReporter(pool string, c Config) func(*http.Request, error) {
	return func(r *http.Request, err error) {
		c.Observer.OnUpstreamRetry(pool)
		c.Log.LogAttrs(r.Context(), slog.LevelInfo, "request sent again, its connection had ended",
			slog.String("pool", pool), slog.String("request", r.Header.Get(requestIDHeader)),
			slog.String("method", r.Method), slog.String("error", scrub(err).Error()))
	}
}
