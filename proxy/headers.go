package proxy

import (
	"net/http"
	"net/textproto"
	"strings"
)

// isHopByHop tells whether a header belongs to one connection (RFC 9110, 7.6.1).
func isHopByHop(name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate",
		"Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return false
}

// notForwarded tells whether a request header ends here: Expect has been
// answered, and the body's length is set anew.
func notForwarded(name string) bool { return name == "Expect" || name == "Content-Length" }

const headgatePrefix = "Headgate-"

// connectionOptions returns the headers that Connection names, nil if none.
func connectionOptions(h http.Header) map[string]bool {
	var names map[string]bool
	for _, line := range h["Connection"] {
		for name := range strings.SplitSeq(line, ",") {
			if name = textproto.TrimString(name); name != "" {
				if names == nil {
					names = make(map[string]bool)
				}
				names[http.CanonicalHeaderKey(name)] = true
			}
		}
	}
	return names
}

// requestHeader returns the headers that go upstream.
func requestHeader(in http.Header) http.Header {
	connection := connectionOptions(in)
	out := make(http.Header, len(in)+2)
	for k, vs := range in {
		if !isHopByHop(k) && !notForwarded(k) && !connection[k] && !strings.HasPrefix(k, headgatePrefix) {
			out[k] = vs
		}
	}
	if acceptsTrailers(in) {
		out.Set("Te", "trailers")
	}
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = nil // or net/http adds its own
	}
	return out
}

func acceptsTrailers(in http.Header) bool {
	for _, v := range in["Te"] {
		for token := range strings.SplitSeq(v, ",") {
			if strings.EqualFold(textproto.TrimString(token), "trailers") {
				return true
			}
		}
	}
	return false
}

// copyResponseHeader adds the upstream's headers to the answer. They share the
// values, which nobody changes.
func copyResponseHeader(out, in http.Header) {
	connection := connectionOptions(in)
	for k, vs := range in {
		if !isHopByHop(k) && !connection[k] {
			out[k] = vs
		}
	}
	if _, ok := in["Content-Type"]; !ok {
		out["Content-Type"] = nil // or net/http makes one up from the body
	}
}

// announceTrailers names the trailers that will follow the body.
func announceTrailers(out, trailer http.Header) {
	for k := range trailer {
		out.Add("Trailer", k)
	}
}

// copyTrailers adds the trailers once the body has gone out. Those that were
// not announced need the prefix that net/http knows.
func copyTrailers(out, trailer http.Header, announced int) {
	prefix := ""
	if len(trailer) != announced {
		prefix = http.TrailerPrefix
	}
	for k, vs := range trailer {
		out[prefix+k] = vs
	}
}
