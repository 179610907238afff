package control

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

const (
	pollInterval   = 500 * time.Millisecond // of the journal, for requests
	recordTimeout  = 5 * time.Second        // for one attempt to record
	flushTimeout   = 2 * time.Second        // for the last one, when going down
	minRetryDelay  = 100 * time.Millisecond
	maxRetryDelay  = 5 * time.Second
	maxRecordBatch = 100 // changes recorded in one attempt
)

// Run records what was done and carries out the requests that commands left in
// the journal. It returns when ctx has ended, after a last attempt to record.
func (c *Controller) Run(ctx context.Context) {
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	retry := time.NewTimer(0)
	defer retry.Stop()
	delay := minRetryDelay
	for {
		select {
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
			c.flush(last)
			cancel()
			return
		case <-poll.C:
			if err := c.ProcessRequests(ctx); err != nil && ctx.Err() == nil {
				c.log.Warn("requests of other processes are not seen", "error", err)
			}
			continue
		case <-c.wake:
		case <-retry.C:
		}
		if c.flush(ctx) {
			delay = minRetryDelay
			continue
		}
		retry.Reset(delay)
		delay = min(2*delay, maxRetryDelay)
	}
}

// flush records what is pending. It reports whether nothing is left.
func (c *Controller) flush(ctx context.Context) bool {
	for {
		changes, seen := c.nextBatch()
		if len(changes) == 0 && seen == 0 {
			return true
		}
		attempt, cancel := context.WithTimeout(ctx, recordTimeout)
		err := c.journal.RecordChanges(attempt, changes, seen)
		cancel()
		if err != nil {
			c.metrics.countError("record_mode")
			c.log.Error("a change of mode is applied but not recorded; trying again", "pending", len(changes), "error", err)
			return false
		}
		c.markRecorded(len(changes), seen)
		c.hooks.recorded(changes)
	}
}

// nextBatch returns the changes that are pending, and the number of the highest
// request if that is not recorded yet, 0 if it is. The number is only handed out
// with the last of the changes: those of its request must not come after it.
func (c *Controller) nextBatch() (changes []ModeChange, seen int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.dropped > 0 {
		c.log.Error("changes of mode were not recorded: too many were waiting", "count", c.dropped)
		c.dropped = 0
	}
	changes = slices.Clone(c.pending[:min(len(c.pending), maxRecordBatch)])
	if len(changes) == len(c.pending) && c.lastRequest > c.lastRequestRecorded {
		seen = c.lastRequest
	}
	return changes, seen
}

// markRecorded takes recorded changes off the list and tells those who wait.
func (c *Controller) markRecorded(n int, seen int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending = slices.Delete(c.pending, 0, n)
	c.lastRequestRecorded = max(c.lastRequestRecorded, seen)
	close(c.recordedCh)
	c.recordedCh = make(chan struct{})
}

// waitRecorded waits until none of the changes is pending any more.
func (c *Controller) waitRecorded(ctx context.Context, changes []ModeChange) bool {
	ctx, cancel := context.WithTimeout(ctx, recordWaitTimeout)
	defer cancel()
	for {
		c.mu.Lock()
		pending, next := c.anyPendingLocked(changes), c.recordedCh
		c.mu.Unlock()
		if !pending {
			return true
		}
		select {
		case <-next:
		case <-ctx.Done():
			return false
		}
	}
}

func (c *Controller) anyPendingLocked(changes []ModeChange) bool {
	return slices.ContainsFunc(c.pending, func(p ModeChange) bool {
		return slices.ContainsFunc(changes, func(q ModeChange) bool { return p.ID == q.ID })
	})
}

// ProcessRequests looks for requests in the journal and carries out those that are
// new. Run calls it by itself; call it once before tasks arrive, so that what
// was asked for while nothing ran counts from the first task on.
func (c *Controller) ProcessRequests(ctx context.Context) error {
	attempt, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	requests, err := c.journal.QueuedRequests(attempt, c.lastRequestNumber())
	if err != nil {
		c.metrics.countError("read_requests")
		return fmt.Errorf("read requests from the journal: %w", err)
	}
	for _, r := range requests {
		if err := c.processRequest(r); err != nil {
			c.log.Warn("a request in the journal was not carried out", "number", r.Number, "error", err)
		}
	}
	return nil
}

func (c *Controller) processRequest(r QueuedRequest) error {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.lastRequest = max(c.lastRequest, r.Number)
		c.wakeLocked()
	}()
	if r.Mode.Action == "" {
		return errors.New("it makes no sense")
	}
	r.Mode.Via = ViaRequest
	_, err := c.apply(time.Now(), r.Mode, r.Number)
	return err
}

func (c *Controller) lastRequestNumber() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lastRequest
}
