package demo

import (
	"bytes"
	"fmt"
	"io"
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

// WriteSVG draws both sides over time: how many wait, and the p95 turnaround
// against the SLO.
func (s *Summary) WriteSVG(w io.Writer) error {
	span := max(s.Duration, s.Elapsed, 1)
	waiting := plot{top: svgTop, span: span, title: "tasks that wait"}
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
	fmt.Fprintf(&b, `<text class="faint" x="%.0f" y="%.1f">seconds; real time was %gx shorter</text>`+"\n</svg>\n", svgLeft, height-6, s.Speed)
	_, err := w.Write(b.Bytes())
	return err
}

func (s *Summary) svgTitle() string {
	return fmt.Sprintf("headgate demo: %d arrivals, %s, load %.2f and in the burst %.2f of capacity",
		s.Gated.Arrivals, countText(s.Workers, "worker", "workers"), s.BaseLoad, s.BurstLoad)
}

func (s *Summary) svgBurst(b *bytes.Buffer, p plot) {
	if s.plan.Burst == nil {
		return
	}
	from, to := p.x(s.plan.Burst.From.Seconds()), p.x(min(s.plan.Burst.To.Seconds(), p.span))
	fmt.Fprintf(b, `<rect class="burst" x="%.1f" y="%.1f" width="%.1f" height="%.1f"/>`, from, p.top, max(to-from, 0), svgHeight)
	fmt.Fprintf(b, `<text class="faint" x="%.1f" y="%.1f">burst</text>`+"\n", from+4, p.top+14)
}
