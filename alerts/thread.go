package alerts

import (
	"cmp"
	"slices"
	"time"
)

// threadKey is what is pending about one incident at one destination. Within it the
// order of events is kept; streams do not wait for one another.
type threadKey struct {
	incident    string
	destination Destination
}

func (d Delivery) threadKey() threadKey { return threadKey{d.Incident, d.Destination} }

// StartsThread says whether a delivery, whatever its kind, is sent as a message of its
// own: nothing stands at the destination that could be edited or replied to.
func (d Delivery) StartsThread(root Ref) bool { return root == Ref{} }

// editsMessage says whether sending is idempotent: it sets the message to what is true.
func (d Delivery) editsMessage(root Ref) bool { return !d.StartsThread(root) && d.Kind != Reply }

// step is what a stream does next, and what that makes pointless or adds.
type step struct {
	delivery Delivery // as it is to be sent
	root     Ref
	lookup   bool // look whether it has arrived instead of sending
	dropped  []Delivery
	added    []Delivery
}

// countsAsEdit says whether the step takes its turn among the edits of a channel, which
// are limited apart from its posts.
func (s step) countsAsEdit() bool { return !s.lookup && s.delivery.editsMessage(s.root) }

// nextSteps returns what a stream can do next, most wanted first. Only one of them is
// done at a time. It does not look at due times.
func nextSteps(ds []Delivery, root Ref) []step {
	ds = slices.Clone(ds)
	slices.SortStableFunc(ds, func(a, b Delivery) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Kind.order(), b.Kind.order()))
	})
	for _, d := range ds {
		if (d.State == Uncertain || d.State == Sending) && !d.editsMessage(root) {
			return []step{{delivery: d, root: root, lookup: true}}
		}
	}
	if len(ds) == 0 {
		return nil
	}
	if (root == Ref{}) {
		return []step{firstMessage(ds)}
	}
	return threadUpdates(ds, root)
}

func (k Kind) order() int { return slices.Index([]Kind{Post, Edit, Reply}, k) }

// firstMessage folds all that is pending into one first message: it says what is true
// now, so that nobody reads an end before its beginning, or a beginning that is
// over. It goes under the name of the oldest delivery, by which it is found again.
// What people or headgate by itself did is no part of it: that is still to be
// sent, in the thread.
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
	folded := slices.DeleteFunc(slices.Clone(ds[1:]), Delivery.isAnnotation)
	return step{delivery: first, dropped: markDropped(folded, "said by the first message")}
}

// isAnnotation says whether a delivery tells in words what was done.
func (d Delivery) isAnnotation() bool {
	return d.Kind == Reply && d.Notification.Event.Kind.IsAnnotation() && d.Notification.Event.Text != ""
}

// threadUpdates sends the newest edit, and replies in their order. The edit comes
// first, as it also shows whether the message is still there.
func threadUpdates(ds []Delivery, root Ref) []step {
	var edits, replies, added []Delivery
	for _, d := range ds {
		if d.Kind == Reply {
			replies = append(replies, d)
			continue
		}
		edits = append(edits, d)
		if d.Kind == Post && d.Notification.Ping {
			added = append(added, pingReply(d)) // it was planned without knowing of the message
		}
	}
	var all []step
	if n := len(edits); n > 0 {
		all = append(all, step{delivery: edits[n-1], root: root, dropped: markDropped(edits[:n-1], "a newer edit"), added: added})
	}
	if len(replies) > 0 {
		all = append(all, step{delivery: replies[0], root: root})
	}
	return all
}

// pingReply is the reply that disturbs people where a post could not.
func pingReply(d Delivery) Delivery {
	d.Kind, d.State, d.ID = Reply, Queued, ""
	d.Attempts, d.NotBefore, d.LastAttempt, d.Reason = 0, time.Time{}, time.Time{}, ""
	return d
}

func markDropped(ds []Delivery, why string) []Delivery {
	dropped := slices.Clone(ds)
	for i := range dropped {
		dropped[i].State, dropped[i].Reason = Dropped, why
	}
	return dropped
}

// channel is one channel: one attempt at a time, posts and edits spaced apart.
type channel struct {
	busy      bool
	thread    threadKey // of the attempt under way
	nextPost  time.Time
	nextEdit  time.Time
	heldUntil time.Time // by the receiver
}

// availableAt returns when the lane takes such a step.
func (l *channel) availableAt(s step) time.Time {
	t := l.nextPost
	if s.lookup || s.countsAsEdit() {
		t = l.nextEdit
	}
	if l.heldUntil.After(t) {
		return l.heldUntil
	}
	return t
}

// reserve notes that such a step was begun.
func (l *channel) reserve(s step, now time.Time, o Options) {
	if s.lookup || s.countsAsEdit() {
		l.nextEdit = now.Add(o.EditInterval)
		return
	}
	l.nextPost = now.Add(o.PostInterval)
}

// dueAt returns when a step may be done, as far as it alone is concerned.
func (s step) dueAt(lookWait time.Duration) time.Time {
	if s.lookup && s.delivery.State == Sending {
		return s.delivery.LastAttempt.Add(lookWait) // left over from a process that ended
	}
	return s.delivery.NotBefore
}

// precedes says whether a step goes ahead of another: who disturbs people first,
// then what opens an incident, then what is older.
func (s step) precedes(o step) bool {
	if s.delivery.Notification.Ping != o.delivery.Notification.Ping {
		return s.delivery.Notification.Ping
	}
	if a, b := s.delivery.StartsThread(s.root), o.delivery.StartsThread(o.root); a != b {
		return a
	}
	return s.delivery.Created.Before(o.delivery.Created)
}
