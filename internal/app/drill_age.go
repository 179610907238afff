package app

import (
	"context"
	"time"

	"headgate/runbooks/drill"
	"headgate/runbooks/drill/schedule"
)

// setPeriods tells how often drills are due, so that a pass can be too old. One that
// has no schedule any more goes.
func (m *drillMetrics) setPeriods(specs []drill.Spec, now time.Time) {
	m.period.Reset()
	for _, s := range specs {
		if s.Schedule == "" {
			continue
		}
		schedule, err := schedule.ParseSchedule(s.Schedule, s.Zone)
		if err != nil {
			continue // refused where it was set
		}
		if p := schedule.Period(now); p > 0 {
			m.period.WithLabelValues(s.ID).Set(p.Seconds())
		}
	}
}

// restoreLastPasses takes over from the record when drills of the settings passed last.
func (d *drillService) restoreLastPasses(ctx context.Context) {
	all, err := d.store.Latest(ctx)
	if err != nil {
		d.log.Warn("it could not be read when drills passed last", "err", err)
		return
	}
	known := map[string]bool{}
	for _, s := range d.app.currentDrillSpecs() {
		known[s.ID] = true
	}
	for _, l := range all {
		if known[l.Drill] && !l.PassedAt.IsZero() {
			d.app.drillMetrics.lastPass.WithLabelValues(l.Drill).Set(float64(l.PassedAt.UnixMilli()) / 1000)
		}
	}
	d.updateFirstDue(ctx)
}

// updateFirstDue tells since when drills are due: one that never passed counts from there.
func (d *drillService) updateFirstDue(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, drillStoreTimeout)
	defer cancel()
	dues, err := d.store.FirstDue(ctx)
	if err != nil {
		d.log.Warn("it could not be read when drills were first due", "err", err)
		return
	}
	for _, s := range d.app.currentDrillSpecs() {
		if at, ok := dues[s.ID]; ok && s.Schedule != "" {
			d.app.drillMetrics.firstDue.WithLabelValues(s.ID).Set(float64(at.UnixMilli()) / 1000)
		}
	}
}
