// Package demo compares admission control with its absence: it sends the same
// arrivals to two copies of headgate in one process, one with the gate and one
// without, each in front of its own stub endpoint.
//
// # Terms
//
//   - gated, ungated: the two sides. Both have the same permits and a queue. The
//     gated one refuses (mode enforce, policy threshold), the ungated one admits
//     everything (mode passthrough).
//   - task: one arrival on one side, with the times that were observed for it.
//   - over the SLO: an admitted task that has taken longer than the SLO, whether it
//     has ended or not.
//   - deadline passed: an admitted task that left the queue unserved because its
//     deadline had passed.
//   - drain: the time after the last arrival, in which queued tasks are served. It is
//     bounded.
//   - channel: a stand-in for Slack. With one, the built-in rules watch the gated
//     side; the ungated side is never watched.
//   - tail: short calls on the gated side after its load, until all incidents have
//     ended: rules on shares and quantiles need some calls. They are not counted.
//
// # Units
//
// All values shown are scenario time: seconds as they would be at speed 1. On the
// wall clock everything is shorter by the speed: arrivals, service times, the SLO and
// the queue age limit. Not scaled are Retry-After, which HTTP gives in whole real
// seconds (the arrivals are open-loop, so no client obeys it here), the metrics of the
// two copies, and times in messages. Windows of the rules are scaled as far as
// evaluations are frequent enough.
//
// # Sources
//
// All values were observed from outside the gate: the generator saw a task sent and
// ended, the endpoint saw it arrive. A task that was sent and has not reached the
// endpoint is queued. The gate's own counters are not used. Messages are counted in
// the channel; incidents and modes are read from the admin API. Both sides get the
// same service time for the same arrival, by the endpoint's header Stub-Service, so
// that they differ in the gate only.
package demo
