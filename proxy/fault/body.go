package fault

import (
	"context"
	"io"
	"time"
)

// body is an answer on its way that something will happen to.
type body struct {
	io.ReadCloser
	ctx   context.Context // of the call
	lease *Lease
	left  int64 // bytes that still come through whole; -1: the first few
	spent bool  // it has happened, or never will
}

// whole reads what comes through as it is, while there is such.
func (b *body) whole(p []byte) (n int, err error) {
	if b.left < 0 {
		return b.first(p)
	}
	n, err = b.ReadCloser.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// first reads a little: nobody knows how much will come.
func (b *body) first(p []byte) (n int, err error) {
	n, err = b.ReadCloser.Read(p[:min(len(p), firstPiece)])
	if n > 0 {
		b.left = 0
	}
	return n, err
}

// firstPiece is how much of an answer of unknown length comes through: less than
// the first event of a stream has.
const firstPiece = 16

// cut breaks an answer off, as a connection that breaks does.
type cut struct {
	body
	broken bool
}

func (c *cut) Read(p []byte) (int, error) {
	switch {
	case c.broken:
		return 0, io.ErrUnexpectedEOF
	case c.spent || len(p) == 0:
		return c.ReadCloser.Read(p)
	case c.left != 0:
		return c.whole(p)
	}
	c.spent = true
	if !c.lease.strike(c.ctx) {
		return c.ReadCloser.Read(p)
	}
	c.broken = true
	_ = c.ReadCloser.Close() // the upstream is let go; what it would have said nobody hears
	return 0, io.ErrUnexpectedEOF
}

// garbled makes a piece of an answer garbage of the same length.
type garbled struct{ body }

// garbage has what no text has, and leaves quotes and braces open: neither JSON nor
// an event survives it.
const garbage = "\x00\xff\x00\xff\"{\x00\xff\x00\xff\x00\xff\x00\xff\x00\xff"

func (g *garbled) Read(p []byte) (int, error) {
	switch {
	case g.spent || len(p) == 0:
		return g.ReadCloser.Read(p)
	case g.left != 0:
		return g.whole(p)
	}
	n, err := g.ReadCloser.Read(p[:min(len(p), len(garbage))])
	if n == 0 {
		return n, err
	}
	g.spent = true
	if g.lease.strike(g.ctx) {
		copy(p[:n], garbage)
	}
	return n, err
}

// drip lets an answer through in small pieces.
type drip struct {
	body
	n        uint64
	dripping bool
}

// piece is how many bytes come at a time.
const piece = 16

func (d *drip) Read(p []byte) (int, error) {
	switch {
	case d.spent || len(p) == 0:
		return d.ReadCloser.Read(p)
	case d.left != 0:
		return d.whole(p)
	}
	if !d.dripping && !d.lease.strike(d.ctx) || d.dripping && !d.lease.Stands() {
		d.spent = true
		return d.ReadCloser.Read(p)
	}
	d.dripping = true
	if err := d.lease.hold(d.ctx, d.pause()); err != nil {
		return 0, err
	}
	return d.ReadCloser.Read(p[:min(len(p), piece)])
}

func (d *drip) pause() time.Duration {
	d.n++
	return d.lease.delay(d.n)
}
