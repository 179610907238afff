// Package sqlite keeps the record in an SQLite file, and implements the ports
// that need memory: control.Journal (Store), engine.Journal (EngineJournal),
// alerts.Outbox (Outbox), drill.Store and drill.DueTimeStore (Drills).
//
// # Words
//
//   - The record is the file headgate.db in the data directory, with -wal and
//     -shm beside it while it is in use.
//   - The lock is the file headgate.lock beside it. One Store holds it for as
//     long as it is open; its owner's name is written into it. It outlives its
//     owner, only flock(2) on it counts.
//   - A Store is the record as the running service has it. Commands that cannot
//     reach the service open the file itself, without the lock: QueueRequest,
//     ReadAudit, ReadRuns, BackupFrom.
//   - A body is the JSON of an incident, an event, a delivery or a run, in the shape
//     that the API shows. Beside it a row has the columns that are searched.
//   - The outbox is what is to be sent about incidents, and the result of it.
//   - The lock of drills is a row: its owner runs a drill. Its fence is a
//     number that grows with each claim, so that one who has lost it writes no more.
//   - A session is the time from Open to Close; a run of a drill remembers in
//     which it was claimed, and ends with it.
//   - An ephemeral Store lives in memory and leaves nothing behind.
//
// # Promises
//
// What Record, SaveBatch, Outbox.Save, SaveSLO and Drills have acknowledged survives
// kill -9 and loss of power: the journal is a write-ahead log and is synchronised
// with every commit (synchronous FULL, about a millisecond). A transaction is whole
// or not there at all: no event of an incident is recorded without what is to be
// sent about it.
//
// Every call returns within its context's time, or within the package's own
// limit if that is shorter, also when the disk does not answer; what such a call
// was doing is then of unknown outcome, and may be repeated.
//
// The file may have been written by anyone. Its structure is compared with what
// the migrations build, its pages are checked when it is opened, and every value
// is checked when it is read; an invalid value is an error, never a guess. Only
// an invalid delivery is skipped, so that others are still sent.
// Errors carry neither values nor statements.
//
// # Units
//
// Times are milliseconds since 1970, UTC; sizes are bytes.
//
// # Sources
//
// The SQLite documentation: "Write-Ahead Logging", "How To Corrupt An SQLite
// Database File", "Defense Against The Dark Arts".
package sqlite
