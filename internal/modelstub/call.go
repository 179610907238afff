package modelstub

import (
	"context"
	"errors"
	"hash"
	"hash/crc32"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"strconv"
	"sync"
	"time"
)

// Why a call could not be answered.
var (
	errClientGone    = errors.New("the client has gone")
	errClosed        = errors.New("the stub is closed")
	errFaultInjected = errors.New("broken by a fault")
)

// call is one request in progress. Only its own goroutine touches it.
type call struct {
	stub        *Stub
	w           http.ResponseWriter
	r           *http.Request
	ctx         context.Context // ends with the client's connection and with the stub
	stop        func()
	path        string // one of the endpoints, or "other"
	isModelCall bool   // counts as in flight
	rand        *rand.Rand
	fault       Fault
	options     options

	finishOnce  sync.Once
	holdsSlot   bool
	outcome     outcome
	headersSent bool // the headers have been written
	abortConn   bool // the connection must not end cleanly
}

func (s *Stub) begin(w http.ResponseWriter, r *http.Request) *call {
	ctx, cancel := context.WithCancel(r.Context())
	unhook := context.AfterFunc(s.base, cancel)
	c := &call{
		stub: s, w: w, r: r, ctx: ctx,
		stop: func() { unhook(); cancel() },
		path: pathLabel(r.URL.Path),
		rand: rand.New(rand.NewPCG(s.config.Seed, splitMix64(s.calls.Add(1)))),
	}
	c.isModelCall = r.Method == http.MethodPost && isModelPath(c.path)
	s.counters.begin(c.path, c.isModelCall)
	return c
}

// end finishes a call whatever happened to it, a panic included.
func (c *call) end() {
	if c.outcome == pending {
		c.outcome = aborted
	}
	c.finish(c.outcome)
	c.stop()
	c.stub.config.Log.LogAttrs(c.r.Context(), slog.LevelDebug, "stub call",
		slog.String("component", "modelstub"), slog.String("path", c.path),
		slog.String("outcome", c.outcome.String()), slog.String("fault", clip(c.r.Header.Get(HeaderFault))))
}

