package api

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// HostGuard passes only requests on whose Host is one of the server's names, so that a web page cannot reach a listener by
// a name of its own (DNS rebinding). Names are in lower case.
func HostGuard(next http.Handler, names func() []string, reject http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A request of HTTP/1.0 may name no host, as the checks of some load balancers do. No browser sends such, so
		// there is no page behind it.
		withoutHost := r.Host == "" && !r.ProtoAtLeast(1, 1)
		if !withoutHost && !isAllowedHost(r.Host, names()) {
			// net/http reads on for what the client has announced, but not for ever.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // not every writer has one
			reject(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// RejectHost refuses a request to the admin listener for an unknown host, and audits that: a page somewhere may be using
// the browser of a signed-in user.
func (d *Auth) RejectHost(w http.ResponseWriter, r *http.Request) {
	d.rejectHost(r)
	WriteProblem(w, Problem{
		Status: http.StatusMisdirectedRequest, Detail: "Unknown host name. If it is a name of this server, add it to hosts in the settings.",
	})
}

// isAllowedHost accepts known names and IP addresses: a page that was loaded from an address cannot be another's.
func isAllowedHost(hostport string, known []string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return slices.Contains(known, host)
}
