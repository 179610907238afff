package admission

import (
	"iter"
	"time"
)

// queue holds waiting tickets in one doubly linked list for each class, so that
// removal costs the same at every position. It is served in the order of arrival
// across classes.
type queue struct {
	lists [numClasses]list
	depth int
}

type list struct{ front, back *Ticket }

func (q *queue) push(t *Ticket) {
	l := &q.lists[t.task.Class]
	t.prev, t.next = l.back, nil
	if l.back == nil {
		l.front = t
	} else {
		l.back.next = t
	}
	l.back = t
	q.depth++
}

func (q *queue) remove(t *Ticket) {
	l := &q.lists[t.task.Class]
	if t.prev == nil {
		l.front = t.next
	} else {
		t.prev.next = t.next
	}
	if t.next == nil {
		l.back = t.prev
	} else {
		t.next.prev = t.prev
	}
	t.prev, t.next = nil, nil
	q.depth--
}

// front returns the ticket to serve next, nil if the queue is empty.
func (q *queue) front() *Ticket { return earliest(q.heads()) }

func (q *queue) heads() [numClasses]*Ticket {
	var h [numClasses]*Ticket
	for c := range q.lists {
		h[c] = q.lists[c].front
	}
	return h
}

func earliest(heads [numClasses]*Ticket) *Ticket {
	var first *Ticket
	for _, t := range heads {
		if t != nil && (first == nil || t.seq < first.seq) {
			first = t
		}
	}
	return first
}

// all yields the waiting tickets in the order in which they will be served.
func (q *queue) all() iter.Seq[*Ticket] {
	return func(yield func(*Ticket) bool) {
		heads := q.heads()
		for t := earliest(heads); t != nil; t = earliest(heads) {
			heads[t.task.Class] = t.next
			if !yield(t) {
				return
			}
		}
	}
}

// oldestAge returns the age of the oldest waiting ticket of a class, 0 if none waits.
func (q *queue) oldestAge(c Class, now time.Time) time.Duration {
	if t := q.lists[c].front; t != nil {
		return now.Sub(t.offered)
	}
	return 0
}

// wakeList chains tickets whose wait has ended, so that their waiters can be
// called after unlocking, in order and without an allocation.
type wakeList struct{ first, last *Ticket }

func (s *wakeList) add(t *Ticket, r Refusal) {
	t.refusal = r
	if s.first == nil {
		s.first = t
	} else {
		s.last.next = t
	}
	s.last = t
}

func (s *wakeList) notify() {
	for t := s.first; t != nil; {
		next := t.next
		t.next = nil
		if t.task.Waiter != nil {
			t.task.Waiter.Done(t.refusal)
		}
		t = next
	}
}
