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
	errGone    = errors.New("the client has gone")
	errClosed  = errors.New("the stub is closed")
	errFaulted = errors.New("broken by a fault")
)

// call is one request on its way. Only its own goroutine touches it.
type call struct {
	stub    *Stub
	w       http.ResponseWriter
	r       *http.Request
	ctx     context.Context // ends with the client's connection and with the stub
	stop    func()
	path    string // one of the endpoints, or "other"
	model   bool   // asks a model, so it counts as in flight
	epoch   int
	rand    *rand.Rand
	global  Fault
	fault   Fault
	options options

	leaveOnce sync.Once
	holdsSlot bool
	ended     ending
	answering bool // the headers have been written
	breakOff  bool // the connection must not end cleanly
}

func (s *Stub) begin(w http.ResponseWriter, r *http.Request) *call {
	number, global := s.nextCall()
	ctx, cancel := context.WithCancel(r.Context())
	unhook := context.AfterFunc(s.base, cancel)
	c := &call{
		stub: s, w: w, r: r, ctx: ctx, global: global,
		stop: func() { unhook(); cancel() },
		path: knownPath(r.URL.Path),
		rand: rand.New(rand.NewPCG(s.config.Seed, mix(number))),
	}
	c.model = r.Method == http.MethodPost && isModelPath(c.path)
	c.epoch = s.tally.begin(c.path, c.model)
	return c
}

// end closes the books of a call whatever happened to it, a panic included.
func (c *call) end() {
	if c.ended == unended {
		c.ended = aborted
	}
	c.leave(c.ended)
	c.stop()
	c.stub.logCall(c)
}

// leave gives the slot back and counts the call, once. It comes before the
// last bytes are written: see [Stats].
func (c *call) leave(e ending) {
	c.leaveOnce.Do(func() {
		if c.holdsSlot {
			c.stub.slots.release()
		}
		c.stub.tally.end(c.path, c.model, c.epoch, e)
	})
}

// takeSlot waits for a slot, and leaves the queue when the client does.
func (c *call) takeSlot() error {
	if err := c.stub.slots.acquire(c.ctx); err != nil {
		return c.whyEnded()
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
		return c.whyEnded()
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-c.ctx.Done():
		return c.whyEnded()
	}
}

// whyEnded is nil while the call can go on.
func (c *call) whyEnded() error {
	switch {
	case c.ctx.Err() == nil:
		return nil
	case c.r.Context().Err() != nil:
		return errGone
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

// chooseFault settles which fault strikes this call. The share is drawn for
// every call, so that a fault does not shift the service times of others.
func (c *call) chooseFault() Fault {
	drawn := c.rand.Float64()
	switch {
	case c.options.fault != nil:
		return *c.options.fault
	case c.global.Share == 0 || drawn < c.global.Share:
		return c.global
	}
	return Fault{}
}

// endingOf says how a call ended that answered with this error.
func endingOf(err error) ending {
	switch {
	case err == nil:
		return completed
	case errors.Is(err, errFaulted):
		return faulted
	case errors.Is(err, errClosed):
		return aborted
	default:
		return clientGone
	}
}

// mix spreads consecutive numbers over all 64 bits (the finaliser of
// SplitMix64, Steele, Lea and Flood, 2014).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
