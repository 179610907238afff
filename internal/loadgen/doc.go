// Package loadgen sends open-loop load to an OpenAI-compatible endpoint and
// measures the answers. The demo and the drills use it.
//
// # Open loop
//
// In an open loop the arrivals are independent of the system: each is sent at its
// time, whether or not earlier ones were answered. A generator that waits for an
// answer, or for a free worker, before it sends again is a closed loop: it slows
// down together with the system, the queue under study cannot grow, and the waits
// that matter are never measured. So latency here counts from the intended arrival
// time, not from the moment of sending (the mistake is known as coordinated
// omission: Gil Tene, "How NOT to Measure Latency", 2013; open against closed:
// Schroeder, Wierman, Harchol-Balter, "Open Versus Closed: A Cautionary Tale", NSDI
// 2006).
//
// If the generator itself cannot keep up, [Report.KeptRate] is false and
// [Report.RateNote] gives the reason.
//
// # Words and units
//
//   - arrival: one request with its intended time, an offset from the start.
//   - scenario time: the time in which arrivals, the SLO and all results are
//     stated. Config.Speed says how many scenario seconds pass in one second of
//     the wall clock.
//   - turnaround: from the intended arrival to the last byte of the response.
//   - send lag: how much later than intended a request was sent. It is the
//     generator's own fault, never that of the system under test.
//   - outstanding: arrivals that were sent and have not ended, those that wait for
//     a retry included.
//
// Speed plays a scenario faster and expects that the service times are compressed
// alike, so the load stays the same.
package loadgen
