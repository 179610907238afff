// Package engine watches the capacity envelope: signals over the process's own
// samples become values, values become rule states, and rule states become
// incidents that others tell people about.
//
// # Words
//
//   - A signal is a PromQL expression over the process's own samples.
//   - A rule is a signal with a warn and a page threshold, each of which has to be
//     breached for some time, and a condition under which the trouble is over.
//   - A state is what the engine remembers of one rule in one pool.
//   - An incident is one trouble, from first firing to resolved. It spans warn and
//     page and short recoveries, and has one message.
//   - An event is one step in the life of an incident, numbered within it.
//   - A silence mutes what is sent about a rule, not the rule.
//
// # Not knowing
//
// A value may be missing (no sample, a stale one, not a number, an error): then a
// rule neither fires nor clears, and its clocks stand still. Or it may mean
// nothing because too little happened: then it opens nothing. Neither is ever
// taken for good or for bad. A signal that stays missing is trouble of its own,
// one incident for each pool.
//
// # Time
//
// The engine's clock is the wall clock of its start plus monotonic time: what
// jumps while it runs changes nothing. How long something has been so is added up
// from evaluation to evaluation that agree, so that nothing is counted that was
// not seen: not the time when nothing ran, nor more than two intervals of a step
// that came late. It is recorded at every step, and a restart goes on from there.
//
// Between clear and the first threshold everything stays as it is. A page that
// falls back to warn, and an incident that falls below clear, both wait for the
// clear's time. A breach that begins within the reopen window after an incident
// continues it.
//
// # Two layers
//
// Machine decides, and does nothing else. Engine runs it: it asks for values at
// every interval, bounded in time, keeps what comes of it in the journal, and
// lets neither a hung evaluation nor a full disk stop the other.
package engine
