package demo

import (
	"fmt"
	"strings"
	"time"
)

// barRunes are the eighths of a character cell.
var barRunes = []rune(" ▁▂▃▄▅▆▇█")

// bars draws values as columns over so many rows, top row first. Anything above
// 0 is seen.
func bars(values []int, top, rows int) []string {
	out := make([]string, rows)
	for row := range rows {
		var b strings.Builder
		for _, v := range values {
			eighths := 0
			if v > 0 && top > 0 {
				eighths = max(v*rows*8/top, 1)
			}
			b.WriteRune(barRunes[min(max(eighths-(rows-1-row)*8, 0), 8)])
		}
		out[row] = b.String()
	}
	return out
}

// progressBar is a bar of a width that is full to a share.
func progressBar(share float64, width int) string {
	full := min(max(int(share*float64(width)+0.5), 0), width)
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// queueCharts draws both queues on one scale, above a line that says when the burst
// was.
func queueCharts(s State, p Plan, width, rows int) []line {
	const label = 11 // "without 123"
	width = max(width-label-1, 1)
	span := max(p.Duration, s.At)
	sides := []struct {
		name  string
		steps []Step
		style style
	}{{"with", s.Gated.Depth, good}, {"without", s.Ungated.Depth, warn}}
	top := max(maxDepth(s.Gated.Depth), maxDepth(s.Ungated.Depth))
	var out []line
	for _, side := range sides {
		// What has not been yet stays empty.
		past := max(int(float64(width)*s.At.Seconds()/span.Seconds()), 1)
		drawn := bars(bucketMax(side.steps, past, s.At), top, rows)
		for row, text := range drawn {
			head := ""
			if row == rows-1 {
				head = fmt.Sprintf("%-7s %3d", side.name, maxDepth(side.steps))
			}
			out = append(out, line{{fmt.Sprintf("%-*s ", label, head), normal}, {text, side.style}})
		}
	}
	return append(out, axis(p, span, width, label))
}

// axis marks the burst and the end of the load below the charts.
func axis(p Plan, span time.Duration, width, label int) line {
	marks := []rune(strings.Repeat("·", width))
	column := func(at time.Duration) int {
		return min(int(float64(width)*at.Seconds()/span.Seconds()), width)
	}
	if p.Burst != nil {
		for c := column(p.Burst.From); c < column(p.Burst.To); c++ {
			marks[c] = '━'
		}
	}
	for c := column(p.Duration); c < width; c++ {
		marks[c] = ' '
	}
	return line{{fmt.Sprintf("%-*s ", label, "arrivals"), faint}, {string(marks), faint}}
}
