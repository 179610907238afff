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
package alerts
