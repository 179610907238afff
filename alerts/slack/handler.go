package slack

import "context"

// Result is what became of a wish.
type Result string

// The endings.
const (
	Done    Result = "done"
	Refused Result = "refused" // not allowed, too late, or no such thing: nothing was done
	Failed  Result = "failed"
)

// Response is what somebody is told who asked for something.
type Response struct {
	Result Result
	// Text is plain, of one line or several; a name as Actor returns it is shown as
	// Slack shows people.
	Text string
}

// AuditEntry is what is kept of a press or a command: done, refused, failed or forged.
type AuditEntry struct {
	Forged   bool   // it did not come from Slack, or not for the first time
	Action   Action // empty: none that was understood
	Result   Result
	Incident string
	Pool     string
	Actor    string // as Actor returns it; empty: not known
	Reason   string
	Inputs   map[string]string // no secret is among them
}

// Executor is who carries wishes out and keeps what became of them. Its methods are
// called from several goroutines at once.
type Executor interface {
	// Do carries a wish out, if it still fits how things stand. That may take
	// longer than Slack waits.
	Execute(context.Context, Command) Response
	// Note keeps an entry. It does not block: Slack waits for an answer.
	AppendAudit(context.Context, AuditEntry)
}
