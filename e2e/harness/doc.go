// Package harness runs the real program for the tests of this module: it builds
// cmd/headgate once for each test binary, starts it as a process of its own on
// free loopback ports, waits until it can take work, and ends it with SIGTERM
// when the test is over. What a process logged is shown when its test fails.
//
// # Words
//
//   - gate: a running `headgate serve`.
//   - stub: the stand-in endpoint of internal/modelstub, inside the test's own
//     process but behind a real listener, so that a test can ask it what it saw.
//   - witness: a relay between a client and the gate that notes every exchange,
//     for what clients hide (how long they waited, how often they asked).
//
// Functions that take a *testing.T fail that test rather than return an error,
// and must be called from its goroutine unless they say otherwise. Times are
// wall clock. Nothing waits for a fixed time: everything waits for a condition,
// for at most [Timeout].
package harness
