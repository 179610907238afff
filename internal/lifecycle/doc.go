// Package lifecycle stops what was started: goroutines with an owner, HTTP servers with their listener, and named teardown
// steps in reverse order.
package lifecycle
