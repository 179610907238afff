package proxy

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"encoding/hex"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
	"golang.org/x/net/http/httpguts"

	"headgate/proxy/admission"
)

// keyHeaders are the headers in which clients send their API key: those of OpenAI, of
// Anthropic and of Azure. Some clients send more than one.
var keyHeaders = []string{"Authorization", "X-Api-Key", "Api-Key"}

// sentKeys returns the API keys of a request, in the order of keyHeaders.
func sentKeys(h http.Header) []string {
	var keys []string
	for i, name := range keyHeaders {
		key := h.Get(name)
		if i == 0 {
			key, _ = bearer(key)
		}
		if key != "" {
			keys = append(keys, key)
		}
	}
	return keys
}

// authenticate returns the client whose key the request carries. Without
// configured clients every request belongs to the zero Client.
func authenticate(clients []Client, r *http.Request) (Client, *failure) {
	if len(clients) == 0 {
		return Client{}, nil
	}
	keys := sentKeys(r.Header)
	if len(keys) == 0 {
		return Client{}, unauthorized("No API key: send it as `Authorization: Bearer KEY` or `x-api-key: KEY`.")
	}
	found := -1
	for _, key := range slices.Backward(keys) {
		sum := sha256.Sum256([]byte(key))
		for i := range clients { // all of them, so that the time does not reveal which one matched
			if subtle.ConstantTimeCompare(sum[:], clients[i].KeySHA256[:]) == 1 {
				found = i
			}
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
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return "", false
	}
	return key, key != ""
}

const (
	deadlineHeader   = "Headgate-Deadline"
	priorityHeader   = "Headgate-Priority"
	sdkTimeoutHeader = "X-Stainless-Timeout"      // seconds; the SDKs send it when their user has set a timeout
	sdkReadHeader    = "X-Stainless-Read-Timeout" // seconds of silence after which Python's SDK gives up
	sdkRetryHeader   = "X-Stainless-Retry-Count"  // 0 on the first attempt
	maxDeadline      = 24 * time.Hour
)

// deadline returns how long after its arrival a task is still useful: the time that
// its client requests, or else the SLO. Interactive tasks never get more than the
// SLO, since no more is promised.
func deadline(h http.Header, streams bool, class admission.Class, slo time.Duration) (time.Duration, *failure) {
	requested, f := requestedDeadline(h, streams)
	if f != nil {
		return 0, f
	}
	if requested == 0 || class == admission.Interactive && requested > slo {
		return slo, nil
	}
	return requested, nil
}

// requestedDeadline returns 0 when none is requested. An invalid value of our own
// header is an error; an SDK's invalid timeout is ignored. Python's SDK bounds the
// silence only, which is the whole time for an answer that is not streamed.
func requestedDeadline(h http.Header, streams bool) (time.Duration, *failure) {
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
	if d, ok := parseSeconds(h.Get(sdkReadHeader)); ok && !streams {
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
	if s == "" { // the usual case; ParseFloat's error would cost more than the rest
		return 0, false
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil || math.IsNaN(f) || f <= 0 {
		return 0, false
	}
	return max(time.Duration(min(f, maxDeadline.Seconds())*float64(time.Second)), 1), true
}

func isAnnouncedRetry(h http.Header) bool {
	n, err := strconv.Atoi(h.Get(sdkRetryHeader))
	return err == nil && n > 0
}

const (
	taskIDHeader      = "Headgate-Task-Id"
	requestIDHeader   = "X-Request-Id"
	traceparentHeader = "Traceparent"
	maxRequestID      = 128
)

// newTaskID returns a globally unique ID that sorts by time, and a random number
// from it.
func newTaskID() (string, uint64) {
	id, err := uuid.NewV7()
	if err != nil { // crypto/rand never fails on the systems that Go supports
		panic(err)
	}
	return id.String(), binary.BigEndian.Uint64(id[8:])
}

// requestID returns the client's request ID if it can be logged and forwarded
// unchanged, or else the fallback.
func requestID(h http.Header, fallback string) string {
	id := h.Get(requestIDHeader)
	unprintable := func(r rune) bool { return r <= ' ' || r > '~' }
	if id == "" || len(id) > maxRequestID || strings.ContainsFunc(id, unprintable) {
		return fallback
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
	lowerHex := strings.Trim(trace+span+flags, "0123456789abcdef") == ""
	if !lowerHex || strings.Trim(trace, "0") == "" || strings.Trim(span, "0") == "" {
		return ""
	}
	return trace
}

// newTraceparent starts a trace for a request without one.
func newTraceparent() (header, trace string) {
	var b [24]byte
	_, _ = rand.Read(b[:]) // never fails
	trace = hex.EncodeToString(b[:16])
	return "00-" + trace + "-" + hex.EncodeToString(b[16:]) + "-00", trace
}

// isHopByHop reports whether one of the headers belongs to one connection (RFC 9110,
// 7.6.1), as do those that Connection names.
func isHopByHop(h http.Header, name string) bool {
	switch name {
	case "Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate",
		"Proxy-Authorization", "Te", "Trailer", "Transfer-Encoding", "Upgrade":
		return true
	}
	return httpguts.HeaderValuesContainsToken(h["Connection"], name)
}

const headgatePrefix = "Headgate-"

// requestHeader returns the headers that go upstream.
func requestHeader(in http.Header) http.Header {
	out := make(http.Header, len(in)+2)
	for k, vs := range in {
		if !isHopByHop(in, k) && !strings.HasPrefix(k, headgatePrefix) {
			out[k] = vs
		}
	}
	delete(out, "Expect")         // has been answered
	delete(out, "Content-Length") // is set anew
	if httpguts.HeaderValuesContainsToken(in["Te"], "trailers") {
		out.Set("Te", "trailers")
	}
	if _, ok := out["User-Agent"]; !ok {
		out["User-Agent"] = nil // or net/http adds its own
	}
	return out
}

// copyResponseHeader adds the upstream's headers to the answer. They share the
// values, which are never changed.
func copyResponseHeader(out, in http.Header) {
	for k, vs := range in {
		if !isHopByHop(in, k) {
			out[k] = vs
		}
	}
	if _, ok := in["Content-Type"]; !ok {
		out["Content-Type"] = nil // or net/http detects one from the body
	}
}

// announceTrailers names the trailers that will follow the body.
func announceTrailers(out, trailer http.Header) {
	for k := range trailer {
		out.Add("Trailer", k)
	}
}

// copyTrailers adds the trailers once the body has been sent. Those that were not
// announced need a prefix for net/http.
func copyTrailers(out, trailer http.Header, announced int) {
	prefix := ""
	if len(trailer) != announced {
		prefix = http.TrailerPrefix
	}
	for k, vs := range trailer {
		out[prefix+k] = vs
	}
}
