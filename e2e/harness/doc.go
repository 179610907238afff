// Package harness runs the real program for the tests of this module. It builds
// cmd/headgate once for each test binary (or takes the program of [ProgramVariable]), starts
// it as a process on free loopback ports, waits until it is ready, and ends it with SIGTERM
// when the test is over. A failed test shows the logs of its processes.
//
// # Words
//
//   - gate: a running `headgate serve`.
//   - stub: the endpoint of internal/modelstub in the test's process, behind a real
//     listener, so that a test can ask what it received.
//
// Functions that take a *testing.T fail that test and return no error. They must be called
// from the test's goroutine unless their comment says otherwise. Times are wall clock.
// Tests wait for conditions, not for fixed times, for at most [Timeout].
package harness
