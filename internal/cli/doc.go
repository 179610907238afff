// Package cli carries out the commands that talk to a running service or to its
// database, and writes what they found for people or as JSON.
//
// cmd/headgate turns flags into the fields of the types here and calls Run. Every
// type embeds [Service]: where the service is, and where output goes. Data goes to
// Out, messages to Err. Errors decide the exit code; see [ExitCode].
//
// Text that comes from the service is made printable before it is shown, because
// it may carry what clients or Slack users wrote.
package cli
