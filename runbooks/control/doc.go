// Package control is what people and programs can do to a running headgate: change the mode of a pool, pause it,
// acknowledge an incident, silence a rule. [Service] does all of it, for the API, the pages, Slack, drills and
// (through the API) the commands: it can plan each action, reads back what it did, and enters it into the audit. The
// package also holds the automatic rollback and the status of pools.
//
// # Words
//
//   - A mode change is what a request did to one pool: who, when, from what to what, why, and what was running and
//     queued at that moment. The mode state of a pool survives restarts.
//   - A queued request was left in the journal by a command that could not reach the running process. Requests are
//     numbered; each is carried out once, by its number, and never by comparing states.
//   - An audit entry is anything else that was done, withheld or refused.
//   - A manual hold is the time after a person has changed a pool's mode, in either direction, during which automatic
//     rollback leaves the pool alone.
//
// # Apply first, record after
//
// A full disk must not stop a rollback. So a change is applied to the gate at once, and recorded after; what cannot
// be recorded is retried in order until it is (see [headgate/internal/writebehind]). The caller learns whether the
// change is recorded, because only a recorded change survives a restart.
//
// # Automatic rollback
//
//	armed → rolling back (intent, apply, read back) → rolled back → cooldown → armed
//
// Only an incident at level page whose rule has the action rollback, with a fresh value at or above the limit,
// triggers it. People restore.
//
// A process may be killed at any moment. So a rollback goes: the intent is recorded, for a bounded time, since a
// full disk must not stop it; the change is applied and read back; the change is recorded; then it is audited and
// announced. Hence nothing is announced that a restart would forget, and what a restart finds is decided by the
// record of the change alone: if it exists, the pool was rolled back, whatever else is missing, and the rest is made
// up for; if it does not, the state is armed and decides anew. While the disk is full the pool is in passthrough
// without an announcement: the engineer on call sees the page meanwhile, and that recording fails.
//
// What is announced or audited twice after a kill is announced once: entries have an ID that follows from what they
// are about, annotations are looked up, reminders are identified by change and hour.
//
// The clock of an AutoRollback is the wall clock of its start plus monotonic time, so that a step of the clock moves
// neither hold nor cooldown. Over a restart they are kept as times of day, and are never longer than the settings
// say.
package control
