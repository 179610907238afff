package proxy

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"net/http"

	"github.com/google/uuid"
)

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
