// Package slack sends deliveries to Slack: as a bot, with one message for each incident that is edited in place and has
// its timeline in the thread; or through an incoming webhook, which can only post. It also receives the button presses
// and slash commands of people there.
//
// # Terms
//
//   - The notification line is the message's plain text, which a phone shows on its locked screen. It makes sense alone.
//   - A mention notifies people: <!here>, <!subteam^S…> or <@U…>. It is set only in pings; an edit sends no notification.
//   - Metadata {incident, seq, kind} goes with every post and reply, so that one whose outcome is not known can be looked
//     up: Slack has no idempotency keys.
//   - A callback is a button press or a line after /headgate. It arrives over Socket Mode or as a signed HTTP request.
//   - [Interactions] checks a callback (this workspace, app and channel? is the user allowed?) and makes it a [Command],
//     which an [Executor] executes once.
//   - [ObservedState] is the state that the message of a pressed button showed. The Executor compares it with the present
//     state (compare and swap), so that of two simultaneous presses one wins, and a press that is replayed later has no
//     effect.
//
// # How answers are classified
//
// Slack answers some failures with 200 and no error. A post has arrived only if the answer has its ts. A connection
// that breaks after the request was written, an answer without content and a server error leave the outcome unknown.
// Permanent failures of a channel (archived, not a member, revoked) are distinguished from malformed messages and
// from deleted messages; everything else is tried again.
//
// A callback is accepted once by its trigger_id, whatever transport, signature or retry it comes with; signed requests
// are also accepted once by their body. It is acknowledged before it is executed, since Slack waits three seconds; if
// it cannot be queued, it is not acknowledged. Audit entries of forged and replayed callbacks are limited.
//
// # Units
//
// Lengths are in characters, as Slack counts them, markup and entities included.
//
// No error, reason or log of this package holds a token or a webhook's URL.
//
// # Sources
//
// docs.slack.dev: the reference of the methods, "Formatting message text", "Rate limits", "Reference: blocks".
// Behaviour of slack-go v0.36 as its source has it.
package slack
