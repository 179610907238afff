package app

import (
	"context"
	"time"

	"headgate/runbooks/drill"
)

// schedules tells how often drills are due, so that a pass can be too old. One that
// has no schedule any more goes.
func (m *drillMetrics) schedules(specs []drill.Spec, now time.Time) {
	m.period.Reset()
	for _, s := range specs {
		if s.Schedule == "" {
			continue
		}
		schedule, err := drill.ParseSchedule(s.Schedule, s.Zone)
		if err != nil {
			continue // refused where it was set
		}
		if p := schedule.Period(now); p > 0 {
			m.period.WithLabelValues(s.ID).Set(p.Seconds())
		}
	}
}

// remember takes over from the record when drills of the settings passed last.
func (d *rehearsals) remember(ctx context.Context) {
	all, err := d.store.Latest(ctx)
	if err != nil {
		d.log.Warn("it could not be read when drills passed last", "err", err)
		return
	}
	known := map[string]bool{}
	for _, s := range d.app.specs() {
		known[s.ID] = true
	}
	for _, l := range all {
		if known[l.Drill] && !l.PassAt.IsZero() {
			d.app.drillMetrics.pass.WithLabelValues(l.Drill).Set(float64(l.PassAt.UnixMilli()) / 1000)
		}
	}
	d.firstDue(ctx)
}

// firstDue tells since when drills are due: one that never passed counts from there.
func (d *rehearsals) firstDue(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, verdictTime)
	defer cancel()
	dues, err := d.store.FirstDue(ctx)
	if err != nil {
		d.log.Warn("it could not be read when drills were first due", "err", err)
		return
	}
	for _, s := range d.app.specs() {
		if at, ok := dues[s.ID]; ok && s.Schedule != "" {
			d.app.drillMetrics.due.WithLabelValues(s.ID).Set(float64(at.UnixMilli()) / 1000)
		}
	}
}
