package proxy

import (
	"net"
	"net/http"
	"time"
)

const (
	// Of an upstream connection, in each direction: enough for the usual request
	// in one write. An open stream holds both, and a copyBuffer.
	connBuffer   = 8 << 10
	maxIdleConns = 1024
)

// newTransport returns a pool's own way to its upstream: no shared limits, no
// compression of our own (what the client asks for is what it gets), and enough
// idle connections for all that can be in flight.
func newTransport(p Pool) *http.Transport {
	dialer := &net.Dialer{Timeout: p.ConnectTimeout, KeepAlive: 30 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           dialer.DialContext,
		TLSHandshakeTimeout:   p.ConnectTimeout,
		ForceAttemptHTTP2:     true,
		DisableCompression:    true,
		MaxIdleConnsPerHost:   maxIdleConns,
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		WriteBufferSize:       connBuffer,
		ReadBufferSize:        connBuffer,
	}
}
