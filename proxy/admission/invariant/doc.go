// Package invariant is a second opinion on what a gate refuses. A gate that turns
// work away while it could be served is worse than none, and it is the last to
// know: its counters are what it decides by.
//
// # The shadow
//
// A Checker keeps its own account of one pool: who waits since when, and how many
// run. It is an admission.Monitor, and so hears of everything in exactly the order
// in which the gate does it, under the gate's lock: no refusal is ever judged by
// a state that has passed already or has yet to come. Tasks are counted in when
// the gate queues or grants, and counted out when their owner is done with them,
// whatever the gate makes of that. What the gate says of its own state it never
// asks.
//
// # What it disputes
//
// Only refusals for queue_age and queue_depth:
//
//   - any, while a permit is free;
//   - under policy threshold, any that the article's rule would have let in:
//     refuse when the oldest queued task of the class is older than
//     max_queue_age, or when all permits are out and more than depth_multiple
//     times as many tasks wait. The rule is written down here once more, apart
//     from the one in package admit;
//   - under policy none, any.
//
// Deadlines, quotas, memory and draining are never disputed: it is not the queue
// that refuses there.
package invariant
