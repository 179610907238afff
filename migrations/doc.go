// Package migrations holds the SQL files that build the record, step by step,
// in the order of their numbers. A file that has been released is never edited:
// what is wrong with it is put right by the next one.
//
// # Conventions
//
//   - Times are integers, in milliseconds since 1970, UTC; their columns end in
//     _ms. A text form would not sort.
//   - A missing value is the empty text or the time 0.
//   - Flags are 0 or 1. Tables check that, and that numbers are not negative.
//   - IDs are texts: UUIDv7, unique everywhere and sorted by time.
//   - Words such as modes and actions are texts, and are checked by the program,
//     since a check in a table cannot be altered later.
//   - writer names the process that wrote a row.
//   - A pool is known by its name.
//   - A row has columns for what is searched, summed up or never altered, and a body for the
//     rest: JSON of at most 60 kB.
//   - There is no way down: going back means restoring a backup.
//
// The statements keep to what SQLite and PostgreSQL both understand, except for
// AUTOINCREMENT, the bodies of triggers and what converts old rows, for which PostgreSQL has
// other words.
// BIGINT means an integer of 64 bits to both.
package migrations
