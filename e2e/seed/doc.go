// Package year makes up a year of drills, for looking at pages that are full: runs
// of the built-in drills with all their evidence, on their days, most of them passed.
// The same seed makes the same year.
package seed