// finish releases the slot and counts the call, once. It comes before the last
// bytes are written: see [Stats].
func (c *call) finish(o outcome) {
	c.finishOnce.Do(func() {
		if c.holdsSlot {
			c.stub.slots.release()
		}
		c.stub.counters.end(c.path, c.isModelCall, o)
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

// outcomeOf returns the outcome of a call that ended with this error.
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

// reply is an answer before it is timed, altered by a fault and written: a body, or
// a stream.
type reply struct {
	id           string // of the request
	contentType  string
	body         []byte
	stream       stream // instead of a body
	promptTokens int
	outputTokens int
	noSlot       bool // asks no model: takes no slot and no time
}

// stream is the events of a streamed answer.
type stream struct {
	length int
	paced  int // how many events are paced
	event  func(i int) event
}

// event is one write of a streamed answer.
type event struct {
	data  []byte
	paced bool // waits for its place in the service time
	last  bool // ends the answer
}

// serve answers the call and returns how it ended.
func (c *call) serve() outcome {
	var err error
	if c.options, err = parseOptions(c.r.Header); err != nil {
		return c.reject(badRequest("", err.Error()))
	}
	c.fault = c.options.fault
	rep, err := c.answer()
	if err != nil {
		return c.reject(err)
	}
	return outcomeOf(c.deliver(rep))
}

// deliver times an answer and writes it, as far as the fault allows.
func (c *call) deliver(rep reply) error {
	if rep.stream.event == nil && c.fault.Kind == KindErrorEvent {
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
		service := c.stub.config.Service
		if c.options.service != nil {
			service = c.options.service
		}
		timing = service.Sample(c.rand, rep.promptTokens, rep.outputTokens)
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
	if rep.stream.event == nil {
		return c.deliverBody(rep, begin, timing)
	}
	return c.deliverStream(rep, begin, timing)
}

func (c *call) deliverBody(rep reply, begin time.Time, timing Timing) error {
	if err := c.sleepUntil(begin.Add(c.scaled(timing.Total))); err != nil {
		return err
	}
	body, err := compress(c.options.encoding, rep.body)
	if err != nil {
		return err
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

func (c *call) deliverStream(rep reply, begin time.Time, timing Timing) (err error) {
	due := begin.Add(c.scaled(timing.FirstByte))
	if err := c.sleepUntil(due); err != nil {
		return err
	}
	c.writeHeaders(rep, timing.FirstByte, -1)
	out := c.newAnswerWriter()
	if out.compressor, err = newCompressor(c.options.encoding, writerFunc(out.writeRaw)); err != nil {
		return err
	}
	gap := (timing.Total - timing.FirstByte) / time.Duration(max(rep.stream.paced, 1))
	strikes := c.fault.midAnswer()
	for i := range rep.stream.length {
		e := rep.stream.event(i)
		if strikes && (i >= c.fault.After || e.last) {
			strikes = false
			if err := c.applyFault(out); err != nil {
				return err
			}
			due = due.Add(c.scaled(c.fault.Delay)) // the pace after a silence stays the same
		}
		if e.paced {
			due = due.Add(c.scaled(gap))
		}
		if err := c.sendEvent(out, e, due); err != nil {
			return err
		}
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

// writeHeaders writes the headers of an answer. A length below zero is unknown.
func (c *call) writeHeaders(rep reply, processing time.Duration, length int) {
	h := c.w.Header()
	setCommonHeaders(h, rep.id)
	h.Set("Content-Type", rep.contentType)
	h.Set("Openai-Processing-Ms", strconv.FormatInt(processing.Milliseconds(), 10))
	if rep.stream.event != nil {
		h.Set("Cache-Control", "no-cache")
	}
	if c.options.encoding != "" {
		h.Set("Content-Encoding", c.options.encoding)
		h.Set("Vary", "Accept-Encoding")
	}
	if c.options.trailer {
		h.Set("Trailer", TrailerChecksum)
	}
	// Some faults need chunked framing to break.
	chunked := c.fault.Kind == KindMalformed || c.fault.Kind == KindTruncate && !c.fault.WrongLength
	if length >= 0 && !c.options.trailer && !chunked {
		h.Set("Content-Length", strconv.Itoa(length))
	}
	c.headersSent = true
	c.w.WriteHeader(http.StatusOK)
}

// setCommonHeaders sets what a model server adds to every answer, with names and
// repeated values that a proxy cannot know and must forward unchanged.
func setCommonHeaders(h http.Header, id string) {
	h.Set("X-Request-Id", id)
	h.Set("Openai-Version", "2020-10-01")
	h.Set("Openai-Organization", "stub-org")
	h.Set("X-Ratelimit-Limit-Requests", "10000")
	h.Set("X-Ratelimit-Remaining-Requests", "9999")
	h["X-Stub-Multi"] = []string{"one", "two, three"}
}

// answerWriter writes an answer to the client: compressed, dripped and summed as
// the call asks.
type answerWriter struct {
	call        *call
	compressor  compressor // of a stream; nil: not compressed
	checksum    hash.Hash32
	dripStarted bool // a byte has been dripped
}

func (c *call) newAnswerWriter() *answerWriter {
	return &answerWriter{call: c, checksum: crc32.NewIEEE()}
}

type writerFunc func([]byte) (int, error)

// Write calls the function.
func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func (o *answerWriter) write(p []byte) (err error) {
	if o.compressor != nil {
		_, err = o.compressor.Write(p)
	} else {
		_, err = o.writeRaw(p)
	}
	return err
}

// writeLast writes the end of the answer. The call is counted as ended just
// before the final byte, once everything before it has been written.
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
	if o.call.options.trailer {
		o.call.w.Header().Set(TrailerChecksum, strconv.FormatUint(uint64(o.checksum.Sum32()), 16))
	}
	return nil
}

// flush sends everything that was written.
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
