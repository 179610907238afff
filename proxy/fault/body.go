package fault

import (
	"context"
	"io"
	"time"
)

// alteredBody is an answer on its way that something will happen to.
type alteredBody struct {
	io.ReadCloser
	ctx    context.Context // of the call
	lease  *Lease
	intact int64 // bytes that still come through whole; -1: the first few
	done   bool  // it has happened, or never will
}

// readIntact reads what comes through as it is, while there is such.
func (b *alteredBody) readIntact(p []byte) (n int, err error) {
	if b.intact < 0 {
		return b.readFirst(p)
	}
	n, err = b.ReadCloser.Read(p[:min(int64(len(p)), b.intact)])
	b.intact -= int64(n)
	return n, err
}

// readFirst reads a little: nobody knows how much will come.
func (b *alteredBody) readFirst(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p[:min(len(p), firstPieceBytes)])
	if n > 0 {
		b.intact = 0
	}
	return n, err
}

// firstPieceBytes is how much of an answer of unknown length comes through: less than
// the first event of a stream has.
const firstPieceBytes = 16

// truncatedBody breaks an answer off, as a connection that breaks does.
type truncatedBody struct {
	alteredBody
	broken bool
}

func (c *truncatedBody) Read(p []byte) (int, error) {
	switch {
	case c.broken:
		return 0, io.ErrUnexpectedEOF
	case c.done || len(p) == 0:
		return c.ReadCloser.Read(p)
	case c.intact != 0:
		return c.readIntact(p)
	}
	c.done = true
	if !c.lease.hit(c.ctx) {
		return c.ReadCloser.Read(p)
	}
	c.broken = true
	_ = c.ReadCloser.Close() // the upstream is let go; what it would have said nobody hears
	return 0, io.ErrUnexpectedEOF
}

// malformedBody makes a piece of an answer garbage of the same length.
type malformedBody struct{ alteredBody }

// garbage has what no text has, and leaves quotes and braces open: neither JSON nor
// an event survives it.
const garbage = "\x00\xff\x00\xff\"{\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff"

func (g *malformedBody) Read(p []byte) (int, error) {
	switch {
	case g.done || len(p) == 0:
		return g.ReadCloser.Read(p)
	case g.intact != 0:
		return g.readIntact(p)
	}
	n, err := g.ReadCloser.Read(p[:min(len(p), len(garbage))])
	if n == 0 {
		return n, err
	}
	g.done = true
	if g.lease.hit(g.ctx) {
		copy(p[:n], garbage)
	}
	return n, err
}

// drippedBody lets an answer through in small pieces.
type drippedBody struct {
	alteredBody
	n        uint64
	dripping bool
}

// dripBytes is how many bytes come at a time.
const dripBytes = 16

func (d *drippedBody) Read(p []byte) (int, error) {
	switch {
	case d.done || len(p) == 0:
		return d.ReadCloser.Read(p)
	case d.intact != 0:
		return d.readIntact(p)
	}
	if !d.dripping && !d.lease.hit(d.ctx) || d.dripping && !d.lease.Active() {
		d.done = true
		return d.ReadCloser.Read(p)
	}
	d.dripping = true
	if err := d.lease.stall(d.ctx, d.pause()); err != nil {
		return 0, err
	}
	return d.ReadCloser.Read(p[:min(len(p), dripBytes)])
}

func (d *drippedBody) pause() time.Duration {
	d.n++
	return d.lease.delay(d.n)
}
