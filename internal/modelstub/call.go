package modelstub

import (
	"context"
	"errors"
	"hash"
	"hash/crc32"
	"iter"
	"math/rand/v2"
	"net/http"
	"strconv"
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
	if c.stub.config.OnSlot != nil {
		c.stub.config.OnSlot(c.r)
	}
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

// reply is an answer before it is timed, broken and written: a body, or
// events.
type reply struct {
	id           string // of the request
	contentType  string
	body         []byte
	events       iter.Seq[event]
	gaps         int // how many events are paced
	promptTokens int
	outputTokens int
	noSlot       bool // asks no model: takes no slot and no time
}

// event is one write of a streamed answer.
type event struct {
	data  []byte
	paced bool // waits for its place in the service time
	last  bool // ends the answer
}

// serve answers the call and says how it ended.
func (c *call) serve() outcome {
	var err error
	if c.options, err = parseOptions(c.r.Header); err != nil {
		return c.reject(badRequest("", err.Error()))
	}
	c.fault = c.selectFault()
	rep, err := c.answer()
	if err != nil {
		return c.reject(err)
	}
	return outcomeOf(c.deliver(rep))
}

// deliver times an answer and writes it, as far as the fault lets it.
func (c *call) deliver(rep reply) error {
	if rep.events == nil && c.fault.Kind == KindErrorEvent {
		c.fault.Kind, c.fault.Status = KindStatus, http.StatusInternalServerError
	}
	if c.fault.Kind == KindStatus {
		return c.failWithStatus()
	}
	var timing Timing
	if !rep.noSlot {
		if err := c.acquireSlot(); err != nil {
			return err
		}
		timing = c.timing(rep.promptTokens, rep.outputTokens)
	}
	begin := time.Now()
	switch c.fault.Kind {
	case KindHang:
		return c.hang()
	case KindReset:
		return c.resetConn()
	}
	timing.FirstByte += c.fault.Latency
	timing.Total += c.fault.Latency
	if rep.events == nil {
		return c.deliverBody(rep, begin, timing)
	}
	return c.deliverStream(rep, begin, timing)
}

func (c *call) deliverBody(rep reply, begin time.Time, timing Timing) error {
	if err := c.sleepUntil(begin.Add(c.scaled(timing.Total))); err != nil {
		return err
	}
	body := rep.body
	if c.options.encoding != "" {
		packed, err := compress(c.options.encoding, body)
		if err != nil {
			return err
		}
		body = packed
	}
	c.writeHeaders(rep, timing.Total, len(body))
	out := c.newAnswerWriter()
	if c.fault.midAnswer() {
		half := len(body) / 2
		if err := out.write(body[:half]); err != nil {
			return err
		}
		if err := c.applyFault(out); err != nil {
			return err
		}
		body = body[half:]
	}
	return out.writeLast(body)
}

func (c *call) deliverStream(rep reply, begin time.Time, timing Timing) error {
	if err := c.sleepUntil(begin.Add(c.scaled(timing.FirstByte))); err != nil {
		return err
	}
	c.writeHeaders(rep, timing.FirstByte, -1)
	out := c.newAnswerWriter()
	if err := out.compressStream(c.options.encoding); err != nil {
		return err
	}
	gap := (timing.Total - timing.FirstByte) / time.Duration(max(rep.gaps, 1))
	due := begin.Add(c.scaled(timing.FirstByte))
	sent, strikes := 0, c.fault.midAnswer()
	for e := range rep.events {
		if strikes && (sent >= c.fault.After || e.last) {
			strikes = false
			if err := c.applyFault(out); err != nil {
				return err
			}
			due = due.Add(c.scaled(c.fault.Delay)) // after a silence the pace stays
		}
		if e.paced {
			due = due.Add(c.scaled(gap))
		}
		if err := c.sendEvent(out, e, due); err != nil {
			return err
		}
		sent++
	}
	return nil
}

func (c *call) sendEvent(out *answerWriter, e event, due time.Time) error {
	if err := c.sleepUntil(due); err != nil {
		return err
	}
	if e.last {
		return out.writeLast(e.data)
	}
	if err := out.write(e.data); err != nil {
		return err
	}
	return out.flush()
}

// writeHeaders announces the answer. A length below zero is not known.
func (c *call) writeHeaders(rep reply, processing time.Duration, length int) {
	h := c.w.Header()
	setCommonHeaders(h, rep.id)
	h.Set("Content-Type", rep.contentType)
	h.Set("Openai-Processing-Ms", strconv.FormatInt(processing.Milliseconds(), 10))
	if rep.events != nil {
		h.Set("Cache-Control", "no-cache")
	}
	if c.options.encoding != "" {
		h.Set("Content-Encoding", c.options.encoding)
		h.Set("Vary", "Accept-Encoding")
	}
	if c.options.trailer {
		h.Set("Trailer", TrailerChecksum)
	}
	if length >= 0 && !c.options.trailer && !c.endsChunked() {
		h.Set("Content-Length", strconv.Itoa(length))
	}
	c.headersSent = true
	c.w.WriteHeader(http.StatusOK)
}

// endsChunked reports whether the fault needs chunked framing to break.
func (c *call) endsChunked() bool {
	return c.fault.Kind == KindMalformed || (c.fault.Kind == KindTruncate && !c.fault.WrongLength)
}

// setCommonHeaders sets what a model server adds to every answer, with names
// and repeated values that nothing in between can know, to be passed on as
// they are.
func setCommonHeaders(h http.Header, id string) {
	h.Set("X-Request-Id", id)
	h.Set("Openai-Version", "2020-10-01")
	h.Set("Openai-Organization", "stub-org")
	h.Set("X-Ratelimit-Limit-Requests", "10000")
	h.Set("X-Ratelimit-Remaining-Requests", "9999")
	h["X-Stub-Multi"] = []string{"one", "two, three"}
}

// answerWriter is the way of an answer's bytes to the client: compressed, dripped
// and summed as the call asks.
type answerWriter struct {
	call        *call
	compressor  compressor // nil when the stream is not compressed
	checksum    hash.Hash32
	dripStarted bool // a byte has been dripped
}

func (c *call) newAnswerWriter() *answerWriter {
	return &answerWriter{call: c, checksum: crc32.NewIEEE()}
}

func (o *answerWriter) compressStream(encoding string) error {
	if encoding == "" {
		return nil
	}
	packer, err := newCompressor(encoding, writerFunc(o.writeRaw))
	o.compressor = packer
	return err
}

type writerFunc func([]byte) (int, error)

// Write calls the function.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func (o *answerWriter) write(p []byte) error {
	var err error
	if o.compressor != nil {
		_, err = o.compressor.Write(p)
	} else {
		_, err = o.writeRaw(p)
	}
	return err
}

