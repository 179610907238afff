// Package alerttest has what the tests of alerting share: a gate with a rules file, the
// fake Slack that it notifies, and waits for its incidents.
//
// # Words
//
//   - An instance is a gate together with its Slack.
//   - A post is a Slack message, with the incident and the event that it is about.
//   - An incident is settled when nothing more will be sent about it.
//
// Many rules are on the number of workers: a test sets it by a reload, and so decides when
// the rule fires.
package alerttest
