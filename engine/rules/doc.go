// Package rules says which signals mean trouble: rules that are built in, with
// thresholds derived from each pool's settings, and rules from a file.
//
// # Words
//
//   - A rule has a signal, a warn and a page threshold, and a condition under
//     which the trouble is over; see engine.Rule. A rule that names $pool stands
//     for one in each pool, any other is of the process.
//   - The events of a rule are what its signal is a share or a quantile of. With
//     too few of them the signal means nothing.
//   - A window is how far a signal looks back: its range, subqueries and offset
//     together. From an hour on the rule is slow: it reads recorded series and is
//     evaluated every 30 s.
//   - A burn is how many times faster than allowed the error budget is used up:
//     the share of bad tasks by the share that may be bad, 1 − objective.
//
// # Burning two windows at once
//
// A burn is the smaller one of a long and a short window: the long one says that
// it matters, the short one that it goes on. The pairs and their factors are those
// of Beyer et al., "The Site Reliability Workbook" (2018), chapter 5.
//
// # Units
//
// Thresholds are in the unit of the signal: seconds, tasks, shares from 0 to 1.
// Durations are written as in PromQL: 30s, 5m, 1h30m, 3d.
package rules
