package alerts

import "time"

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
