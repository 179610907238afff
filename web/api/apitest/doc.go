// Package apitest is an admin API for tests of its clients: a real engine that evaluates three rules against values that
// a test sets, a record in memory that can fail, and drills that run until the test ends them.
//
// Values of the rules are seconds or plain numbers; they warn at 15, page at 25 and clear below 10, at once.
package apitest
