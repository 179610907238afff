package demo

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// lineEvery is the scenario time between two rounds of plain lines.
const lineEvery = 15 * time.Second

// lineView prints one line for each side now and then, for pipes and logs.
type lineView struct {
	out io.Writer
}

// render prints a state. The first moment has nothing to say yet.
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
	if s.Alerts != nil {
		text += head + "slack    " + s.Alerts.fields() + "\n"
	}
	_, err := io.WriteString(v.out, text)
	return err
}

// fields are the reading as key=value pairs, padded so that they stand below
// each other.
func (r Reading) fields() string {
	p95 := "-"
	if r.Ended > 0 {
		p95 = fmt.Sprintf("%.1f", r.P95.Seconds())
	}
	var b strings.Builder
	for _, f := range []struct {
		key   string
		value any
		width int
	}{
		{"arrivals", r.Arrivals, 4}, {"admitted", r.Admitted, 4}, {"in_flight", r.InFlight, 3}, {"queued", r.Queued, 4},
		{"oldest_s", fmt.Sprintf("%.1f", r.Oldest.Seconds()), 6}, {"p95_s", p95, 6}, {"over_slo", r.OverSLO, 4},
		{"in_time", r.InTime, 4}, {"refused", r.TotalRefused(), 4},
	} {
		fmt.Fprintf(&b, "%s=%-*v ", f.key, f.width, f.value)
	}
	for _, reason := range refusalReasons(r.Refused, nil, "queue_age", "queue_depth") {
		fmt.Fprintf(&b, "%s=%-4d ", reason, r.Refused[reason])
	}
	return strings.TrimRight(b.String(), " ")
}

// fields are what has been told, as key=value pairs.
func (a *AlertState) fields() string {
	return fmt.Sprintf("mode=%-11s by=%q page=%-2d warn=%-2d opened=%-3d messages=%-3d replies=%-3d edits=%-3d pings=%-3d last=%q",
		a.Mode, a.By, a.Pages, a.Warns, a.Opened, a.Messages, a.Replies, a.Edits, a.Pings, a.LastMessage)
}

// close has nothing to give back.
func (v *lineView) close() error { return nil }
