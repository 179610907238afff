// Package slack brings deliveries to Slack: as a bot, with one message for each
// incident that is edited in place and has its timeline in the thread; or through
// an incoming webhook, which can only post. And it brings back what people press
// and type there.
//
// # Words
//
//   - The notification line is the message's plain text: what a phone shows on its
//     locked screen. It reads well alone.
//
//   - A mention calls people: <!here>, <!subteam^S…> or <@U…>. It is set only in
//     what pings; an edit notifies nobody.
//
//   - Metadata {incident, seq, kind} goes with every post and reply, so that one
//     whose outcome is not known can be looked up: Slack has no idempotency keys.
//
//   - A press is a button, a command is a line after /headgate. Both are callbacks,
//     which come by one of two transports: RequestHandler (HTTP, signed) or a Socket.
//
//   - A InteractionHandler judges a callback: of this workspace, app and channel? of a user
//     who may? It makes it a Command, which a Executor carries out, once.
//
//   - ObservedState is what the message said whose button was pressed. The Executor compares it
//     with how things stand (compare and swap), so that of two who press at once
//     one wins, and a press that is replayed later does nothing.
//
// # What is taken for what
//
// Slack answers some failures with 200 and no error. A post has arrived only if
// the answer names its ts. A connection that breaks after the request was written,
// an answer that is no answer and a server error are of unknown outcome. What
// never will work at this channel (archived, not a member, revoked) is told apart
// from what only its form spoils and from a message that is gone; the rest is
// tried again.
//
// A callback is taken once by its trigger_id, whatever transport, signature or
// retry it comes with. It is answered before anything is done, since Slack waits
// for three seconds; where it could not be queued the answer is that it was not
// taken. What is forged or replayed is noted in bounded numbers.
//
// # Units
//
// Lengths are in characters, as Slack counts them, markup and entities included.
//
// No error, reason or log of this package holds a token or a webhook's URL.
//
// # Sources
//
// docs.slack.dev: the reference of the methods, "Formatting message text",
// "Rate limits", "Reference: blocks". Behaviour of slack-go v0.36 as its source
// has it.
package slack
