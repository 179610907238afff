// Package format writes durations, amounts, times and bounded texts for people.
// Pages, messages, terminal output and log lines use it, so that one value reads
// the same everywhere.
//
// Units of amounts are those of rules and drills: "s" (seconds), "ratio" (a share
// of 1, shown as a percentage), "burn" and "x" (a factor), "" (a plain number) and
// free words such as "tasks".
package format
