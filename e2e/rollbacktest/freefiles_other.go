//go:build !linux

package rig

// FilesLeft returns how many connections may surely be opened, at most most.
func FilesLeft(most int) int { return min(most, 100) }
