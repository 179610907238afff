package alerts

import (
	"maps"
	"slices"
	"time"
)

// memory holds what could not be recorded yet. What it says of a delivery or a
// root counts, whatever the outbox says. Only the deliverer's goroutine uses it.
type memory struct {
	limit int
	ds    map[Key]Delivery
	roots map[stream]Ref
}

func newMemory(limit int) *memory {
	return &memory{limit: limit, ds: make(map[Key]Delivery), roots: make(map[stream]Ref)}
}

func (m *memory) empty() bool { return len(m.ds) == 0 && len(m.roots) == 0 }

func (m *memory) full() bool { return len(m.ds) >= m.limit }

// take keeps changes that could not be saved. It knows no limit: they are results
// of what was accepted within it.
func (m *memory) take(c Changes) {
	for _, d := range c.Add {
		if _, there := m.ds[d.Key()]; !there {
			m.ds[d.Key()] = d
		}
	}
	for _, d := range c.Update {
		m.ds[d.Key()] = d
	}
	for _, r := range c.Roots {
		m.roots[stream{r.Incident, r.Destination}] = r.Ref
	}
}

// changes returns all of it, to be saved.
func (m *memory) changes() Changes {
	c := Changes{Update: slices.Collect(maps.Values(m.ds))}
	for s, ref := range m.roots {
		c.Roots = append(c.Roots, Root{Incident: s.incident, Destination: s.to, Ref: ref})
	}
	return c
}

func (m *memory) clear() {
	clear(m.ds)
	clear(m.roots)
}

// over lays the memory over what the outbox has returned, and sorts both into
// streams.
func (m *memory) over(recorded []Delivery) map[stream][]Delivery {
	all := make(map[stream][]Delivery)
	for _, d := range recorded {
		if _, newer := m.ds[d.Key()]; !newer {
			all[d.stream()] = append(all[d.stream()], d)
		}
	}
	for _, d := range m.ds {
		if d.State.Pending() {
			all[d.stream()] = append(all[d.stream()], d)
		}
	}
	return all
}

// oldest returns when the oldest of them was created; zero if there are none.
func oldest(all map[stream][]Delivery) time.Time {
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
