package alerts

import (
	"cmp"
	"slices"
	"time"
)

// threadKey names a thread: what is pending about one incident at one destination.
type threadKey struct {
	incident    string
	destination Destination
}

func (d Delivery) threadKey() threadKey { return threadKey{d.Incident, d.Destination} }

// StartsThread says whether a delivery, whatever its kind, is sent as a separate message: the destination has no
// message that could be edited or replied to.
func (d Delivery) StartsThread(thread Ref) bool { return thread == Ref{} }

// EditsMessage says whether sending is idempotent: it sets the message to its present content.
func (d Delivery) EditsMessage(thread Ref) bool { return !d.StartsThread(thread) && d.Kind != Reply }

// step is the next attempt or look-up of a thread, with the deliveries that it supersedes or adds.
type step struct {
	delivery Delivery // as it is to be sent
	thread   Ref      // the incident's message; zero: none yet
	lookup   bool     // find out whether it has arrived instead of sending
	dropped  []Delivery
	added    []Delivery
}

// countsAsEdit says whether the step is limited with the edits of a channel, apart from its posts. Look-ups are.
func (s step) countsAsEdit() bool { return s.lookup || s.delivery.EditsMessage(s.thread) }

// dueAt returns the earliest time of a step, apart from the channel's limits.
func (s step) dueAt() time.Time {
	if s.lookup && s.delivery.State == Sending {
		return s.delivery.LastAttempt.Add(lookupDelay) // left over from a process that ended
	}
	return s.delivery.NotBefore
}

// precedes orders steps of different threads: pings first, then first messages of incidents, then older deliveries.
func (s step) precedes(o step) bool {
	if s.delivery.Notification.Ping != o.delivery.Notification.Ping {
		return s.delivery.Notification.Ping
	}
	if a, b := s.delivery.StartsThread(s.thread), o.delivery.StartsThread(o.thread); a != b {
		return a
	}
	return s.delivery.Created.Before(o.delivery.Created)
}

// nextSteps returns the steps that a thread allows now, in order of preference. Only one of them is taken at a time.
// Due times are left to the caller.
func nextSteps(ds []Delivery, thread Ref) []step {
	if len(ds) == 0 {
		return nil
	}
	ds = slices.Clone(ds)
	slices.SortStableFunc(ds, func(a, b Delivery) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Kind.order(), b.Kind.order()))
	})
	for _, d := range ds {
		if (d.State == Uncertain || d.State == Sending) && !d.EditsMessage(thread) {
			return []step{{delivery: d, thread: thread, lookup: true}}
		}
	}
	if (thread == Ref{}) {
		return []step{firstMessage(ds)}
	}
	return threadUpdates(ds, thread)
}

func (k Kind) order() int { return slices.Index([]Kind{Post, Edit, Reply}, k) }

// firstMessage combines everything pending into one first message with the newest content, so that readers see neither
// an end before its beginning nor a beginning that is over. It has the key of the oldest delivery, by which it is
// looked up. Annotations (what people or headgate did) are not combined: they are sent in the thread afterwards.
func firstMessage(ds []Delivery) step {
	first, newest := ds[0], ds[len(ds)-1]
	n := newest.Notification
	for _, d := range ds {
		n.Ping = n.Ping || d.Notification.Ping
		n.PossibleDuplicate = n.PossibleDuplicate || d.Notification.PossibleDuplicate
		n.Unrecorded = n.Unrecorded || d.Notification.Unrecorded
		if n.FallbackReason == "" {
			n.FallbackFrom, n.FallbackReason = d.Notification.FallbackFrom, d.Notification.FallbackReason
		}
		first.PlainText = first.PlainText || d.PlainText
	}
	n.Combined = !n.Incident.Open()
	first.Notification = n
	combined := slices.DeleteFunc(slices.Clone(ds[1:]), func(d Delivery) bool {
		return d.Kind == Reply && d.Notification.Event.Kind.IsAnnotation() && d.Notification.Event.Text != ""
	})
	return step{delivery: first, dropped: markDropped(combined, "included in the first message")}
}

// threadUpdates sends the newest edit, and replies in order. The edit comes first, because it also shows whether the
// message still exists.
func threadUpdates(ds []Delivery, thread Ref) []step {
	var edits, replies, added []Delivery
	for _, d := range ds {
		if d.Kind == Reply {
			replies = append(replies, d)
			continue
		}
		edits = append(edits, d)
		if d.Kind == Post && d.Notification.Ping {
			added = append(added, pingReply(d)) // planned when the message was not known
		}
	}
	var all []step
	if n := len(edits); n > 0 {
		older := markDropped(edits[:n-1], "superseded by a newer edit")
		all = append(all, step{delivery: edits[n-1], thread: thread, dropped: older, added: added})
	}
	if len(replies) > 0 {
		all = append(all, step{delivery: replies[0], thread: thread})
	}
	return all
}

// pingReply is a reply that pings in place of a post: an edit sends no notification.
func pingReply(d Delivery) Delivery {
	d.Kind, d.State, d.ID = Reply, Queued, ""
	d.Attempts, d.NotBefore, d.LastAttempt, d.Reason = 0, time.Time{}, time.Time{}, ""
	return d
}

func markDropped(ds []Delivery, reason string) []Delivery {
	dropped := slices.Clone(ds)
	for i := range dropped {
		dropped[i].State, dropped[i].Reason = Dropped, reason
	}
	return dropped
}

// channel limits what is sent to one destination: one attempt at a time, posts and edits spaced apart.
type channel struct {
	busy      bool
	nextPost  time.Time
	nextEdit  time.Time
	heldUntil time.Time // by the receiver
}

// availableAt returns when the channel takes such a step.
func (c *channel) availableAt(s step) time.Time {
	t := c.nextPost
	if s.countsAsEdit() {
		t = c.nextEdit
	}
	if c.heldUntil.After(t) {
		return c.heldUntil
	}
	return t
}

// reserve accounts for a step that was started.
func (c *channel) reserve(s step, now time.Time) {
	if s.countsAsEdit() {
		c.nextEdit = now.Add(editInterval)
		return
	}
	c.nextPost = now.Add(postInterval)
}
