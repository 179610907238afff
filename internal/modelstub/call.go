package modelstub

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// How a call can fail to be answered.
var (
	errClientGone    = errors.New("the client has gone")
	errClosed        = errors.New("the stub is closed")
	errFaultInjected = errors.New("broken by a fault")
)

// call is one request on its way. Only its own goroutine touches it.
type call struct {
	stub        *Stub
	w           http.ResponseWriter
	r           *http.Request
	ctx         context.Context // ends with the client's connection and with the stub
	stop        func()
	path        string // one of the endpoints, or "other"
	isModelCall bool   // asks a model, so it counts as in flight
	generation  int
	rand        *rand.Rand
	stubFault   Fault
	fault       Fault
	options     options

	finishOnce  sync.Once
	holdsSlot   bool
	outcome     outcome
	headersSent bool // the headers have been written
	abortConn   bool // the connection must not end cleanly
}

func (s *Stub) begin(w http.ResponseWriter, r *http.Request) *call {
	number, global := s.nextCall()
	ctx, cancel := context.WithCancel(r.Context())
	unhook := context.AfterFunc(s.base, cancel)
	c := &call{
		stub: s, w: w, r: r, ctx: ctx, stubFault: global,
		stop: func() { unhook(); cancel() },
		path: pathLabel(r.URL.Path),
		rand: rand.New(rand.NewPCG(s.config.Seed, splitMix64(number))),
	}
	c.isModelCall = r.Method == http.MethodPost && isModelPath(c.path)
	c.generation = s.counters.begin(c.path, c.isModelCall)
	return c
}

// end closes the books of a call whatever happened to it, a panic included.
func (c *call) end() {
	if c.outcome == pending {
		c.outcome = aborted
	}
	c.finish(c.outcome)
	c.stop()
	c.stub.logCall(c)
}

// finish gives the slot back and counts the call, once. It comes before the
// last bytes are written: see [Stats].
func (c *call) finish(e outcome) {
	c.finishOnce.Do(func() {
		if c.holdsSlot {
			c.stub.slots.release()
		}
		c.stub.counters.end(c.path, c.isModelCall, c.generation, e)
	})
}

// acquireSlot waits for a slot, and leaves the queue when the client does.
func (c *call) acquireSlot() error {
	if err := c.stub.slots.acquire(c.ctx); err != nil {
		return c.endCause()
	}
	c.holdsSlot = true
	return nil
}

// sleep waits for d of scenario time, or until the call cannot go on.
func (c *call) sleep(d time.Duration) error {
	return c.sleepUntil(time.Now().Add(c.scaled(d)))
}

func (c *call) sleepUntil(t time.Time) error {
	wait := time.Until(t)
	if wait <= 0 {
		return c.endCause()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.ctx.Done():
		return c.endCause()
	}
}

// endCause is nil while the call can go on.
func (c *call) endCause() error {
	switch {
	case c.ctx.Err() == nil:
		return nil
	case c.r.Context().Err() != nil:
		return errClientGone
	default:
		return errClosed
	}
}

func (c *call) scaled(d time.Duration) time.Duration {
	return time.Duration(float64(d) / c.stub.config.Speed)
}

// timing draws the service time of a call that has its slot.
func (c *call) timing(promptTokens, outputTokens int) Timing {
	if c.options.service != nil {
		return Fixed(*c.options.service).Sample(c.rand, promptTokens, outputTokens)
	}
	return c.stub.currentService().Sample(c.rand, promptTokens, outputTokens)
}

// selectFault settles which fault strikes this call. The share is drawn for
// every call, so that a fault does not shift the service times of others.
func (c *call) selectFault() Fault {
	drawn := c.rand.Float64()
	switch {
	case c.options.fault != nil:
		return *c.options.fault
	case c.stubFault.Share == 0 || drawn < c.stubFault.Share:
		return c.stubFault
	}
	return Fault{}
}

// outcomeOf says how a call ended that answered with this error.
func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return completed
	case errors.Is(err, errFaultInjected):
		return faulted
	case errors.Is(err, errClosed):
		return aborted
	default:
		return clientGone
	}
}

// splitMix64 spreads consecutive numbers over all 64 bits (the finaliser of
// SplitMix64, Steele, Lea and Flood, 2014).
func splitMix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
