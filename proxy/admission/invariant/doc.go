// Package invariant checks the refusals of a gate against an independent account
// of the same pool. A gate that refuses work which could be served is worse than
// no gate, and its own counters cannot show it, because it decides by them.
//
// # The account
//
// A Checker is an admission.Monitor. It records which tasks wait, since when, and
// how many run, from the gate's calls under the gate's lock: every refusal is
// judged by the state at that very decision. A task is counted in when the gate
// queues it or grants its permit, and counted out when its owner calls
// Gate.Finish, whatever the gate makes of its release. The Checker never reads the
// gate's own state, so its queue and the threshold rule are written a second time
// here, on purpose, without shared code.
//
// # Violations
//
// Only refusals for queue_age and queue_depth are checked:
//
//   - any of them, while a permit is free;
//   - under policy threshold, those that the threshold policy would have admitted:
//     refuse when the oldest queued task of the class is older than
//     max_queue_age, or when all permits are out and more than depth_multiple
//     times as many tasks wait;
//   - under policy none, any of them.
//
// Refusals for deadlines, quotas, memory and draining have other causes than the
// queue and are not checked.
package invariant
