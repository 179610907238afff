package proxy

import (
	"net/http"
	"net/textproto"
	"strings"
)

// hopByHop are the headers that belong to one connection (RFC 9110, 7.6.1).
var hopByHop = map[string]bool{
	"Connection": true, "Proxy-Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true,
	"Proxy-Authorization": true, "Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true,
}

// notUpstream are request headers that end here: Expect has been answered, and
// the body's length is set anew.
var notUpstream = map[string]bool{"Expect": true, "Content-Length": true}

const ourPrefix = "Headgate-"

// named returns the headers that Connection names, nil if none.
func named(h http.Header) map[string]bool {
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
	connection := named(in)
	out := make(http.Header, len(in)+2)
	for k, vs := range in {
		if !hopByHop[k] && !notUpstream[k] && !connection[k] && !strings.HasPrefix(k, ourPrefix) {
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

// copyResponseHeader adds the upstream's headers to the answer.
func copyResponseHeader(out, in http.Header) {
	connection := named(in)
	for k, vs := range in {
		if !hopByHop[k] && !connection[k] {
			out[k] = append(out[k][:0:0], vs...)
		}
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
