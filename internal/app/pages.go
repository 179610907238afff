package app

import (
	"context"
	"sync"
	"time"

	"headgate/internal/sqlite"
	"headgate/web/api"
	"headgate/web/ui"
)

// sloCountsTTL is how long the counts of an error budget are shown as they are: they
// are recorded once a minute.
const sloCountsTTL = 15 * time.Second

// newUI makes the pages for people.
func (a *App) newUI(admin *api.Admin) (*ui.Pages, error) {
	c := ui.Config{
		Admin: admin, Control: a.control, Facts: &poolFacts{app: a, counts: make(map[string]sloCounts)}, Log: a.log.With("component", "pages"),
	}
	if a.monitor != nil {
		c.Samples = a.monitor.samples
	}
	return ui.New(c)
}

// poolFacts tells the pages of limits and objectives.
type poolFacts struct {
	app *App

	mu     sync.Mutex
	counts map[string]sloCounts
}

// sloCounts is how many tasks of a window were well and bad, at a time.
type sloCounts struct {
	good, bad int64
	known     bool
	at        time.Time
}

// Facts implements ui.Facts.
func (f *poolFacts) Facts(ctx context.Context, now time.Time, pool string) (ui.PoolFacts, bool) {
	f.app.mu.Lock()
	cfg := f.app.cfg
	f.app.mu.Unlock()
	for i := range cfg.Pools {
		c := &cfg.Pools[i]
		if c.Name != pool {
			continue
		}
		known := ui.PoolFacts{Objective: c.SLO.Objective, Window: c.SLO.Window}
		if c.Admission.Policy == "threshold" {
			known.MaxAge, known.MaxDepth = c.Admission.MaxQueueAge, c.Admission.DepthMultiple*c.Workers
		}
		b := f.cachedCounts(ctx, now, pool, c.SLO.Window)
		known.Good, known.Bad, known.Counted = b.good, b.bad, b.known
		return known, true
	}
	return ui.PoolFacts{}, false
}

// cachedCounts returns the counts of a pool. Names of pools come from the settings, so
// there are few.
func (f *poolFacts) cachedCounts(ctx context.Context, now time.Time, pool string, window time.Duration) sloCounts {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b, ok := f.counts[pool]; ok && b.known && now.Sub(b.at) < sloCountsTTL {
		return b
	}
	b := readSLOCounts(ctx, f.app.store, pool, now.Add(-window))
	b.at = now
	f.counts[pool] = b
	return b
}

func readSLOCounts(ctx context.Context, store *sqlite.Store, pool string, since time.Time) sloCounts {
	good, bad, err := store.SLO(ctx, pool, since)
	return sloCounts{good: good, bad: bad, known: err == nil}
}

// LoginPath returns the path of a link, below the URL of the admin listener, that
// lets somebody in to the pages: once, within a few minutes. Call it after Start.
func (a *App) LoginPath(actor string) string {
	code, _ := a.auth.CreateLink(actor)
	return api.LoginLinkPath(code)
}
