// Package tsdb keeps the process's own metrics over time, and answers what the
// signals of rules come to. It is an embedded Prometheus TSDB with Prometheus' own
// query engine, so that a rule means here what it would mean in Prometheus.
//
// # Words
//
//   - A sample is the value of one series at one moment. Once in an interval all
//     families whose names begin with headgate_ become samples in one commit.
//   - A recorded series holds, once a minute, by how much a counter grew since the
//     minute before. headgate_slo_tasks_total becomes headgate:slo_tasks:1m. Windows
//     of an hour and more read recorded series: a sum over 60 points instead of a
//     walk over 3600.
//   - A reading is a value with the ways of not having one; see engine.Value.
//
// # Time
//
// Samples are stamped with the clock that is given, which should be the wall clock
// of the start plus monotonic time: it never goes back while the process lives.
// Between two lives it may. Up to a minute is waited for, which leaves a gap;
// further back, the old samples would stand in the future, and are moved aside.
//
// # Trouble
//
// Nothing here stops the process. A full disk, or one that cannot be read, leaves
// signals missing until it is well again. What is corrupt is moved aside at the
// start: first the blocks that cannot be read, then, if that does not help, all of
// the folder. Health says how it stands.
//
// # Sources
//
// The storage is described by Fabian Reinartz, "Writing a Time Series Database from
// Scratch" (2017); its float compression by Pelkonen et al., "Gorilla" (VLDB 2015).
package tsdb
