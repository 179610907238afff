package alerts

import (
	"context"
	"time"
)

// save writes changes, unless the outbox has failed just before.
func (d *Deliverer) save(c Changes, now time.Time) bool {
	if c.Empty() {
		return true
	}
	return d.use("save", now, func(ctx context.Context) error { return d.o.Outbox.Save(ctx, c) })
}

// flush records what is held in memory.
func (d *Deliverer) flush(now time.Time) {
	if !d.mem.empty() && d.save(d.mem.changes(), now) {
		d.o.Log.Info("what was held in memory has been recorded", "count", len(d.mem.ds))
		d.mem.clear()
	}
}

// pending reads the outbox. While that fails, what was read last is no guide:
// only memory counts.
func (d *Deliverer) pending(now time.Time) (ds []Delivery, ok bool) {
	ok = d.use("pending", now, func(ctx context.Context) (err error) {
		ds, err = d.o.Outbox.Pending(ctx, d.o.MaxPending)
		return err
	})
	return ds, ok
}

// root says where a stream's message stands. If that cannot be read, it stands
// nowhere: a second message is better than none.
func (d *Deliverer) root(at stream, now time.Time) Ref {
	if ref, ok := d.mem.roots[at]; ok {
		return ref
	}
	if ref, ok := d.roots[at]; ok {
		return ref
	}
	var ref Ref
	if d.use("root", now, func(ctx context.Context) (err error) {
		ref, err = d.o.Outbox.Root(ctx, at.incident, at.to)
		return err
	}) {
		d.roots[at] = ref
	}
	return ref
}

// use calls the outbox within its time, and leaves it alone for a while after an
// error.
func (d *Deliverer) use(op string, now time.Time, f func(context.Context) error) bool {
	if now.Before(d.notBefore) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.o.SaveTimeout)
	defer cancel()
	err := f(ctx)
	if err == nil {
		return true
	}
	d.o.Metrics.outbox.WithLabelValues(op).Inc()
	d.o.Log.Error("the outbox failed", "op", op, "err", err)
	d.notBefore = time.Now().Add(d.o.SaveRetry)
	return false
}

// forget keeps the cache of roots as small as what is pending.
func (d *Deliverer) forget(all map[stream][]Delivery) {
	for at := range d.roots {
		if _, pending := all[at]; !pending && !d.lane(at.to).busy {
			delete(d.roots, at)
		}
	}
}

func (d *Deliverer) lane(to Destination) *lane {
	l := d.lanes[to]
	if l == nil {
		l = &lane{}
		d.lanes[to] = l
	}
	return l
}
