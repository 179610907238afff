// Package runbooks is what can be done to a pool, and the record of what was
// done: for now the switching of modes (rollback, restore, observe). It also holds
// the pages that people read when a rule fires, one for each (*.md).
//
// # Words
//
//   - An order asks for a change of mode: of one pool or of all.
//   - A change is what an order did to one pool: who, when, from what to what,
//     why, and what was running and queued at that moment.
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
package runbooks
