// Package app builds a whole headgate from its settings, and starts, reloads and stops it. Packages meet here and
// nowhere else. An App can be embedded: the demo runs two of them in one process.
package app
