// Package outboxtest holds the tests that every [alerts.Outbox] has to pass, and an outbox in memory for tests of its
// users.
//
// Times are compared to the millisecond, which is what a record keeps.
package outboxtest
