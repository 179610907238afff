package demo

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"
)

// view shows states as they come.
type view interface {
	render(State) error
	close() error
}

// style is a text style, as the parameters of the terminal's SGR sequence.
type style string

const (
	normal style = ""
	strong style = "1"
	faint  style = "2"
	good   style = "32"
	warn   style = "33"
	bad    style = "1;31"
)

// segment is text in one style.
type segment struct {
	text  string
	style style
}

// line is one row of the screen. All of its characters are one column wide.
type line []segment

func (l line) width() int {
	n := 0
	for _, s := range l {
		n += utf8.RuneCountInString(s.text)
	}
	return n
}

// truncate shortens the line to a width.
func (l line) truncate(width int) line {
	var out line
	for _, s := range l {
		text := []rune(s.text)
		if len(text) > width {
			text = text[:max(width, 0)]
		}
		width -= len(text)
		if len(text) > 0 {
			out = append(out, segment{string(text), s.style})
		}
	}
	return out
}

func (l line) render(colour bool) string {
	out := ""
	for _, s := range l {
		if colour && s.style != normal {
			out += "\x1b[" + string(s.style) + "m" + s.text + "\x1b[0m"
			continue
		}
		out += s.text
	}
	return out
}

const (
	hideCursor = "\x1b[?25l"
	showCursor = "\x1b[?25h"
	clearLine  = "\x1b[K"
	clearBelow = "\x1b[J"
)

// liveView redraws a frame in place, without the alternate screen, so that the last
// frame stays visible.
type liveView struct {
	out    io.Writer
	colour bool
	size   func() (width, height int)
	plan   Plan

	widths []int // of the lines on the screen
	hidden bool  // the cursor
}

// render draws a state over the one before.
func (v *liveView) render(s State) error {
	width, height := v.size()
	var b bytes.Buffer
	if !v.hidden {
		b.WriteString(hideCursor)
		v.hidden = true
	}
	// A terminal that became narrower has broken the lines before into several.
	rows := 0
	for _, w := range v.widths {
		rows += max((w+width-1)/max(width, 1), 1)
	}
	b.WriteString("\r" + strings.Repeat("\x1b[A", rows))
	v.widths = v.widths[:0]
	for _, l := range frame(s, v.plan, width, height) {
		b.WriteString(l.render(v.colour) + clearLine + "\r\n")
		v.widths = append(v.widths, l.width())
	}
	b.WriteString(clearBelow)
	_, err := v.out.Write(b.Bytes())
	return err
}

// close shows the cursor again.
func (v *liveView) close() error {
	if !v.hidden {
		return nil
	}
	v.hidden = false
	_, err := io.WriteString(v.out, showCursor)
	return err
}

// lineEvery is the scenario time between two rounds of plain lines.
const lineEvery = 15 * time.Second

// lineView prints a line per side at intervals, for pipes and logs.
type lineView struct{ out io.Writer }

// render prints a state, unless it is the very first one.
func (v *lineView) render(s State) error {
	if s.At < lineEvery/2 {
		return nil
	}
	phase := string(s.Phase)
	if s.Outcome != "" {
		phase = "done"
	}
	head := fmt.Sprintf("t_s=%-4.0f phase=%-8s ", s.At.Seconds(), phase)
	text := head + "gate=on  " + s.Gated.fields() + "\n" + head + "gate=off " + s.Ungated.fields() + "\n"
	if a := s.Alerts; a != nil {
		text += head + fmt.Sprintf("slack    mode=%-11s by=%q page=%-2d warn=%-2d opened=%-3d messages=%-3d replies=%-3d edits=%-3d pings=%-3d last=%q\n",
			a.Mode, a.By, a.Pages, a.Warns, a.Opened, a.Messages, a.Replies, a.Edits, a.Pings, a.LastMessage)
	}
	_, err := io.WriteString(v.out, text)
	return err
}

// fields are the reading as key=value pairs, padded into columns.
func (r Reading) fields() string {
	p95 := "-"
	if r.Ended > 0 {
		p95 = fmt.Sprintf("%.1f", r.P95.Seconds())
	}
	var b strings.Builder
	fmt.Fprintf(&b, "arrivals=%-4d admitted=%-4d in_flight=%-3d queued=%-4d oldest_s=%-6.1f p95_s=%-6s over_slo=%-4d in_time=%-4d refused=%-4d ",
		r.Arrivals, r.Admitted, r.InFlight, r.Queued, r.Oldest.Seconds(), p95, r.OverSLO, r.InTime, r.TotalRefused())
	for _, reason := range refusalReasons(r.Refused, nil, "queue_age", "queue_depth") {
		fmt.Fprintf(&b, "%s=%-4d ", reason, r.Refused[reason])
	}
	return strings.TrimRight(b.String(), " ")
}

func (v *lineView) close() error { return nil }
