// Package program tests headgate as a process: commands and their exit codes, settings from files
// and from the environment, signals, and what is left when the process has ended.
package program
