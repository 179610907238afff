// Package watch tests alerting on the whole program: faults become incidents, and messages about
// them arrive, while Slack fails, while the record cannot be written, and although the process
// is killed.
package watch
