// Package rules defines which signals open incidents: built-in rules, with thresholds derived from each pool's
// settings, and rules from a file. It also runs tests of rules, and exports rules.
//
// # Words
//
//   - A rule has a signal, a warn and a page threshold, and a condition that resolves the incident; see engine.Rule. A rule
//     that names $pool is expanded to one for each pool, any other is of the process.
//   - The events of a rule are what its signal is a share or a quantile of. With too few of them the value is idle.
//   - A window is how far a signal looks back: its range, subqueries and offset together. With an hour or more the rule is
//     slow: it reads recorded series and is evaluated every 30 s.
//   - A burn is how many times faster than allowed the error budget is used up: the share of bad tasks divided by the share
//     that may be bad, 1 − objective.
//
// # Two windows of a burn
//
// A burn is the smaller one of a long and a short window: the long one shows that it is significant, the short one that
// it continues. The pairs and their factors are those of Beyer et al., "The Site Reliability Workbook" (2018), chapter
// 5.
//
// # Units
//
// Thresholds are in the unit of the signal: seconds, tasks, shares from 0 to 1.
package rules
