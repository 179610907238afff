package alerts

import (
	"slices"

	"headgate/engine"
)

// Routes names the channel behind each destination. An empty name means that
// there is none. Names are only compared.
type Routes struct{ Warn, Page, Drills, Fallback string }

// Destination returns where an incident of that level goes. Destinations that share a
// channel are taken as one, the first of page, warn, drills and fallback, so that
// an incident has one message in each channel; one without a channel is stood in
// for by page, then warn.
func (r Routes) Destination(level engine.Level, drill bool) Destination {
	switch {
	case drill && r.Drills != "":
		return r.canonical(r.Drills)
	case level < engine.LevelPage && r.Warn != "":
		return r.canonical(r.Warn)
	case r.Page != "":
		return ToPage
	case r.Warn != "":
		return r.canonical(r.Warn)
	default:
		return ToFallback
	}
}

// Fallback returns where a delivery goes that one destination has refused for
// good, and whether there is such a place.
func (r Routes) fallback(from Destination) (Destination, bool) {
	if r.Fallback == "" {
		return "", false
	}
	to := r.canonical(r.Fallback)
	return to, to != from
}

// Destinations returns the destinations that deliveries may be planned for, fallback
// included, each channel once.
func (r Routes) Destinations() []Destination {
	var used []Destination
	for _, name := range []string{r.Page, r.Warn, r.Drills, r.Fallback} {
		if name == "" {
			continue
		}
		if to := r.canonical(name); !slices.Contains(used, to) {
			used = append(used, to)
		}
	}
	return used
}

func (r Routes) canonical(channel string) Destination {
	switch channel {
	case r.Page:
		return ToPage
	case r.Warn:
		return ToWarn
	case r.Drills:
		return ToDrills
	default:
		return ToFallback
	}
}
