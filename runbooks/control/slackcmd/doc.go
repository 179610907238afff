// Package slackcmd executes commands from Slack: it checks that a pressed button still fits the present state, calls
// the control service, and writes the response that the user sees.
//
// A button press is refused if its incident is unknown, resolved or has escalated since, or if the pool's mode has
// changed since the message (compare and swap by [slack.ObservedState]). A typed command applies to any state.
package slackcmd
