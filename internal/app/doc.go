// Package app builds a whole headgate from its settings, starts it and stops
// it. Everything is wired here and nowhere else. An App can be embedded: the
// demo runs two of them in one process.
package app
