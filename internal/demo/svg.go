package demo

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"time"

	"headgate/internal/format"
	"headgate/internal/loadgen"
)

// Measures of the picture, in its own units.
const (
	svgWidth  = 880.0
	svgLeft   = 56.0  // of the plots
	svgRight  = 808.0 // of the plots; the name of the SLO stands beyond
	svgTop    = 56.0  // of the first plot
	svgHeight = 150.0 // of each plot
	svgGap    = 62.0  // between them
	svgPoints = 240   // of a curve
)

// svgStyle keeps the picture readable on light and dark pages.
const svgStyle = `
  svg { font: 13px system-ui, sans-serif; --ink: #1f2328; --faint: #59636e; --rule: #d1d9e0; --with: #0969da; --without: #bc4c00; --burst: #bc4c0018; }
  @media (prefers-color-scheme: dark) {
    svg { --ink: #e6edf3; --faint: #9198a1; --rule: #3d444d; --with: #58a6ff; --without: #f0883e; --burst: #f0883e22; }
  }
  text { fill: var(--ink); } .faint { fill: var(--faint); font-size: 12px; } .title { font-weight: 600; }
  .rule { stroke: var(--rule); } .burst { fill: var(--burst); } .slo { stroke: var(--ink); stroke-dasharray: 5 4; }
  .curve { fill: none; stroke-width: 2; stroke-linejoin: round; } .with { stroke: var(--with); } .without { stroke: var(--without); }
  tspan.with { fill: var(--with); stroke: none; } tspan.without { fill: var(--without); stroke: none; }
`

// WriteSVG draws both sides over time: queue lengths, and the p95 turnaround with the SLO.
func (s *Summary) WriteSVG(w io.Writer) error {
	span := max(s.Duration, s.Elapsed, 1)
	waiting := plot{top: svgTop, span: span, title: "queued tasks"}
	turnaround := plot{top: svgTop + svgHeight + svgGap, span: span, title: "p95 turnaround of admitted tasks over the last 60 s, in seconds"}
	for i := range s.tasks {
		waiting.curves[i] = depthCurve(s.depths[i], span)
		turnaround.curves[i] = p95Curve(s.tasks[i], s.plan.SLO, span)
	}
	waiting.scaleY(0)
	turnaround.scaleY(s.SLO)

	height := turnaround.top + svgHeight + 44
	var b bytes.Buffer
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %.0f %.0f" role="img" aria-label="%s">`+"\n", svgWidth, height, s.svgTitle())
	fmt.Fprintf(&b, "<style>%s</style>\n", svgStyle)
	fmt.Fprintf(&b, `<text class="title" x="%.0f" y="22">%s</text>`+"\n", svgLeft, s.svgTitle())
	for _, p := range []plot{waiting, turnaround} {
		s.svgBurst(&b, p)
		p.draw(&b)
	}
	y := turnaround.y(s.SLO)
	fmt.Fprintf(&b, `<line class="slo" x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1[3]f"/><text x="%.0f" y="%.1f">SLO %.0f s</text>`+"\n",
		svgLeft, svgRight, y, svgRight+8, y+4, s.SLO)
	fmt.Fprintf(&b, `<text class="faint" x="%.0f" y="%.1f">seconds of scenario time; the wall clock was %gx faster</text>`+"\n</svg>\n", svgLeft, height-6, s.Speed)
	_, err := w.Write(b.Bytes())
	return err
}

func (s *Summary) svgTitle() string {
	return fmt.Sprintf("headgate demo: %d arrivals, %s, load %.2f and in the burst %.2f of capacity",
		s.Gated.Arrivals, format.Plural(s.Workers, "worker"), s.BaseLoad, s.BurstLoad)
}

func (s *Summary) svgBurst(b *bytes.Buffer, p plot) {
	if s.plan.Burst == nil {
		return
	}
	from, to := p.x(s.plan.Burst.From.Seconds()), p.x(min(s.plan.Burst.To.Seconds(), p.span))
	fmt.Fprintf(b, `<rect class="burst" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, from, p.top, max(to-from, 0), svgHeight)
	fmt.Fprintf(b, `<text class="faint" x="%.1f" y="%.1f">burst</text>`+"\n", from+4, p.top+14)
}

// plot is one diagram of the picture.
type plot struct {
	top    float64
	span   float64 // seconds on the x axis
	maxY   float64 // on the y axis
	title  string
	curves [2][]point // with, without
}

type point struct{ x, y float64 } // seconds, value

func (p *plot) scaleY(least float64) {
	p.maxY = max(least, 1)
	for _, c := range p.curves {
		for _, pt := range c {
			p.maxY = max(p.maxY, pt.y)
		}
	}
	p.maxY *= 1.05
}

func (p plot) x(seconds float64) float64 { return svgLeft + (svgRight-svgLeft)*seconds/p.span }
func (p plot) y(value float64) float64   { return p.top + svgHeight*(1-value/p.maxY) }

func (p plot) draw(b *bytes.Buffer) {
	fmt.Fprintf(b, `<text class="faint" x="%.0f" y="%.1f">%s</text>`+"\n", svgLeft, p.top-8, p.title)
	for _, value := range ticks(p.maxY, 4) {
		fmt.Fprintf(b, `<line class="rule" x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1[3]f"/>`, svgLeft, svgRight, p.y(value))
		fmt.Fprintf(b, `<text class="faint" x="%.0f" y="%.1f" text-anchor="end">%.0f</text>`+"\n", svgLeft-8, p.y(value)+4, value)
	}
	for _, at := range ticks(p.span, 8) {
		fmt.Fprintf(b, `<text class="faint" x="%.1f" y="%.1f" text-anchor="middle">%.0f</text>`+"\n", p.x(at), p.top+svgHeight+16, at)
	}
	for i, c := range p.curves {
		class := [2]string{"with", "without"}[i]
		var path strings.Builder
		for _, pt := range c {
			fmt.Fprintf(&path, "%.1f,%.1f ", p.x(pt.x), p.y(pt.y))
		}
		fmt.Fprintf(b, `<polyline class="curve %s" points="%s"/>`+"\n", class, strings.TrimSpace(path.String()))
	}
	fmt.Fprintf(b, `<text x="%.0f" y="%.1f" text-anchor="end"><tspan class="with">with the gate</tspan>&#160;&#160; <tspan class="without">without</tspan></text>`+"\n",
		svgRight, p.top-8)
}

// ticks are round numbers from 0 to most, about n of them.
func ticks(most float64, n int) []float64 {
	step := 1.0
	for i := 0; most/step > float64(n); i++ {
		step *= [3]float64{2, 2.5, 2}[i%3]
	}
	var out []float64
	for v := 0.0; v <= most; v += step {
		out = append(out, v)
	}
	return out
}

func depthCurve(steps []Step, span float64) []point {
	var out []point
	for i, depth := range bucketMax(steps, svgPoints, scenarioSeconds(span)) {
		out = append(out, point{span * (float64(i) + 0.5) / svgPoints, float64(depth)})
	}
	return out
}

// p95Curve leaves out the times without an ended task in the window.
func p95Curve(tasks []task, slo time.Duration, span float64) []point {
	var out []point
	for i := range svgPoints + 1 {
		at := span * float64(i) / svgPoints
		if ended := recentTurnarounds(tasks, slo, scenarioSeconds(at)); len(ended) > 0 {
			out = append(out, point{at, loadgen.Quantile(ended, 0.95).Seconds()})
		}
	}
	return out
}

func scenarioSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
