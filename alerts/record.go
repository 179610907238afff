package alerts

import (
	"context"
	"time"
)

// save writes changes, unless the outbox has failed just before.
func (d *Dispatcher) save(c Changes, now time.Time) bool {
	if c.Empty() {
		return true
	}
	return d.callOutbox("save", now, func(ctx context.Context) error { return d.o.Outbox.Save(ctx, c) })
}

// flush records what is held in memory.
func (d *Dispatcher) flush(now time.Time) {
	if !d.buffer.empty() && d.save(d.buffer.changes(), now) {
		d.o.Log.Info("what was held in memory has been recorded", "count", len(d.buffer.deliveries))
		d.buffer.clear()
	}
}

// pending reads the outbox. While that fails, what was read last is no guide:
// only memory counts.
func (d *Dispatcher) pending(now time.Time) (ds []Delivery, ok bool) {
	ok = d.callOutbox("pending", now, func(ctx context.Context) (err error) {
		ds, err = d.o.Outbox.Pending(ctx, d.o.MaxPending)
		return err
	})
	return ds, ok
}

// threadRef says where a stream's message stands. If that cannot be read, it stands
// nowhere: a second message is better than none.
func (d *Dispatcher) threadRef(at threadKey, now time.Time) Ref {
	if ref, ok := d.buffer.threads[at]; ok {
		return ref
	}
	if ref, ok := d.threads[at]; ok {
		return ref
	}
	var ref Ref
	if d.callOutbox("root", now, func(ctx context.Context) (err error) {
		ref, err = d.o.Outbox.Thread(ctx, at.incident, at.destination)
		return err
	}) {
		d.threads[at] = ref
	}
	return ref
}

// callOutbox calls the outbox within its time, and leaves it alone for a while after an
// error.
func (d *Dispatcher) callOutbox(op string, now time.Time, f func(context.Context) error) bool {
	if now.Before(d.outboxRetryAt) {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), d.o.OutboxTimeout)
	defer cancel()
	err := f(ctx)
	if err == nil {
		return true
	}
	d.o.Metrics.outboxErrors.WithLabelValues(op).Inc()
	d.o.Log.Error("the outbox failed", "op", op, "err", err)
	d.outboxRetryAt = time.Now().Add(d.o.OutboxRetry)
	return false
}

// pruneThreads keeps the cache of roots as small as what is pending.
func (d *Dispatcher) pruneThreads(all map[threadKey][]Delivery) {
	for at := range d.threads {
		if _, pending := all[at]; !pending && !d.channel(at.destination).busy {
			delete(d.threads, at)
		}
	}
}

func (d *Dispatcher) channel(to Destination) *channel {
	l := d.channels[to]
	if l == nil {
		l = &channel{}
		d.channels[to] = l
	}
	return l
}
