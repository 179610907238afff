package slack

import "context"

// Ending is what became of a wish.
type Ending string

// The endings.
const (
	Done    Ending = "done"
	Refused Ending = "refused" // not allowed, too late, or no such thing: nothing was done
	Failed  Ending = "failed"
)

// Answer is what somebody is told who asked for something.
type Answer struct {
	Ending Ending
	// Text is plain, of one line or several; a name as Actor returns it is shown as
	// Slack shows people.
	Text string
}

// Entry is what is kept of a press or a command: done, refused, failed or forged.
type Entry struct {
	Forged   bool   // it did not come from Slack, or not for the first time
	Action   Action // empty: none that was understood
	Ending   Ending
	Incident string
	Pool     string
	Actor    string // as Actor returns it; empty: not known
	Reason   string
	Inputs   map[string]string // no secret is among them
}

// Desk is who carries wishes out and keeps what became of them. Its methods are
// called from several goroutines at once.
type Desk interface {
	// Do carries a wish out, if it still fits how things stand. That may take
	// longer than Slack waits.
	Do(context.Context, Wish) Answer
	// Note keeps an entry. It does not block: Slack waits for an answer.
	Note(context.Context, Entry)
}
