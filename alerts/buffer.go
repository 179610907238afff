package alerts

import (
	"maps"
	"slices"
	"time"
)

// saveBuffer holds what could not be recorded yet. What it says of a delivery or a
// root counts, whatever the outbox says. Only the deliverer's goroutine uses it.
type saveBuffer struct {
	limit      int
	deliveries map[Key]Delivery
	threads    map[threadKey]Ref
}

func newSaveBuffer(limit int) *saveBuffer {
	return &saveBuffer{limit: limit, deliveries: make(map[Key]Delivery), threads: make(map[threadKey]Ref)}
}

func (m *saveBuffer) empty() bool { return len(m.deliveries) == 0 && len(m.threads) == 0 }

func (m *saveBuffer) full() bool { return len(m.deliveries) >= m.limit }

// add keeps changes that could not be saved. It knows no limit: they are results
// of what was accepted within it.
func (m *saveBuffer) add(c Changes) {
	for _, d := range c.Add {
		if _, there := m.deliveries[d.Key()]; !there {
			m.deliveries[d.Key()] = d
		}
	}
	for _, d := range c.Update {
		m.deliveries[d.Key()] = d
	}
	for _, r := range c.Threads {
		m.threads[threadKey{r.Incident, r.Destination}] = r.Ref
	}
}

// changes returns all of it, to be saved.
func (m *saveBuffer) changes() Changes {
	c := Changes{Update: slices.Collect(maps.Values(m.deliveries))}
	for s, ref := range m.threads {
		c.Threads = append(c.Threads, Thread{Incident: s.incident, Destination: s.destination, Ref: ref})
	}
	return c
}

func (m *saveBuffer) clear() {
	clear(m.deliveries)
	clear(m.threads)
}

// mergeByThread lays the memory over what the outbox has returned, and sorts both into
// streams.
func (m *saveBuffer) mergeByThread(recorded []Delivery) map[threadKey][]Delivery {
	all := make(map[threadKey][]Delivery)
	for _, d := range recorded {
		if _, newer := m.deliveries[d.Key()]; !newer {
			all[d.threadKey()] = append(all[d.threadKey()], d)
		}
	}
	for _, d := range m.deliveries {
		if d.State.Pending() {
			all[d.threadKey()] = append(all[d.threadKey()], d)
		}
	}
	return all
}

// oldestCreated returns when the oldest of them was created; zero if there are none.
func oldestCreated(all map[threadKey][]Delivery) time.Time {
	var t time.Time
	for _, ds := range all {
		for _, d := range ds {
			if t.IsZero() || d.Created.Before(t) {
				t = d.Created
			}
		}
	}
	return t
}
