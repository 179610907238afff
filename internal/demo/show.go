package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"
)

// liveEvery is the time on the wall clock between two frames.
const liveEvery = 250 * time.Millisecond

// plainWidth is the width of text where there is no terminal to ask.
const plainWidth = 100

// Screen is where a demo is shown.
type Screen struct {
	Out  io.Writer // the summary
	Live io.Writer // what happens meanwhile; may be the same as Out
	// Size of Live in columns and rows. Nil when it is no terminal, or should be
	// treated like none.
	Size   func() (width, height int)
	Colour bool
	// Program is how this program was called, for the commands that are shown;
	// "" is headgate.
	Program string

	JSON bool      // Out gets the summary as JSON and nothing else
	Keep bool      // leave both sides running afterwards, until the context ends
	SVG  io.Writer // gets a picture of the run; may be nil
}

// view shows states as they come.
type view interface {
	render(State) error
	close() error
}

// Show plays a demo from beginning to end and takes it down again. The end of
// ctx is no error: what has been seen so far is summed up.
func Show(ctx context.Context, o Options, s Screen) (err error) {
	d, err := New(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := intro(s.Live, d, s.width()); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	v, every := s.view(d.Plan())
	sum, err := d.Play(ctx, every, v.render)
	err = errors.Join(err, v.close())
	if err == nil {
		err = s.report(sum)
	}
	if err != nil || !s.Keep || ctx.Err() != nil {
		return err
	}
	if err := s.printKeepHelp(d); err != nil {
		return err
	}
	return d.Hold(ctx)
}

func (s Screen) view(p Plan) (view, time.Duration) {
	if s.Size == nil {
		return &lineView{out: s.Live}, p.Wall(lineEvery)
	}
	return &liveView{out: s.Live, colour: s.Colour, size: s.Size, plan: p}, liveEvery
}

func (s Screen) width() int {
	if s.Size == nil {
		return plainWidth
	}
	width, _ := s.Size()
	return min(max(width-1, 20), plainWidth)
}

func (s Screen) report(sum *Summary) error {
	var err error
	if s.SVG != nil {
		err = sum.WriteSVG(s.SVG)
	}
	if s.JSON {
		return errors.Join(err, sum.WriteJSON(s.Out))
	}
	if _, werr := io.WriteString(s.Out, "\n"); werr != nil {
		return errors.Join(err, werr)
	}
	return errors.Join(err, sum.Write(s.Out, s.width(), s.Colour), outro(s.Out, sum, s.Program, s.width()))
}

// printKeepHelp says what one can do while both sides go on.
func (s Screen) printKeepHelp(d *Demo) error {
	gated, ungated := d.Addresses()
	_, err := fmt.Fprintf(s.Live, `
Both are still running; Ctrl-C ends and removes them. Times in /metrics are real seconds.
  curl -s %s | grep ^headgate_
  curl -s %s | grep ^headgate_
  curl -s %s/chat/completions -H 'content-type: application/json' \
    -d '{"model":"demo","messages":[{"role":"user","content":"hello"}]}'
%s`, gated.Metrics, ungated.Metrics, gated.Data, d.alertCommands())
	return err
}

// alertCommands say how to follow incidents, if there can be any: as pages, by a link that
// signs in once, and by commands.
func (d *Demo) alertCommands() string {
	if d.monitor == nil {
		return ""
	}
	return fmt.Sprintf("The channel is at %s\nThe pages are at %s (it works once)\n  headgate incident list --admin http://%s --data-dir %s\n",
		d.monitor.channel.pageURL(), d.loginLink(), d.gated.app.AdminAddr(), filepath.Join(d.dir, d.gated.mode))
}

// loginLink signs somebody in to the pages of the side with the gate, once within a
// few minutes.
func (d *Demo) loginLink() string {
	gate := d.gated.app
	return "http://" + gate.AdminAddr() + gate.LoginPath("demo")
}
