// Package spec reads, checks and prints the definitions of drills: YAML files, drills in the settings, and the built-in
// drills.
//
// A definition names the target, the load and the service times of the scenario, faults and steps at their times,
// what is expected of which measure, when to abort, and how long the recovery may take. Reading is in two steps: the
// decoder of package drill checks the form, with file, line and column of every error; the linter here checks what
// the settings mean together, such as a fault that would outlast the scenario, an expectation that always holds, or a
// live drill without a limit on what it may touch. Both report all errors at once.
//
// Built-in drills are files in the same format, so that each is a template for new ones.
package spec
