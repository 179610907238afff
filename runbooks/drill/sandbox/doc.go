// Package sandbox builds what drills work on: a twin, which is a second system with the settings of a pool between a
// load generator, a stand-in endpoint and a stand-in for Slack, or production itself for a live drill. It sees both
// from outside; the twin's system comes from a factory.
package sandbox
