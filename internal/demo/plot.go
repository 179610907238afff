package demo

import (
	"bytes"
	"fmt"
	"strings"
	"time"
)

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

// p95Curve leaves out the times at which nothing had ended for a while.
func p95Curve(tasks []task, slo time.Duration, span float64) []point {
	var out []point
	for i := range svgPoints + 1 {
		at := span * float64(i) / svgPoints
		if ended := recentTurnarounds(tasks, slo, scenarioSeconds(at)); len(ended) > 0 {
			out = append(out, point{at, quantile(ended, 0.95).Seconds()})
		}
	}
	return out
}

func scenarioSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
