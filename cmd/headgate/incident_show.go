package main

import (
	"bytes"
	"context"
	"fmt"
	"headgate/runbooks"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"headgate/web/api"
)

func newIncidentShow(h environment) *cobra.Command {
	c := serviceCmd{host: h}
	cmd := &cobra.Command{
		Use:   "show ID",
		Short: "Show an incident: what, since when, what was sent",
		Long: `Show one incident: what is wrong and what users feel, its value against the
threshold, its timeline, and what became of every message about it. The beginning
of an ID is enough if no other begins like it.`,
		Example: `  headgate incident show 01a22990
  headgate incident show 01a22990-4f00-7a3e-8d51-6c2b9a4e11aa --json | jq .events`,
		Args: usageArgs(cobra.ExactArgs(1)),
	}
	c.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return c.withClient(cmd, func(ctx context.Context, client *api.Client) error {
			id, err := resolveIncidentID(ctx, client, args[0], false)
			if err != nil {
				return err
			}
			report, err := client.Incident(ctx, id)
			if err != nil {
				return err
			}
			if c.json {
				return printJSON(cmd.OutOrStdout(), report)
			}
			s := incidentText{IncidentReport: &report, now: c.host.now(), paint: colorizerFor(c.host, cmd.OutOrStdout()), where: c.where.shellArgs()}
			_, err = cmd.OutOrStdout().Write(s.text())
			return err
		})
	}
	return cmd
}

// incidentText shows an incident to people.
type incidentText struct {
	*api.IncidentReport
	now   time.Time
	paint colorizer
	where string // flags for the commands that are shown
}

func (s *incidentText) text() []byte {
	var b bytes.Buffer
	head := fmt.Sprintf("%s  %s  %s", levelOf(&s.Incident), ruleInPool(s.Rule, s.Pool), incidentState(&s.Incident))
	fmt.Fprintln(&b, highlightIncident(s.paint, &s.Incident, head))
	fmt.Fprintln(&b)
	s.facts(&b)
	if !s.Recorded {
		fmt.Fprintln(&b, "\ntimeline and messages are not known: the record cannot be read, or is not written yet")
	}
	if s.Truncated {
		fmt.Fprintf(&b, "\nonly the newest %d are shown\n", api.MaxTimeline)
	}
	s.timeline(&b)
	s.messages(&b)
	if s.EndedAt == nil && s.AckedBy == nil {
		fmt.Fprintf(&b, "\ntake it on: headgate incident ack %s%s\n", sanitize(s.ID), s.where)
	}
	s.runbook(&b)
	return b.Bytes()
}

// runbook says what to do, as long as there is something to do.
func (s *incidentText) runbook(w io.Writer) {
	if page, ok := runbooks.Page(s.Runbook); ok && s.EndedAt == nil {
		fmt.Fprintf(w, "\n%s\n", strings.TrimSpace(page))
	}
}

func (s *incidentText) facts(w io.Writer) {
	rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer rows.Flush()
	row := func(name, value string) {
		if value != "" {
			fmt.Fprintf(rows, "%s\t%s\n", name, value)
		}
	}
	row("what", sanitize(s.Summary))
	row("users feel", sanitize(s.Impact))
	row("value", fmt.Sprintf("%s, %s at %s", formatValue(s.Value, s.Unit), sanitize(s.Level), formatValue(s.Threshold, s.Unit)))
	since := formatTime(s.OpenedAt)
	if s.EndedAt == nil {
		since += fmt.Sprintf(" (%s ago)", elapsed(s.OpenedAt, s.now.UTC().Format(time.RFC3339)))
	}
	row("since", since)
	if s.EndedAt != nil {
		row("until", formatTime(*s.EndedAt))
	}
	if s.Reopened > 0 {
		row("came back", fmt.Sprintf("%d times", s.Reopened))
	}
	row("runbook", sanitize(s.Runbook))
	row("id", sanitize(s.ID))
}

func (s *incidentText) timeline(w io.Writer) {
	if len(s.Events) == 0 {
		return
	}
	fmt.Fprintln(w)
	rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer rows.Flush()
	fmt.Fprintln(rows, "#\tAT\tEVENT\tLEVEL\tVALUE\tBY\tNOTE")
	for i := range s.Events {
		e := &s.Events[i]
		fmt.Fprintf(rows, "%d\t%s\t%s\t%s\t%s\t%s\t%s\n", e.Seq, formatTime(e.At), sanitize(e.Kind), sanitize(e.Level), formatValue(e.Value, s.Unit),
			orDash(e.By), orDash(eventNote(e)))
	}
}

func eventNote(e *api.Event) string {
	switch {
	case e.Silenced:
		return "silenced: not sent"
	case e.Suppressed:
		return "part of the flapping"
	case e.Count > 0:
		return fmt.Sprintf("%d turns for the worse", e.Count)
	default:
		return ""
	}
}

func (s *incidentText) messages(w io.Writer) {
	if !s.Recorded {
		return
	}
	if len(s.Deliveries) == 0 {
		fmt.Fprintln(w, "\nno messages")
		return
	}
	fmt.Fprintln(w)
	rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	defer rows.Flush()
	fmt.Fprintln(rows, "#\tMESSAGE\tTO\tSTATE\tATTEMPTS\tLAST TRIED\tNEXT\tREASON")
	for i := range s.Deliveries {
		d := &s.Deliveries[i]
		fmt.Fprintf(rows, "%s\t%s\t%s\t%s\t%d\t%s\t%s\t%s\n", strconv.Itoa(d.Seq), sanitize(d.Kind), orDash(d.Destination), stateOf(d), d.Attempts,
			formatTimeOrDash(d.TriedAt), formatTimeOrDash(d.NextAt), orDash(d.Reason))
	}
}

// stateOf writes what needs a look in capitals.
func stateOf(d *api.Delivery) string {
	if d.State == "dead" {
		return "DEAD"
	}
	return sanitize(d.State)
}

func formatTimeOrDash(s *string) string {
	if s == nil {
		return "-"
	}
	return formatTime(*s)
}
