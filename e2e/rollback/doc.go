// Package rollback tests what a rollback guarantees, with real processes, commands and HTTP: it
// takes effect at once, loses no task, works without the database or the admin plane, and
// survives SIGKILL. Long tests are in e2e/acceptance.
package rollback
