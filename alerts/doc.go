// Package alerts notifies people of incidents and loses no notification: each event becomes deliveries in an outbox, in
// the transaction that records the event, and a [Dispatcher] sends them until it is known that they arrived.
//
// # Terms
//
//   - A delivery is one thing to send: the incident's message (a post, later edits of it), or a reply in its thread.
//   - A destination is a role (warn, page, drills, fallback) that settings map to a channel.
//   - A reference ([Ref]) is the position of a message, as the destination names it.
//   - A thread is what is pending about one incident at one destination.
//
// # States of a delivery
//
//	queued → sending → sent
//	                 → retry      with backoff and jitter, or when the receiver says
//	                 → uncertain  it may have arrived: looked up before it is sent again
//	                 → dead       permanently failed: visible, and raises a separate alert
//
// An unknown outcome is treated neither as success nor as failure.
//
// # What is sent
//
// [Planner] decides which event becomes what: the incident's message is posted once in each channel and then edited,
// its steps are replies in the thread. Only events about a page ping people: opening, escalation, an expired
// acknowledgement, a reminder, resolution. Muted events are planned as dropped, so that the record shows them.
//
// # How it is sent
//
//   - The order within a thread is kept; threads do not wait for one another.
//   - A channel takes one attempt at a time and one post a second.
//   - While an incident has no message, everything pending about it is combined into one message that shows the present
//     state. Afterwards the newest edit supersedes older ones; all replies are sent.
//   - A delivery that its destination permanently refuses goes to the fallback, with the reason.
//   - Urgent deliveries (those that ping, notices, and missing signals) go out even while the outbox fails, from a bounded
//     buffer that is recorded once the outbox works again. They are lost only if the process ends before; deliveries that
//     do not fit the buffer are counted.
//
// # Sources
//
// Marc Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015.
package alerts
