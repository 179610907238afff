package invariant

import (
	"time"

	"headgate/proxy/admission"
)

// fifo is who waits of one class, first come first, linked through their marks:
// leaving costs the same wherever one stands.
type fifo struct{ first, last *admission.Ticket }

func (l *fifo) push(t *admission.Ticket) {
	m := t.Slot()
	m.Prev, m.Next = l.last, nil
	if l.last == nil {
		l.first = t
	} else {
		l.last.Slot().Next = t
	}
	l.last = t
}

func (l *fifo) remove(t *admission.Ticket) {
	m := t.Slot()
	if m.Prev == nil {
		l.first = m.Next
	} else {
		m.Prev.Slot().Next = m.Next
	}
	if m.Next == nil {
		l.last = m.Prev
	} else {
		m.Next.Slot().Prev = m.Prev
	}
	m.Prev, m.Next = nil, nil
}

// oldestAge returns for how long the first has waited, 0 if nobody waits.
func (l *fifo) oldestAge(now time.Time) time.Duration {
	if l.first == nil {
		return 0
	}
	return now.Sub(l.first.Slot().Since)
}
