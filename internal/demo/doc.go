// Package demo shows what the gate is for: the same arrivals are sent to two
// copies of headgate in one process, one with the gate and one without, each in
// front of a stand-in endpoint of its own.
//
// # Words
//
//   - gated, ungated: the two sides. Both have the same permits and a queue. The
//     gated one refuses (mode enforce, policy threshold), the ungated one lets
//     everybody in (mode passthrough).
//   - task: one arrival on one side, with the times that were seen of it.
//   - over the SLO: a task that was let in and has been away for longer than the
//     SLO, whether it has ended or not.
//   - given up: a task that was let in and waited until its deadline had passed,
//     and then left without having been served (reason deadline_passed).
//   - drain: the time after the last arrival, in which what waits is served. It is
//     bounded.
//   - channel: a stand-in for Slack, if anybody is to be told. Then the gated side
//     is watched by the built-in rules, and nobody watches the other one.
//   - tail: short calls on the gated side after its load, until all incidents are
//     over: a rule on shares or quantiles holds what it cannot judge. They are not
//     counted.
//
// # Units
//
// Everything that is shown is scenario time: seconds as they would be at speed 1.
// On the wall clock all is shorter by the speed: arrivals, service times, the SLO
// and the queue age at which the gate refuses. Retry-After is not scaled, since
// HTTP knows only whole real seconds; the arrivals are open-loop, so nobody obeys
// it here. Neither are the metrics of the two copies, nor times in messages; what
// the rules say of time is scaled as far as there are enough evaluations.
//
// # Sources
//
// Whatever is shown was seen from outside the gate: the generator saw a task sent
// and ended, the endpoint saw it come. What was sent and has not reached the
// endpoint waits. The gate's own counters are not asked. Messages are counted in the
// channel; what they are about is asked for at the admin API, as anybody could. Both
// sides get the same service time for the same arrival, by the endpoint's header
// Stub-Service, so that they differ in nothing but the gate.
package demo
