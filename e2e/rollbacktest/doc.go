// Package rig is what the tests of rollback share: a gate whose data directory
// outlives its process, the commands and the admin API as a person and a script
// use them, crowds of clients whose tasks must not be lost, and things that go
// wrong around a gate (a held database, a full disk, a listener that is silent,
// kill -9).
//
// # Words
//
//   - A crowd is tasks that are in the gate, running or waiting. None may be lost.
//   - A press is clients that ask again and again while they are refused. Whoever
//     is let in joins the crowd.
//   - The moment of a rollback is the time from the order until somebody was let
//     in and nobody was refused any more.
package rollbacktest
