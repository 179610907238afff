package config

import (
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

const (
	hostChars  = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789.-_"
	listenRule = "must be host:port such as 127.0.0.1:8484, or :8484 for every interface"
)

// checkListeners checks both addresses, and that they do not collide.
func (l *checker) checkListeners(c *Config) {
	l.checkListen("listen", c.Listen)
	l.checkListen("admin.listen", c.Admin.Listen)
	if !l.ok("listen", "admin.listen") {
		return
	}
	if addressesConflict(c.Listen, c.Admin.Listen) {
		l.invalid("admin.listen", "must differ from listen, which takes the same port ("+quote(c.Listen)+")", quote(c.Admin.Listen))
	}
}

func (l *checker) checkListen(path, address string) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || !validPort(port) || host != "" && !validHost(host) {
		l.invalid(path, listenRule, quote(address))
	}
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return err == nil && strconv.FormatUint(n, 10) == port
}

// validHost accepts an IP address or what can be a host's name.
func validHost(host string) bool {
	if ip, err := netip.ParseAddr(host); err == nil {
		return strings.Trim(ip.Zone(), hostChars) == ""
	}
	const most = 253
	return host != "" && len(host) <= most && strings.Trim(host, hostChars) == "" &&
		!strings.HasPrefix(host, ".") && !strings.HasSuffix(host, ".") && !strings.Contains(host, "..")
}

// addressesConflict reports whether two valid addresses cannot both be listened on. Port 0
// takes a free one.
func addressesConflict(a, b string) bool {
	hostA, portA, _ := net.SplitHostPort(a)
	hostB, portB, _ := net.SplitHostPort(b)
	if portA != portB || portA == "0" {
		return false
	}
	return isWildcard(hostA) || isWildcard(hostB) || strings.EqualFold(hostA, hostB) ||
		isLoopback(hostA) && isLoopback(hostB) && (isHostname(hostA) || isHostname(hostB))
}

func isWildcard(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.IsUnspecified()
}

func isHostname(host string) bool {
	_, err := netip.ParseAddr(host)
	return err != nil
}

// isLoopback reports whether only this host can reach host. Names other than
// localhost are not looked up, and count as reachable.
func isLoopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return strings.EqualFold(host, "localhost") || err == nil && ip.Unmap().IsLoopback()
}

func (l *checker) checkHosts(hosts []string) {
	for i, h := range hosts {
		if !validHost(h) {
			l.invalid(fmt.Sprintf("hosts[%d]", i), "must be a host name or address without port or wildcard, such as gate.example.com", quote(h))
		}
	}
}

// checkUpstream checks a base URL. It may hold a password by mistake, so it is never
// shown.
func (l *checker) checkUpstream(path, base string) {
	u, err := url.Parse(base)
	switch {
	case base == "":
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Opaque != "":
		l.invalidRedacted(path, "must be an absolute http or https URL such as http://127.0.0.1:8080/v1")
	case u.User != nil:
		l.invalidRedacted(path, "must be a URL without user and password: a key belongs in upstream_key")
	case !validHost(u.Hostname()) || !validURLPort(u):
		l.invalidRedacted(path, "must be a URL with a host, and a port from 1 to 65535 if any")
	case strings.ContainsAny(base, "?#"):
		l.invalidRedacted(path, "must be a URL without query and fragment")
	case strings.HasSuffix(strings.TrimRight(base, "/"), chatPath):
		l.invalidRedacted(path, "must be the base URL, without "+chatPath)
	}
}

func validURLPort(u *url.URL) bool {
	port := u.Port()
	return port == "" && !strings.HasSuffix(u.Host, ":") || port != "0" && validPort(port)
}

// checkOpenRelay refuses to lend the upstream's key to everybody who can reach us.
func (l *checker) checkOpenRelay(c *Config) {
	if len(c.Clients) > 0 || !l.ok("listen", "clients") {
		return
	}
	host, _, _ := net.SplitHostPort(c.Listen) // clean, so it parses
	if isLoopback(host) {
		return
	}
	for i, p := range c.Pools {
		if !p.UpstreamKey.Empty() {
			l.invalid("listen", fmt.Sprintf("must be a loopback address such as 127.0.0.1:8484, or clients must be set: "+
				"pools[%d] has an upstream_key, and without clients everybody who can connect would use it (an open relay)", i), quote(c.Listen))
			return
		}
	}
}
