package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"headgate/web/api"
)

func newDrillShow(h environment) *cobra.Command {
	c := drillCmd{serviceCmd{host: h}}
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show a run: verdict, hypotheses, what it did",
		Long: `Show one run of a drill: its verdict and why, each hypothesis with value, limit,
margin and evidence, its phases, what people were told, and what was undone. The
beginning of an ID is enough if no other begins like it. When the service does not
answer, it is read from its database.`,
		Example: `  headgate drill show 01a22990
  headgate drill show 01a22990-4f00-7a3e-8d51-6c2b9a4e11aa --json | jq .series`,
		Args: usageArgs(cobra.ExactArgs(1)),
	}
	c.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.withRuns(cmd, func(ctx context.Context, client runReader) error {
			id, err := resolveRunID(ctx, client, args[0])
			if err != nil {
				return err
			}
			series := api.LastPoint
			if c.json {
				series = api.FullSeries
			}
			report, err := client.Run(ctx, id, series)
			if err != nil {
				return err
			}
			if c.json {
				return printJSON(cmd.OutOrStdout(), report)
			}
			text := runText{DrillReport: &report, paint: colorizerFor(h, cmd.OutOrStdout())}
			_, err = cmd.OutOrStdout().Write(text.text())
			return err
		})
	}
	return cmd
}

// runText shows a run to people.
type runText struct {
	*api.DrillReport
	paint colorizer
}

func (t *runText) text() []byte {
	var b bytes.Buffer
	head := fmt.Sprintf("%s  %s", sanitize(t.Name), strings.ToUpper(verdictOf(&t.DrillRun)))
	if t.Reason != "" {
		head += "  " + sanitize(t.Reason)
	}
	fmt.Fprintln(&b, highlightVerdict(t.paint, verdictOf(&t.DrillRun), head))
	if t.Live {
		fmt.Fprintln(&b, progress(t.DrillReport))
	}
	fmt.Fprintln(&b)
	t.facts(&b)
	t.hypotheses(&b)
	t.phases(&b)
	t.messages(&b)
	t.rollbacks(&b)
	return b.Bytes()
}

func (t *runText) facts(w io.Writer) {
	rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer rows.Flush()
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(rows, "%s\t%s\n", name, value)
		}
	}
	row("drill", fmt.Sprintf("%s, spec %s, on %s", sanitize(t.Drill), sanitize(t.SpecVersion), sanitize(t.Target)))
	by := sanitize(t.Trigger)
	if t.Actor != t.Trigger {
		by += ", " + sanitize(t.Actor)
	}
	row("begun", fmt.Sprintf("%s (%s)", formatTimeOr(t.StartedAt, "never"), by))
	if t.ScheduledAt != nil {
		row("due", formatTime(*t.ScheduledAt))
	}
	if t.DurationS != nil {
		row("took", fmt.Sprintf("%s at speed %g", formatSeconds(*t.DurationS), t.Speed))
	}
	if t.Missed > 0 {
		row("missed", fmt.Sprintf("%d due times", t.Missed))
	}
	if t.ClearTookS != nil && t.Injected > 0 {
		row("faults", fmt.Sprintf("befell %d calls, cleared in %s", t.Injected, formatSeconds(*t.ClearTookS)))
	}
	if t.RecoveredS != nil {
		row("recovered", "within "+formatSeconds(*t.RecoveredS))
	}
	row("headgate", sanitize(t.Version))
	row("id", sanitize(t.ID))
}

func formatTimeOr(at *string, none string) string {
	if at == nil {
		return none
	}
	return formatTime(*at)
}

func (t *runText) hypotheses(w io.Writer) {
	if len(t.Hypotheses) == 0 {
		return
	}
	fmt.Fprintln(w)
	rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer rows.Flush()
	fmt.Fprintln(rows, "\tHYPOTHESIS\tVALUE\tLIMIT\tMARGIN\tEVIDENCE")
	for i := range t.Hypotheses {
		h := &t.Hypotheses[i]
		held, note := "held", h.Evidence
		switch {
		case h.Value == nil:
			held, note = "unknown", cmp.Or(h.Why, h.Evidence)
		case !h.Passed:
			held, note = "BROKEN", strings.TrimPrefix(h.Why+"; "+h.Evidence, "; ")
		}
		fmt.Fprintf(rows, "%s\t%s\t%s\t%s %s\t%s\t%s\n", held, sanitize(h.Name), formatMeasure(h.Value, h.Unit), sanitize(h.Compare), formatMeasure(&h.Limit, h.Unit),
			formatPercent(h.Margin), orDash(note))
	}
}

func (t *runText) phases(w io.Writer) {
	if len(t.Phases) == 0 {
		return
	}
	fmt.Fprintln(w)
	rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer rows.Flush()
	fmt.Fprintln(rows, "PHASE\tBEGAN\tTOOK\tNOTE")
	for i := range t.Phases {
		p := &t.Phases[i]
		took := "goes on"
		if p.EndedAt != nil {
			took = elapsed(p.BeganAt, *p.EndedAt)
		}
		fmt.Fprintf(rows, "%s\t%s\t%s\t%s\n", sanitize(p.Name), formatTime(p.BeganAt), took, orDash(p.Note))
	}
}

func (t *runText) messages(w io.Writer) {
	for i := range t.Messages {
		m := &t.Messages[i]
		if i == 0 {
			fmt.Fprintln(w, "\nMESSAGES")
		}
		fmt.Fprintf(w, "%s  %s %s  %s\n", formatTimeOr(m.AcceptedAt, "not accepted"), sanitize(m.Level), sanitize(m.Kind), sanitize(firstLine(m.Text)))
	}
}

// firstLine is what a phone shows of a message.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

func (t *runText) rollbacks(w io.Writer) {
	for i := range t.Rollbacks {
		u := &t.Rollbacks[i]
		if i == 0 {
			fmt.Fprintln(w, "\nUNDONE")
		}
		word := "done"
		if !u.OK {
			word = "FAILED"
		}
		fmt.Fprintf(w, "%s  %s  %s in %s", formatTime(u.At), sanitize(u.What), word, formatSeconds(u.TookS))
		if u.Note != "" {
			fmt.Fprintf(w, ": %s", sanitize(u.Note))
		}
		fmt.Fprintln(w)
	}
}
