// Package alerts brings what happens to incidents to people, and loses none of
// it: each event becomes deliveries in an outbox, in the transaction that records
// the event; a deliverer sends them until it is known that they arrived.
//
// # Words
//
//   - A delivery is one thing to send: the incident's message (a post, later edits
//     of it), or a reply in its thread.
//   - A destination is where it goes: a role (warn, page, drills, fallback) that
//     settings map to a channel.
//   - A reference is where a message came to stand, as the destination names it.
//
// # States of a delivery
//
//	queued → sending → sent
//	                 → retry      with backoff and jitter, or when the receiver says
//	                 → uncertain  it may have arrived: reconciled before it is sent again
//	                 → dead       it never will: visible, and an alert of its own
//
// An outcome that is not known is never taken for success or for failure.
//
// # What is sent
//
// The Planner says which event becomes what: the incident's message is posted
// once in each channel and then edited, its steps are told in the thread. Only
// what concerns a page disturbs people: its opening, a warning that becomes one,
// an acknowledgement that expires, a reminder, the end. Muted events are planned
// as dropped, so that the record shows them.
//
// # How it is sent
//
//   - A stream is what is pending about one incident at one destination. Its order
//     is kept; no stream waits for another.
//   - A lane is one channel: one attempt at a time, one post a second.
//   - While an incident has no message, all that is pending about it is folded into
//     one, which says what is true now. Afterwards the newest edit makes older ones
//     pointless; replies are all sent.
//   - A delivery that one destination refuses for good goes to the fallback, with
//     the reason.
//   - While the outbox fails, pages, and the news that signals are missing, go out
//     from a bounded memory and are recorded when that is possible again. They are
//     lost only if the process ends before; what memory has no room for is counted.
//
// # Sources
//
// Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
package alerts
