package app

import (
	"context"
	"sync"
	"time"

	"headgate/internal/sqlite"
	"headgate/web/api"
	"headgate/web/ui"
)

// budgetAge is how long the counts of an error budget are shown as they are: they
// are recorded once a minute.
const budgetAge = 15 * time.Second

// newPages makes the pages for people.
func (a *App) newPages(admin *api.Admin) (*ui.Pages, error) {
	c := ui.Config{
		Admin: admin, Facts: &facts{app: a, budgets: make(map[string]budget)}, Log: a.log.With("component", "pages"),
	}
	if a.watch != nil {
		c.Series = a.watch.samples
	}
	return ui.New(c)
}

// facts tells the pages of limits and objectives.
type facts struct {
	app *App

	mu      sync.Mutex
	budgets map[string]budget
}

// budget is how many tasks of a window were well and bad, at a time.
type budget struct {
	good, bad int64
	read      bool
	at        time.Time
}

// Facts implements ui.Facts.
func (f *facts) Facts(ctx context.Context, now time.Time, pool string) (ui.PoolFacts, bool) {
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
		b := f.budget(ctx, now, pool, c.SLO.Window)
		known.Good, known.Bad, known.Counted = b.good, b.bad, b.read
		return known, true
	}
	return ui.PoolFacts{}, false
}

// budget returns the counts of a pool. Names of pools come from the settings, so
// there are few.
func (f *facts) budget(ctx context.Context, now time.Time, pool string, window time.Duration) budget {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b, ok := f.budgets[pool]; ok && b.read && now.Sub(b.at) < budgetAge {
		return b
	}
	b := readBudget(ctx, f.app.store, pool, now.Add(-window))
	b.at = now
	f.budgets[pool] = b
	return b
}

func readBudget(ctx context.Context, store *sqlite.Store, pool string, since time.Time) budget {
	good, bad, err := store.SLO(ctx, pool, since)
	return budget{good: good, bad: bad, read: err == nil}
}

// LoginPath returns the path of a link, below the URL of the admin listener, that
// lets somebody in to the pages: once, within a few minutes. Call it after Start.
func (a *App) LoginPath(actor string) string {
	code, _ := a.door.Link(actor)
	return api.LinkPath(code)
}
