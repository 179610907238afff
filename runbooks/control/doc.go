// Package control is what can be done to a pool, and the record of what was
// done: orders on modes, by people and by the engine, and entries of the audit for
// all else. It also holds the pages that people read when a rule fires (*.md).
//
// # Words
//
//   - An order asks for a change of mode: of one pool or of all.
//   - A change is what an order did to one pool: who, when, from what to what,
//     why, and what was running and queued at that moment.
//   - An action is something that can be done, whoever asks: commands, the API,
//     Slack, pages, drills. The Registry has them all: what each does, what it would
//     change now, how it is undone, and what is read back.
//   - A pause keeps a pool from handing out permits for a while.
//   - An entry is what else was done, withheld or refused, for the audit.
//   - A guard is how the automatic rollback of a pool stands; a flip is one that
//     was made; a latch keeps it from going against somebody's decision.
//   - The standing of a pool is its mode and how it came to it. It survives
//     restarts.
//   - A request is an order that was left in the journal by a command that could
//     not reach the running process. Requests are numbered; each is carried out
//     once, by its number, and never by comparing states.
//
// # Apply first, record after
//
// A full disk must not stop a rollback. So a change is applied to the gate at
// once, and recorded after; what cannot be recorded is kept in order and tried
// again until it is. Whoever gave the order is told whether the record stands,
// because only a recorded change survives a restart.
//
// # Automatic rollback
//
//	armed → flipping (intent, apply, read back) → flipped → cooldown → armed
//
// Only an incident at level page whose rule carries the action rollback, with a
// fresh value at or above the limit, leads there. Return is by people.
//
// A process may be killed at any moment. So a flip goes: the intent is recorded,
// for a bounded time, since a full disk must not stop it; it is applied and read
// back; the change is recorded; then it is entered in the audit and told. Hence
// nothing is told that a restart would forget, and what a restart finds is
// decided by the record of the change alone: it is there, and then the pool was
// rolled back, whatever of the rest is missing, and the rest is made up for; or it
// is not, and then the guard is armed and decides anew. While the disk is full the
// gate is out and nobody is told so: what on-call hears meanwhile is the page
// itself, and that the record fails.
//
// What is told or noted twice after a kill is told once: entries have an ID that
// follows from what they are about, remarks are looked up, reminders are named by
// change and hour.
//
// A AutoRollback's clock is the wall clock of its start plus monotonic time, so that a
// step of the clock moves neither latch nor cooldown. Over a restart they are kept
// as times of day, and are never longer than the settings say.
package control
