// Package desk is what the tests of watching and telling share: a gate with a file
// of rules, the Slack that it tells, and the incidents as its API shows them.
//
// # Words
//
//   - A desk is where somebody on call sits: a gate, and the channel it tells.
//   - A post is a message in that channel, by the incident and the event that it is
//     about.
//   - The knob is the number of workers, as a signal: a reload sets its value, so
//     that a test decides when a rule fires.
//   - An incident is settled when nothing more is going to be sent about it.
package alerttest
