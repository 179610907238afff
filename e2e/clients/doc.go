// Package clients drives the gate with the official OpenAI clients, unmodified
// but for their base URL: the Go SDK in this process, and two from npm through
// the scripts in ../node (`npm ci` there, or `make e2e`, installs them).
//
// All of them take the same calls and report the same outcome, so that one table of expectations
// is enough. Most tests make a call twice, directly to the stub and through the gate: both results
// must be equal.
package clients
