// Package admission is the gate: it decides, for one pool, which tasks are
// admitted, which of them run now, and in what order the others wait.
//
// # Words
//
//   - A task is one unit of work for the model; here only a class, a deadline and
//     a Waiter that is notified when its wait ends.
//   - A permit is the right to be one of the N tasks in flight. A worker is a
//     permit: nothing else has to be scheduled.
//   - A policy decides whether a task is admitted. Gate and queue share this
//     package because admission, waiting and refusal must be decided under one
//     lock.
//   - The mode says how the policy's verdicts are used: enforce (refusals are
//     real), observe (they are only counted) or passthrough (the policy is not
//     asked).
//
// # Invariants while the lock is free
//
//   - The permits out never grow above N. Lowering N revokes no permit; it stops
//     new ones until enough have been released.
//   - A task waits only while all N permits are out or the pool is paused.
//   - Every permit is released exactly once: a second release, or a release after
//     leaving the queue, does nothing and reports so.
//   - Permits are granted in the order in which tasks were offered.
//
// # Purity
//
// The gate is a state machine. It takes the time as an argument, starts no
// goroutine and reads no clock, so that production, drills and simulation run
// the same code. All times passed to one gate must come from one clock; a time
// before the latest one seen counts as the latest one.
//
// # Sources
//
// The threshold policy uses queue age and queue depth, not utilisation, because
// utilisation hides how much of the deadline is left. The running mean and
// variance of service times follow West, "Updating mean and variance estimates: an
// improved method", CACM 22(9), 1979, with exponential weights as in Finch,
// "Incremental calculation of weighted mean and variance", 2009.
package admission
