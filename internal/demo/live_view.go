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

// liveView redraws a frame in place, without the alternate screen, so that the last
// one stays to be read.
type liveView struct {
	out    io.Writer
	colour bool
	size   func() (width, height int)
	plan   Plan

	widths []int // of the lines that are on the screen
	hidden bool
}

// render draws a state over the one before.
func (v *liveView) render(s State) error {
	width, height := v.size()
	var b bytes.Buffer
	if !v.hidden {
		b.WriteString(hideCursor)
		v.hidden = true
	}
	v.cursorUp(&b, width)
	v.widths = v.widths[:0]
	for _, l := range frame(s, v.plan, width, height) {
		b.WriteString(l.render(v.colour) + clearLine + "\r\n")
		v.widths = append(v.widths, l.width())
	}
	b.WriteString(clearBelow)
	_, err := v.out.Write(b.Bytes())
	return err
}

// cursorUp moves to the beginning of the frame before. A terminal that has become
// narrower since has broken its lines into several.
func (v *liveView) cursorUp(b *bytes.Buffer, width int) {
	rows := 0
	for _, w := range v.widths {
		rows += max((w+width-1)/max(width, 1), 1)
	}
	b.WriteByte('\r')
	for range rows {
		b.WriteString("\x1b[A")
	}
}

// close gives the cursor back.
func (v *liveView) close() error {
	if !v.hidden {
		return nil
	}
	v.hidden = false
	_, err := io.WriteString(v.out, showCursor)
	return err
}
