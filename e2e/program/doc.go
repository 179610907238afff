// Package program tests headgate as one runs it: commands and their exit codes,
// settings from files and from the environment, signals, and what is left when
// a process has ended.
package program
