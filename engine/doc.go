// Package engine watches the capacity envelope: values of signals become rule states, and rule states become incidents,
// which package alerts notifies people of.
//
// # Words
//
//   - A signal is a PromQL expression over the process's own samples.
//   - A rule is a signal with a warn and a page threshold, each of which has to be breached for some time, and a condition
//     that resolves the incident.
//   - A state is what the engine remembers of one rule in one pool.
//   - An incident is one problem, from first firing to resolved. It spans warn and page and short recoveries, and has one
//     message.
//   - An event is one step in the life of an incident, numbered within it.
//   - A flap is an opening, reopening, refiring or escalation. An incident with many of them is flapping.
//   - A silence mutes what is sent about a rule, not the rule.
//
// # Missing and idle values
//
// A value may be missing (no sample, a stale one, not a number, an error): then a rule neither fires nor clears, and
// its durations stand still. Or it may be idle, because too few events happened: then it opens nothing. Neither counts
// as good or bad. Signals that stay missing open a separate incident, one for each pool.
//
// # Time
//
// The engine's clock is the wall clock of its start plus monotonic time: jumps of the wall clock change nothing. The
// time for which a threshold has been breached is added up between evaluations that agree, so that only observed time
// counts: not the time when nothing ran, nor more than two intervals of a late step. It is recorded at every step, and
// continues after a restart.
//
// Between clear and the first threshold everything stays as it is. A page that falls back to warn, and an incident that
// falls below clear, both wait for the duration of clear. A breach that begins within the reopen window after an
// incident continues it.
//
// # Two layers
//
// Machine decides and does no I/O. Engine runs it: it queries values at every interval, bounded in time, and saves the
// changes to the journal. Neither a hung evaluation nor a full disk stops the other.
package engine
