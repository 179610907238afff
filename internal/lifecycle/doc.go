// Package lifecycle stops what was started: goroutines with an owner, and named teardown steps in reverse order.
package lifecycle
