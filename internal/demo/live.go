package demo

import (
	"bytes"
	"io"
)

const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// live redraws a frame in place, without the alternate screen, so that the last
// one stays to be read.
type live struct {
	out    io.Writer
	colour bool
	size   func() (width, height int)
	plan   Plan

	widths []int // of the lines that are on the screen
	hidden bool
}

// show draws a state over the one before.
func (v *live) show(s State) error {
	width, height := v.size()
	var b bytes.Buffer
	if !v.hidden {
		b.WriteString(hideCursor)
		v.hidden = true
	}
	v.up(&b, width)
	v.widths = v.widths[:0]
	for _, l := range frame(s, v.plan, width, height) {
		b.WriteString(l.render(v.colour) + clearLine + "\r\n")
		v.widths = append(v.widths, l.width())
	}
	b.WriteString(clearBelow)
	_, err := v.out.Write(b.Bytes())
	return err
}

// up moves to the beginning of the frame before. A terminal that has become
// narrower since has broken its lines into several.
func (v *live) up(b *bytes.Buffer, width int) {
	rows := 0
	for _, w := range v.widths {
		rows += max((w+width-1)/max(width, 1), 1)
	}
	b.WriteByte('\r')
	for range rows {
		b.WriteString("\x1b[A")
	}
}

// done gives the cursor back.
func (v *live) done() error {
	if !v.hidden {
		return nil
	}
	v.hidden = false
	_, err := io.WriteString(v.out, showCursor)
	return err
}