// writeLast writes the end of the answer. The call is counted as ended just
// before the final byte, once everything before it has been taken.
func (o *answerWriter) writeLast(p []byte) error {
	split := max(len(p)-1, 0)
	if err := o.write(p[:split]); err != nil {
		return err
	}
	if err := o.call.endCause(); err != nil {
		return err
	}
	o.call.finish(completed)
	// From here on the answer counts as given: whether the client still takes
	// the last byte is not known to a real server either.
	_ = o.write(p[split:])
	if o.compressor != nil {
		_ = o.compressor.Close()
	}
	o.setTrailer()
	return nil
}

func (o *answerWriter) setTrailer() {
	if o.call.options.trailer {
		o.call.w.Header().Set(TrailerChecksum, strconv.FormatUint(uint64(o.checksum.Sum32()), 16))
	}
}

// flush sends what was written on its way.
func (o *answerWriter) flush() error {
	if o.compressor != nil {
		if err := o.compressor.Flush(); err != nil {
			return err
		}
	}
	return o.flushRaw()
}

func (o *answerWriter) flushRaw() error {
	err := http.NewResponseController(o.call.w).Flush()
	if err == nil || errors.Is(err, http.ErrNotSupported) {
		return nil
	}
	return errors.Join(errClientGone, err)
}

func (o *answerWriter) writeRaw(p []byte) (int, error) {
	_, _ = o.checksum.Write(p) // a hash never fails
	if o.call.fault.Kind == KindDrip {
		return o.drip(p)
	}
	n, err := o.call.w.Write(p)
	if err != nil {
		err = errors.Join(errClientGone, err)
	}
	return n, err
}

// drip writes one byte at a time, each with a pause before it except the first
// of the answer.
func (o *answerWriter) drip(p []byte) (int, error) {
	for i := range p {
		if o.dripStarted {
			if err := o.call.sleep(o.call.fault.Delay); err != nil {
				return i, err
			}
		}
		o.dripStarted = true
		if _, err := o.call.w.Write(p[i : i+1]); err != nil {
			return i, errors.Join(errClientGone, err)
		}
		if err := o.flushRaw(); err != nil {
			return i, err
		}
	}
	return len(p), nil
}
