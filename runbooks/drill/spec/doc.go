// Package spec reads, checks and prints the definitions of drills: YAML files, drills in the settings, and the
// built-in drills.
package spec
