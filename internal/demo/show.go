package demo

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"path/filepath"
	"strings"
	"time"

	"headgate/internal/format"
)

const (
	liveEvery  = 250 * time.Millisecond // between two frames, on the wall clock
	plainWidth = 100                    // of text, without a terminal
)

// Screen is where a demo is shown.
type Screen struct {
	Out  io.Writer // the summary
	Live io.Writer // progress; may be the same as Out
	// Size returns the columns and rows of Live. It is nil if Live is no terminal, or
	// should be treated so.
	Size   func() (width, height int)
	Colour bool
	// Program is how this program was called, for the commands that are shown; empty
	// means headgate.
	Program string

	JSON bool      // Out gets the summary as JSON and nothing else
	Keep bool      // keep both sides running afterwards, until the context ends
	SVG  io.Writer // gets a picture of the run; may be nil
}

// Show plays a demo from start to end and stops it. If ctx ends, that is no error: the
// summary covers the time until then.
func Show(ctx context.Context, o Options, s Screen) (err error) {
	d, err := New(o)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if err := intro(s.Live, d, s.width()); err != nil {
		return fmt.Errorf("write: %w", err)
	}
	var v view = &lineView{out: s.Live}
	every := d.Plan().Wall(lineEvery)
	if s.Size != nil {
		v, every = &liveView{out: s.Live, colour: s.Colour, size: s.Size, plan: d.Plan()}, liveEvery
	}
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

// printKeepHelp shows what can be done while both sides keep running.
func (s Screen) printKeepHelp(d *Demo) error {
	gated, ungated := d.Addresses()
	alerts := ""
	if d.monitor != nil {
		alerts = fmt.Sprintf("Slack channel: %s\npages (the link works once): %s\n  headgate incident list --admin %s --data-dir %s\n",
			gated.Slack, d.loginLink(), d.gated.adminURL(), filepath.Join(d.dir, d.gated.mode))
	}
	_, err := fmt.Fprintf(s.Live, `
Both are still running; Ctrl-C ends and removes them. Times in /metrics are real seconds.
  curl -s %s | grep ^headgate_
  curl -s %s | grep ^headgate_
  curl -s %s/chat/completions -H 'content-type: application/json' \
    -d '{"model":"demo","messages":[{"role":"user","content":"hello"}]}'
%s`, gated.Metrics, ungated.Metrics, gated.Data, alerts)
	return err
}

// loginLink signs in to the pages of the gated side, once within a few minutes.
func (d *Demo) loginLink() string { return d.gated.adminURL() + d.gated.app.LoginPath("demo") }

// intro shows what will be played, where, and what of it is scaled.
func intro(w io.Writer, d *Demo, width int) error {
	p := d.Plan()
	gated, ungated := d.Addresses()
	var b strings.Builder
	b.WriteString(wrap(fmt.Sprintf("headgate demo: the same %d arrivals go to two copies of headgate, one with admission control (the gate) and one without, each in front of a stand-in endpoint with %s.",
		p.Arrivals, format.Plural(p.Workers, "worker")), width, "", ""))
	fmt.Fprintf(&b, "\n  with the gate  %s  %s\n  without        %s  %s\n\n", gated.Data, gated.Metrics, ungated.Data, ungated.Metrics)
	if gated.Slack != "" {
		fmt.Fprintf(&b, "  Slack          %s  open this page in a browser\n  pages          %s  signs you in, once\n\n", gated.Slack, d.loginLink())
	}
	items := [][2]string{
		{"load", p.loadText()},
		{"service", p.Service + "; the same arrival has the same service time on both sides"},
		{"SLO", fmt.Sprintf("p95 turnaround within %s; the gate refuses while the oldest queued task is older than %s, or while all workers are busy and more than %d tasks are queued",
			formatSeconds(p.SLO), formatSeconds(p.MaxQueueAge), p.Depth)},
		{"speed", p.speedText()},
	}
	if p.Slack {
		items = append(items, [2]string{"Slack", p.slackText()}, [2]string{"buttons", buttonsText})
	}
	for _, item := range items {
		const indent = 11
		b.WriteString(wrap(item[1], width, fmt.Sprintf("  %-*s", indent-2, item[0]), strings.Repeat(" ", indent)))
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (p Plan) loadText() string {
	text := fmt.Sprintf("%g tasks/s for %s, %.2f of capacity", p.BaseRate, formatSeconds(p.Duration), p.Load(1))
	if p.Burst == nil {
		return text
	}
	return text + fmt.Sprintf("; %g times that from %s to %s, %.2f of capacity", p.Burst.Multiple, formatSeconds(p.Burst.From), formatSeconds(p.Burst.To), p.Load(p.Burst.Multiple))
}

func (p Plan) speedText() string {
	if p.Speed == 1 {
		return "real time"
	}
	return fmt.Sprintf("%gx: arrivals, service times, SLO (%s -> %s) and queue age (%s -> %s) are divided by it and shown as at speed 1; "+
		"not scaled are Retry-After (real seconds), /metrics and this machine's own work",
		p.Speed, formatSeconds(p.SLO), formatSeconds(p.Wall(p.SLO)), formatSeconds(p.MaxQueueAge), formatSeconds(p.Wall(p.MaxQueueAge)))
}

// slackText says what is watched, and what of it is not scaled.
func (p Plan) slackText() string {
	text := "the built-in rules watch the side with the gate; each incident has one message, which is edited, and its steps in a thread"
	if p.Speed != 1 {
		text += fmt.Sprintf("; windows and delays of rules are divided by %g too, and times in messages are real seconds, %[1]g times shorter than here; "+
			"rules over hours (slo_burn) and over a real minute (envelope_use) are left out", p.Speed)
	}
	return text + "; after the load a few short calls, which are not counted, continue until all incidents have ended"
}

// buttonsText says what can be done on the Slack page.
const buttonsText = "on the Slack page, under a message: Acknowledge, Silence 1 h, Roll back, and Restore during pass-through; or type /headgate status. " +
	"Act as ada or ben, who are allowed to, or as eve, who is not. The mode of the gate is shown below; a slower --speed leaves more time"

// formatSeconds writes seconds as flags have them, with at most three decimals.
func formatSeconds(d time.Duration) string {
	return fmt.Sprintf("%gs", math.Round(d.Seconds()*1000)/1000)
}

// WriteJSON writes the summary as indented JSON.
func (s *Summary) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(s)
}

// Write writes the summary for people, no wider than width except for the widest
// cell of the table.
func (s *Summary) Write(w io.Writer, width int, colour bool) error {
	var b strings.Builder
	for _, l := range s.table(width) {
		b.WriteString(l.render(colour) + "\n")
	}
	b.WriteByte('\n')
	for _, note := range s.Notes {
		b.WriteString(wrap(note, width, "", ""))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (s *Summary) table(width int) []line {
	l := layoutFor(width)
	g, u := s.Gated, s.Ungated
	out := []line{l.head(), l.counts("arrivals", "arrivals", g.Arrivals, u.Arrivals), l.counts("refused at once", "refused", g.Refused, u.Refused)}
	out = append(out, l.reasons(g.ByReason, u.ByReason)...)
	out = append(out,
		l.counts("admitted", "admitted", g.Admitted, u.Admitted),
		l.counts("answered in time", "in time", g.InTime, u.InTime),
		l.failures("answered late", "late", g.Late, u.Late))
	for _, rare := range []struct {
		label, short string
		g, u         int
	}{
		{"left the queue unserved", "unserved", g.DeadlinePassed, u.DeadlinePassed},
		{"failed", "failed", g.Failed, u.Failed},
		{"still open at the end", "open", g.Unfinished, u.Unfinished},
	} {
		if rare.g+rare.u > 0 {
			out = append(out, l.failures(rare.label, rare.short, rare.g, rare.u))
		}
	}
	turnaround := func(label, short string, of func(Quantiles) float64) line {
		return l.row("turnaround "+label, short, s.turnaround(g.Turnaround, of), s.turnaround(u.Turnaround, of))
	}
	emptyAfter := func(s Side) cell {
		if s.EmptyAfter == nil {
			return cell{text: "not seen"}
		}
		return cell{text: fmt.Sprintf("%.0f s", *s.EmptyAfter)}
	}
	perMinute := func(s Side) cell { return cell{text: fmt.Sprintf("%.1f", s.PerMinute)} }
	return append(out,
		turnaround("p50", "p50", func(q Quantiles) float64 { return q.P50 }),
		turnaround("p95", "p95", func(q Quantiles) float64 { return q.P95 }),
		turnaround("max", "max", func(q Quantiles) float64 { return q.Max }),
		l.counts("longest queue", "queue", g.MaxQueue, u.MaxQueue),
		l.row("queue empty, after the burst", "empty after", emptyAfter(g), emptyAfter(u)),
		l.row("in time per minute", "useful/min", perMinute(g), perMinute(u)),
		l.counts("peak in flight at the endpoint", "peak", g.PeakInFlight, u.PeakInFlight))
}

// turnaround is a quantile, coloured by whether it is within the SLO.
func (s *Summary) turnaround(q Quantiles, of func(Quantiles) float64) cell {
	if q.Count == 0 {
		return cell{text: "-"}
	}
	look := good
	if of(q) > s.SLO {
		look = bad
	}
	return cell{fmt.Sprintf("%.1f s", of(q)), look}
}

// outro suggests what to try next, with commands that begin as this one did.
func outro(w io.Writer, s *Summary, program string, width int) error {
	var b strings.Builder
	if s.Gated.RetryMax > 0 {
		when := fmt.Sprintf("%.0f s", s.Gated.RetryMax)
		if s.Gated.RetryMin < s.Gated.RetryMax {
			when = fmt.Sprintf("%.0f to %.0f s", s.Gated.RetryMin, s.Gated.RetryMax)
		}
		b.WriteString(wrap("Refusals had a Retry-After of "+when+", in real seconds. These clients do not retry.", width, "", ""))
	}
	again := [2]string{"the overload of the article", "headgate demo --workers 4"}
	if s.Workers <= 4 {
		again = [2]string{"an overload during the burst only", "headgate demo --workers 16"}
	}
	b.WriteString("\n")
	follow := [2]string{"follow the burst's alerts in a stand-in for Slack", "headgate demo --slack"}
	if s.Slack != nil {
		follow = [2]string{"keep the messages on screen afterwards", "headgate demo --slack --keep"}
	}
	for _, next := range [][2]string{
		again, follow,
		{"keep both running, to inspect /metrics", "headgate demo --keep"},
		{"run the proxy in front of your own endpoint (README.md)", "MC_ENDPOINT=http://127.0.0.1:8080/v1 headgate serve"},
	} {
		fmt.Fprintf(&b, "# %s\n%s\n", next[0], strings.Replace(next[1], "headgate", cmp.Or(program, "headgate"), 1))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// wrap breaks text at spaces into lines of at most width. The first line begins with
// first, the others with next.
func wrap(text string, width int, first, next string) string {
	var b strings.Builder
	b.WriteString(first)
	used, fresh := len(first), true
	for _, word := range strings.Fields(text) {
		n := len([]rune(word))
		switch {
		case !fresh && used+1+n > width:
			b.WriteString("\n" + next)
			used = len(next)
		case !fresh:
			b.WriteByte(' ')
			used++
		}
		b.WriteString(word)
		used += n
		fresh = false
	}
	return b.String() + "\n"
}
