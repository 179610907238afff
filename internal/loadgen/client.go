package loadgen

import (
	"net"
	"net/http"
	"time"
)

// maxResponseHeader bounds the headers of one response, in bytes.
const maxResponseHeader = 256 << 10

// newClient keeps a connection for each outstanding request: with the default of
// two idle ones, the generator would measure its own dialling.
func newClient(connections int) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	return &http.Client{
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            dialer.DialContext,
			TLSHandshakeTimeout:    10 * time.Second,
			MaxIdleConnsPerHost:    connections,
			IdleConnTimeout:        90 * time.Second,
			DisableCompression:     true,
			MaxResponseHeaderBytes: maxResponseHeader,
		},
	}
}
