// Package tsdb keeps the process's own metrics over time, and evaluates the signals of rules over them. It is an
// embedded Prometheus TSDB with Prometheus' own query engine, so that a rule means here what it means in Prometheus.
//
// # Words
//
//   - A sample is the value of one series at one time. At every interval all metric families whose names begin with
//     headgate_ become samples in one commit.
//   - A recorded series holds, once a minute, by how much a counter grew in that minute. headgate_slo_tasks_total becomes
//     headgate:slo_tasks:1m. Windows of an hour and more read recorded series: a sum over 60 points instead of 3600.
//
// # Time
//
// Samples are stamped with the given clock, which should be the wall clock of the start plus monotonic time: it never
// goes back while the process runs. Between two runs it may. Up to a minute is waited for, which leaves a gap; further
// back, the old samples would be in the future, and are quarantined.
//
// # Failures
//
// Nothing here stops the process. A full or unreadable disk leaves signals missing until it works again. Corrupt data
// is quarantined at the start: first the unreadable blocks, then, if that does not help, the whole folder. See Health.
//
// # Sources
//
// The storage is described by Fabian Reinartz, "Writing a Time Series Database from Scratch" (2017); its float
// compression by Pelkonen et al., "Gorilla" (VLDB 2015).
package tsdb
