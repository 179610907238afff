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
// taken for good or for bad.
package engine
