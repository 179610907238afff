package invariant

import (
	"time"

	"headgate/proxy/admission"
)

// line is who waits of one class, first come first, linked through their marks:
// leaving costs the same wherever one stands.
type line struct{ first, last *admission.Ticket }

func (l *line) join(t *admission.Ticket) {
	m := t.Mark()
	m.Prev, m.Next = l.last, nil
	if l.last == nil {
		l.first = t
	} else {
		l.last.Mark().Next = t
	}
	l.last = t
}

func (l *line) leave(t *admission.Ticket) {
	m := t.Mark()
	if m.Prev == nil {
		l.first = m.Next
	} else {
		m.Prev.Mark().Next = m.Next
	}
	if m.Next == nil {
		l.last = m.Prev
	} else {
		m.Next.Mark().Prev = m.Prev
	}
	m.Prev, m.Next = nil, nil
}

// oldest returns for how long the first has waited, 0 if nobody waits.
func (l *line) oldest(now time.Time) time.Duration {
	if l.first == nil {
		return 0
	}
	return now.Sub(l.first.Mark().Since)
}
