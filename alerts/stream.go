package alerts

import (
	"cmp"
	"slices"
	"time"
)

// stream is what is pending about one incident at one destination. Within it the
// order of events is kept; streams do not wait for one another.
type stream struct {
	incident string
	to       Destination
}

func (d Delivery) stream() stream { return stream{d.Incident, d.Destination} }

// Opens says whether a delivery, whatever its kind, is sent as a message of its
// own: nothing stands at the destination that could be edited or replied to.
func (d Delivery) Opens(root Ref) bool { return root == Ref{} }

// edits says whether sending is idempotent: it sets the message to what is true.
func (d Delivery) edits(root Ref) bool { return !d.Opens(root) && d.Kind != Reply }

// step is what a stream does next, and what that makes pointless or adds.
type step struct {
	d       Delivery // as it is to be sent
	root    Ref
	find    bool // look whether it has arrived instead of sending
	dropped []Delivery
	added   []Delivery
}

// edits says whether the step takes its turn among the edits of a channel, which
// are limited apart from its posts.
func (s step) edits() bool { return !s.find && s.d.edits(s.root) }

// steps returns what a stream can do next, most wanted first. Only one of them is
// done at a time. It does not look at due times.
func steps(ds []Delivery, root Ref) []step {
	ds = slices.Clone(ds)
	slices.SortStableFunc(ds, func(a, b Delivery) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Kind.rank(), b.Kind.rank()))
	})
	for _, d := range ds {
		if (d.State == Uncertain || d.State == Sending) && !d.edits(root) {
			return []step{{d: d, root: root, find: true}}
		}
	}
	if len(ds) == 0 {
		return nil
	}
	if (root == Ref{}) {
		return []step{opening(ds)}
	}
	return following(ds, root)
}

func (k Kind) rank() int { return slices.Index([]Kind{Post, Edit, Reply}, k) }

// opening folds all that is pending into one first message: it says what is true
// now, so that nobody reads an end before its beginning, or a beginning that is
// over. It goes under the name of the oldest delivery, by which it is found again.
// What people or headgate by itself did is no part of it: that is still to be
// sent, in the thread.
func opening(ds []Delivery) step {
	first, newest := ds[0], ds[len(ds)-1]
	n := newest.Note
	for _, d := range ds {
		n.Ping = n.Ping || d.Note.Ping
		n.Repeat = n.Repeat || d.Note.Repeat
		n.Unrecorded = n.Unrecorded || d.Note.Unrecorded
		if n.Diverted == "" {
			n.From, n.Diverted = d.Note.From, d.Note.Diverted
		}
		first.Plain = first.Plain || d.Plain
	}
	n.Combined = !n.Incident.Open()
	first.Note = n
	folded := slices.DeleteFunc(slices.Clone(ds[1:]), Delivery.remark)
	return step{d: first, dropped: drop(folded, "said by the first message")}
}

// remark says whether a delivery tells in words what was done.
func (d Delivery) remark() bool {
	return d.Kind == Reply && d.Note.Event.Kind.Remark() && d.Note.Event.Words != ""
}

// following sends the newest edit, and replies in their order. The edit comes
// first, as it also shows whether the message is still there.
func following(ds []Delivery, root Ref) []step {
	var edits, replies, added []Delivery
	for _, d := range ds {
		if d.Kind == Reply {
			replies = append(replies, d)
			continue
		}
		edits = append(edits, d)
		if d.Kind == Post && d.Note.Ping {
			added = append(added, ringing(d)) // it was planned without knowing of the message
		}
	}
	var all []step
	if n := len(edits); n > 0 {
		all = append(all, step{d: edits[n-1], root: root, dropped: drop(edits[:n-1], "a newer edit"), added: added})
	}
	if len(replies) > 0 {
		all = append(all, step{d: replies[0], root: root})
	}
	return all
}

// ringing is the reply that disturbs people where a post could not.
func ringing(d Delivery) Delivery {
	d.Kind, d.State, d.ID = Reply, Queued, ""
	d.Attempts, d.NotBefore, d.Tried, d.Reason = 0, time.Time{}, time.Time{}, ""
	return d
}

func drop(ds []Delivery, why string) []Delivery {
	dropped := slices.Clone(ds)
	for i := range dropped {
		dropped[i].State, dropped[i].Reason = Dropped, why
	}
	return dropped
}
