package api

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// HostGuard passes only requests on whose Host is an IP address or a name of this server, so that a web page cannot reach
// a listener by a name of its own (DNS rebinding). It may be used by any number of handlers.
type HostGuard struct {
	Allowed func() []string // names of this server, in lower case; called for each request
}

// rejectedBodyTimeout bounds how long net/http reads what a rejected client has announced.
const rejectedBodyTimeout = 10 * time.Second

// Handler returns next behind the guard. Rejected requests go to deny.
func (g HostGuard) Handler(next http.Handler, deny http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isHTTP10WithoutHost(r) || isAllowedHost(r.Host, g.Allowed) {
			next.ServeHTTP(w, r)
			return
		}
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(rejectedBodyTimeout))
		deny(w, r)
	})
}

// isHTTP10WithoutHost reports whether a request names no host because it is HTTP/1.0, as the checks of some load
// balancers are. Browsers always name a host.
func isHTTP10WithoutHost(r *http.Request) bool { return r.Host == "" && !r.ProtoAtLeast(1, 1) }

// isAllowedHost accepts IP addresses, since a page that was loaded from an address belongs to that address, and allowed
// names.
func isAllowedHost(hostport string, allowed func() []string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return slices.Contains(allowed(), host)
}
