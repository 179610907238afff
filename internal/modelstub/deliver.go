package modelstub

import (
	"iter"
	"net/http"
	"strconv"
	"time"
)

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
