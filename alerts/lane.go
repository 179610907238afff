package alerts

import "time"

// lane is one channel: one attempt at a time, posts and edits spaced apart.
type lane struct {
	busy      bool
	at        stream // of the attempt under way
	post      time.Time
	edit      time.Time
	heldUntil time.Time // by the receiver
}

// free returns when the lane takes such a step.
func (l *lane) free(s step) time.Time {
	t := l.post
	if s.find || s.edits() {
		t = l.edit
	}
	if l.heldUntil.After(t) {
		return l.heldUntil
	}
	return t
}

// used notes that such a step was begun.
func (l *lane) used(s step, now time.Time, o Options) {
	if s.find || s.edits() {
		l.edit = now.Add(o.EditSpacing)
		return
	}
	l.post = now.Add(o.Spacing)
}

// due returns when a step may be done, as far as it alone is concerned.
func (s step) due(lookWait time.Duration) time.Time {
	if s.find && s.d.State == Sending {
		return s.d.Tried.Add(lookWait) // left over from a process that ended
	}
	return s.d.NotBefore
}

// before says whether a step goes ahead of another: who disturbs people first,
// then what opens an incident, then what is older.
func (s step) before(o step) bool {
	if s.d.Note.Ping != o.d.Note.Ping {
		return s.d.Note.Ping
	}
	if a, b := s.d.Opens(s.root), o.d.Opens(o.root); a != b {
		return a
	}
	return s.d.Created.Before(o.d.Created)
}
