// Package slack brings deliveries to Slack: as a bot, with one message for each
// incident that is edited in place and has its timeline in the thread; or through
// an incoming webhook, which can only post.
//
// # Words
//
//   - The notification line is the message's plain text: what a phone shows on its
//     locked screen. It reads well alone.
//   - A mention calls people: <!here>, <!subteam^S…> or <@U…>. It is set only in
//     what pings; an edit notifies nobody.
//   - Metadata {incident, seq, kind} goes with every post and reply, so that one
//     whose outcome is not known can be looked up: Slack has no idempotency keys.
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
