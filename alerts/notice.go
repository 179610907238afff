package alerts

import (
	"time"

	"headgate/engine"
)

// EventNotice is the kind of the event of a notice: something to tell that is no
// incident. Its Words are all that is said.
const EventNotice engine.EventKind = "notice"

// Notice returns a delivery that says some words once, in a message of its own at
// the destination for pages, without disturbing anybody. The name takes the place
// of the incident's ID: an outbox has one notice of a name at most.
func (r Routes) Notice(id, name, pool, words string, at time.Time) Delivery {
	to := r.Of(engine.LevelPage, false)
	return Delivery{
		ID: id, Incident: name, Seq: 1, Kind: Post, Destination: to, Created: at, State: Queued,
		Note: Note{
			Incident: engine.Incident{ID: name, Key: engine.Key{Pool: pool}, Seq: 1, Opened: at},
			Event:    engine.Event{Incident: name, Seq: 1, Kind: EventNotice, At: at, Words: words},
		},
	}
}

// Notice says whether a delivery is one.
func (d Delivery) Notice() bool { return d.Note.Event.Kind == EventNotice }
