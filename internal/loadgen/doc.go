// Package loadgen sends open-loop load to an OpenAI-compatible endpoint and
// measures what came back. One generator serves the demo, the drills and the
// rehearsals.
//
// # Open loop
//
// In an open loop the arrivals do not know the system: the next one comes when
// its time has come, whether or not earlier ones were answered. A generator that
// waits for an answer, or for a free worker, before it sends again is a closed
// loop: it slows down together with the system, the queue that it was meant to
// study cannot grow, and the waits that matter are never measured. So latency
// here counts from the intended arrival time, not from the moment of sending
// (the fault is known as coordinated omission: Gil Tene, "How NOT to Measure
// Latency", 2013; open against closed: Schroeder, Wierman, Harchol-Balter,
// "Open Versus Closed: A Cautionary Tale", NSDI 2006).
//
// When the generator itself cannot keep up, it says so: [Report.KeptRate] is
// false, and [Report.RateNote] gives the reason.
//
// # Words and units
//
//   - arrival: one request with its intended time, an offset from the start.
//   - source: a finite, deterministic sequence of arrivals. It has no clock, so
//     that a simulator can read it too.
//   - scenario time: the time in which arrivals, the SLO and all results are
//     stated. Config.Speed says how many scenario seconds pass in one second of
//     the wall clock.
//   - turnaround: from the intended arrival to the last byte of the response.
//   - send lag: how much later than intended a request was sent. It is the
//     generator's own fault, never that of the system under test.
//   - outstanding: arrivals that were sent and have not ended, those that wait
//     to try again included.
//
// Speed and Scale differ. Speed plays a scenario faster and expects that the
// service times are compressed alike, so the load stays the same. Scale moves
// the arrivals closer together while service times stay, so the load rises:
// state the new one with [Stats.Load].
package loadgen
