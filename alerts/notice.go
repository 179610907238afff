package alerts

import (
	"time"

	"headgate/engine"
)

// EventNotice is the kind of the event of a notice: something to tell that is no
// incident. Its Words are all that is said.
const EventNotice engine.EventKind = "notice"

// NewNotice returns a delivery that says some words once, in a message of its own at
// the destination for pages, without disturbing anybody. The name takes the place
// of the incident's ID: an outbox has one notice of a name at most.
func (r Routes) NewNotice(id, name, pool, words string, at time.Time) Delivery {
	to := r.Destination(engine.LevelPage, false)
	return Delivery{
		ID: id, Incident: name, Seq: 1, Kind: Post, Destination: to, Created: at, State: Queued,
		Notification: Notification{
			Incident: engine.Incident{ID: name, Key: engine.Key{Pool: pool}, Seq: 1, Opened: at},
			Event:    engine.Event{Incident: name, Seq: 1, Kind: EventNotice, At: at, Text: words},
		},
	}
}

// IsNotice says whether a delivery is one.
func (d Delivery) IsNotice() bool { return d.Notification.Event.Kind == EventNotice }
