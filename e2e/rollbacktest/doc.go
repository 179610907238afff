// Package rollbacktest has what the tests of rollback share: clients whose tasks must not
// be lost, scenarios of rollbacks under load, SIGKILL during mode changes, and faults of a
// gate's environment (a locked database, a full disk, connections and files that run out).
//
// The time to effect of a rollback is the time from the order until a task has been
// admitted and none is refused any more.
package rollbacktest
