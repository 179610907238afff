// Package outboxtest says what every alerts.Outbox has to do, as tests that an
// implementation runs on itself, and has an outbox in memory for tests of those
// who use one.
//
// Times are compared to the millisecond, which is what a record keeps.
package outboxtest
