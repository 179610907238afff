// Package apitest is an admin API that watches, for tests of it and of whatever
// speaks to it: a real engine that evaluates three rules against values which a
// test puts on a board, and a record in memory that can break. It has
// drills that run for as long as a test wants.
//
// Values of the rules are seconds or plain numbers; they warn at 15, page at 25
// and clear below 10, at once.
package apitest
