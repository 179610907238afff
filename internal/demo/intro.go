package demo

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"strings"
	"time"
)

// intro says what is going to be seen, where, and what of it is to scale.
func intro(w io.Writer, d *Demo, width int) error {
	p := d.Plan()
	gated, ungated := d.Addresses()
	var b strings.Builder
	b.WriteString(wrap(fmt.Sprintf("headgate demo: the same %d arrivals go to two copies of headgate, one with the gate and one without, each in front of a stand-in endpoint with %s.",
		p.Arrivals, countText(p.Workers, "worker", "workers")), width, "", ""))
	fmt.Fprintf(&b, "\n  with the gate  %s  %s\n  without        %s  %s\n\n", gated.Data, gated.Metrics, ungated.Data, ungated.Metrics)
	if gated.Slack != "" {
		fmt.Fprintf(&b, "  Slack          %s  open it in a browser\n  pages          %s  signs you in, once\n\n", gated.Slack, d.loginLink())
	}
	items := [][2]string{
		{"load", p.loadText()},
		{"service", p.Service + "; the same arrival takes equally long on both sides"},
		{"promise", fmt.Sprintf("p95 turnaround within %s; the gate refuses when the oldest queued task is older than %s, or when all workers are busy and more than %d tasks wait",
			formatSeconds(p.SLO), formatSeconds(p.MaxQueueAge), p.Depth)},
		{"speed", p.speedText()},
	}
	if p.Slack {
		items = append(items, [2]string{"Slack", p.slackText()}, [2]string{"press", pressText})
	}
	for _, item := range items {
		const indent = 11
		b.WriteString(wrap(item[1], width, fmt.Sprintf("  %-*s", indent-2, item[0]), strings.Repeat(" ", indent)))
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

func (p Plan) speedText() string {
	if p.Speed == 1 {
		return "real time"
	}
	return fmt.Sprintf("%gx: arrivals, service times, SLO (%s -> %s) and queue age (%s -> %s) are divided by it and shown as they would be at speed 1; "+
		"not to scale are Retry-After (real seconds), /metrics and this machine's own work",
		p.Speed, formatSeconds(p.SLO), formatSeconds(p.Wall(p.SLO)), formatSeconds(p.MaxQueueAge), formatSeconds(p.Wall(p.MaxQueueAge)))
}

// slackText says what is told, and what of it is not to scale.
func (p Plan) slackText() string {
	text := "the built-in rules watch the side with the gate, and each incident has one message that is edited and has its steps in a thread"
	if p.Speed != 1 {
		text += fmt.Sprintf("; their windows and waits are divided by %g too, and times in messages are real seconds, %[1]g times shorter than here; "+
			"left out are rules over hours (slo_burn) and over a real minute (envelope_use)", p.Speed)
	}
	return text + "; after the load a few short calls go on until all incidents are over, and are not counted"
}

// pressText says what can be done on the page.
const pressText = "on the Slack page, under a message: Acknowledge, Silence 1 h, Roll back, and Restore once the gate is out; or type /headgate status. " +
	"You are ada or ben there, who may, or eve, who may not. What becomes of the gate is shown below; a slower --speed leaves more time"

func (p Plan) loadText() string {
	text := fmt.Sprintf("%g tasks/s for %s, %.2f of what the workers can do", p.BaseRate, formatSeconds(p.Duration), p.Load(1))
	if p.Burst == nil {
		return text
	}
	return text + fmt.Sprintf("; %g times that from %s to %s, %.2f", p.Burst.Multiple, formatSeconds(p.Burst.From), formatSeconds(p.Burst.To), p.Load(p.Burst.Multiple))
}

// formatSeconds is a duration in seconds, as flags have it, with at most three decimals.
func formatSeconds(d time.Duration) string {
	return fmt.Sprintf("%gs", math.Round(d.Seconds()*1000)/1000)
}

// outro says what to try next, with commands that begin as this one did.
func outro(w io.Writer, s *Summary, program string, width int) error {
	var b strings.Builder
	if s.Gated.RetryMax > 0 {
		when := fmt.Sprintf("%.0f s", s.Gated.RetryMax)
		if s.Gated.RetryMin < s.Gated.RetryMax {
			when = fmt.Sprintf("%.0f to %.0f s", s.Gated.RetryMin, s.Gated.RetryMax)
		}
		b.WriteString(wrap("Refused callers were told to come back in "+when+" (Retry-After, in real seconds). In this load nobody does.", width, "", ""))
	}
	again := [2]string{"the overload of the article", "headgate demo --workers 4"}
	if s.Workers <= 4 {
		again = [2]string{"an overload that only the burst makes", "headgate demo --workers 16"}
	}
	b.WriteString("\n")
	follow := [2]string{"follow the burst from the first warning to its end in a stand-in for Slack", "headgate demo --slack"}
	if s.Slack != nil {
		follow = [2]string{"look at the messages in peace", "headgate demo --slack --keep"}
	}
	for _, next := range [][2]string{
		again, follow,
		{"leave both running, to look at /metrics", "headgate demo --keep"},
		{"put the gate before an endpoint of your own (README.md)", "MC_ENDPOINT=http://127.0.0.1:8080/v1 headgate serve"},
	} {
		fmt.Fprintf(&b, "# %s\n%s\n", next[0], strings.Replace(next[1], "headgate", cmp.Or(program, "headgate"), 1))
	}
	_, err := io.WriteString(w, b.String())
	return err
}
