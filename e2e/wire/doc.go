// Package wire compares what a client gets through the gate with what it gets
// from the endpoint itself: status, headers, every byte of the body, trailers,
// and how the answer ends. Its tests use net/http alone, since the clients of
// package clients would hide most of that.
package wire
