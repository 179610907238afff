// Command headgate turns work away from a model endpoint before the queue in
// front of it becomes the outage. `headgate help` lists what it can do. Each
// subcommand has a small file of its own, which translates flags into options
// of another package and results into text.
package main
