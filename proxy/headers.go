package proxy

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"math"
	"net/http"
	"net/textproto"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"headgate/proxy/admission"
)

// authenticate returns the client whose key the request carries. Without
// configured clients everybody is the nameless one.
func authenticate(clients []Client, r *http.Request) (Client, *failure) {
	if len(clients) == 0 {
		return Client{}, nil
	}
	key, ok := bearer(r.Header.Get("Authorization"))
	if !ok {
		return Client{}, unauthorized("No API key given: send it as `Authorization: Bearer KEY`.")
	}
	sum := sha256.Sum256([]byte(key))
	found := -1
	for i := range clients { // all of them, so that time does not tell which one
		if subtle.ConstantTimeCompare(sum[:], clients[i].KeySHA256[:]) == 1 {
			found = i
		}
	}
	if found < 0 {
		return Client{}, unauthorized("Unknown API key.")
	}
	return clients[found], nil
}

func unauthorized(message string) *failure {
	return invalidRequest(http.StatusUnauthorized, "invalid_api_key", "%s", message)
}

func bearer(header string) (string, bool) {
	scheme, key, ok := strings.Cut(header, " ")
	key = strings.TrimSpace(key)
	return key, ok && strings.EqualFold(scheme, "Bearer") && key != ""
}

const (
	deadlineHeader   = "Headgate-Deadline"
	priorityHeader   = "Headgate-Priority"
	sdkTimeoutHeader = "X-Stainless-Timeout"     // seconds; the SDKs send it when their user has set a timeout
	sdkRetryHeader   = "X-Stainless-Retry-Count" // 0 on the first attempt
	maxDeadline      = 24 * time.Hour
)

// deadline returns how long after its arrival a task is still of use: what its
// client asks for, or else the SLO. Interactive tasks never get more than the
// SLO, since nobody promises more.
func deadline(h http.Header, class admission.Class, slo time.Duration) (time.Duration, *failure) {
	asked, f := requestedDeadline(h)
	if f != nil {
		return 0, f
	}
	if asked == 0 || class == admission.Interactive && asked > slo {
		return slo, nil
	}
	return asked, nil
}

// requestedDeadline returns 0 when nothing is asked for. What our own header says
// must make sense; what an SDK happens to send is taken if it does.
func requestedDeadline(h http.Header) (time.Duration, *failure) {
	if s := h.Get(deadlineHeader); s != "" {
		d, ok := parseDeadline(s)
		if !ok {
			return 0, invalidRequest(http.StatusBadRequest, "invalid_deadline",
				"%s must be seconds or a duration such as 1m30s, above 0.", deadlineHeader)
		}
		return d, nil
	}
	if d, ok := parseSeconds(h.Get(sdkTimeoutHeader)); ok {
		return d, nil
	}
	return 0, nil
}

func parseDeadline(s string) (time.Duration, bool) {
	if d, ok := parseSeconds(s); ok {
		return d, true
	}
	d, err := time.ParseDuration(s)
	return min(d, maxDeadline), err == nil && d > 0
}

func parseSeconds(s string) (time.Duration, bool) {
	if s == "" { // most of the time; an error would cost more than all the rest here
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f <= 0 {
		return 0, false
	}
	return max(time.Duration(min(f, maxDeadline.Seconds())*float64(time.Second)), 1), true
}

func isAnnouncedRetry(h http.Header) bool {
	s := h.Get(sdkRetryHeader)
	if s == "" {
		return false
	}
	n, err := strconv.Atoi(s)
	return err == nil && n > 0
}

const (
	requestIDHeader   = "X-Request-Id"
	traceparentHeader = "Traceparent"
	maxRequestID      = 128
)

// newTaskID returns an ID that is unique everywhere and sorts by time, and a
// random number from it.
func newTaskID() (string, uint64) {
	id, err := uuid.NewV7()
	if err != nil { // crypto/rand never fails on the systems that Go supports
		panic(err)
	}
	return id.String(), binary.BigEndian.Uint64(id[8:])
}

// requestID returns the client's request ID if it can be logged and sent on as
// it is, or else the fallback.
func requestID(h http.Header, fallback string) string {
	id := h.Get(requestIDHeader)
	if id == "" || len(id) > maxRequestID {
		return fallback
	}
	for i := range len(id) {
		if id[i] <= ' ' || id[i] > '~' {
			return fallback
		}
	}
	return id
}

// traceID returns the trace ID of a valid W3C traceparent (version 00), "" otherwise.
func traceID(parent string) string {
	const length = len("00-") + 32 + len("-") + 16 + len("-01")
	if len(parent) != length || parent[:3] != "00-" || parent[35] != '-' || parent[52] != '-' {
		return ""
	}
	trace, span, flags := parent[3:35], parent[36:52], parent[53:]
	if !lowerHex(trace) || !lowerHex(span) || !lowerHex(flags) || zeros(trace) || zeros(span) {
		return ""
	}
	return trace
}

// newTraceparent starts a trace for a client that has none.
func newTraceparent() (header, trace string) {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails
	trace = hex.EncodeToString(b[:16])
	return "00-" + trace + "-" + hex.EncodeToString(b[16:]) + "-00", trace
}

func lowerHex(s string) bool {
	for i := range len(s) {
		if c := s[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

func zeros(s string) bool {
	for i := range len(s) {
		if s[i] != '0' {
			return false
		}
	}
	return true
}

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
