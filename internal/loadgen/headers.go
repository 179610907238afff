package loadgen

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// maxHeader is how much of a header value is kept, in bytes.
const maxHeader = 128

// maxRetryAfter is the longest wait that all clients honour, in seconds.
const maxRetryAfter = 60

func parseRetryAfter(h http.Header) RetryAfter {
	raw := h.Get("Retry-After")
	sec, ok := wholeNumber(raw, maxRetryAfter)
	if !ok {
		return RetryAfter{Raw: clip(raw)}
	}
	out := RetryAfter{Raw: raw, OK: true, Delay: time.Duration(sec) * time.Second}
	if ms, ok := wholeNumber(h.Get("Retry-After-Ms"), maxRetryAfter*1000); ok {
		out.Delay = time.Duration(ms) * time.Millisecond
	}
	return out
}

// wholeNumber reads a number from 1 to limit in plain digits.
func wholeNumber(s string, limit int) (int, bool) {
	if !digits(s, 9) {
		return 0, false
	}
	n, err := strconv.Atoi(s)
	return n, err == nil && n >= 1 && n <= limit
}

// parseReason returns the reason as a label for counts: lower-case letters,
// digits and underscores, or "invalid".
func parseReason(h http.Header) string {
	s := h.Get("Headgate-Reason")
	if len(s) > maxHeader || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789_") != "" {
		return "invalid"
	}
	return s
}

// parseQueueWait returns the wait on the wall clock, 0 when it is not given.
func parseQueueWait(h http.Header) time.Duration {
	ms, err := strconv.ParseFloat(h.Get("Headgate-Queue-Wait-Ms"), 64)
	if err != nil || !(ms >= 0 && ms < float64(MaxSpan/time.Millisecond)) {
		return 0
	}
	return time.Duration(ms * float64(time.Millisecond))
}

func clip(s string) string {
	return strings.ToValidUTF8(s[:min(len(s), maxHeader)], "")
}
