// Package rollback shows what rollback promises, with real processes, commands
// and HTTP: it takes effect at once, loses nothing, works while the record or the
// admin plane does not, and survives kill -9. What takes long is in e2e/acceptance.
package rollback
