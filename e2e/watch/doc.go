// Package watch shows, with the whole program, that trouble becomes an incident and
// that people hear of it: while Slack fails, while the record cannot be written, and
// although the process is killed.
package watch
