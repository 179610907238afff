package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"headgate/web/api"
)

func newDrillList(h environment) *cobra.Command {
	c := drillCmd{serviceCmd{host: h}}
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List drills, their next five runs and last verdicts",
		Long: `List the drills from the settings and the built-in ones: what they work on, when
they are due, and how they ended last. Due times are shown in the zone of the
schedule and in UTC, with a note where clocks go forward or back.`,
		Example: `  headgate drill list
  headgate drill list --json | jq '.items[].next_runs'`,
		Args: usageArgs(cobra.NoArgs),
	}
	c.add(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		return c.withClient(cmd, func(ctx context.Context, client *api.Client) error {
			list, err := client.Drills(ctx)
			if err != nil {
				return err
			}
			if c.json {
				return printJSON(cmd.OutOrStdout(), list)
			}
			_, err = cmd.OutOrStdout().Write(drillTable(&list, h.now(), colorizerFor(h, cmd.OutOrStdout())))
			return err
		})
	}
	return cmd
}

func drillTable(list *api.DrillList, now time.Time, p colorizer) []byte {
	var b bytes.Buffer
	if f := list.Freeze; f.Frozen {
		fmt.Fprintf(&b, "%s\n\n", p.highlight(yellow, fmt.Sprintf("FROZEN by %s: %s; no drill runs until headgate drill unfreeze",
			cmp.Or(sanitize(f.By), "somebody"), cmp.Or(sanitize(f.Reason), "no reason given"))))
	}
	if len(list.Items) == 0 {
		fmt.Fprintln(&b, "no drills")
		return b.Bytes()
	}
	rows := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "DRILL\tNAME\tTARGET\tPOOL\tSCHEDULE\tNEXT\tLAST\tLAST PASSED")
	for i := range list.Items {
		d := &list.Items[i]
		fmt.Fprintf(rows, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", sanitize(d.ID), orDash(d.Name), sanitize(d.Target), orDash(d.Pool), scheduleOf(d), nextOf(d), lastOf(d), passedAgo(d, now))
	}
	_ = rows.Flush() // into memory
	for i := range list.Items {
		drillNotes(&b, &list.Items[i])
	}
	return b.Bytes()
}

func scheduleOf(d *api.DrillSummary) string {
	if d.Schedule == "" {
		return "by hand"
	}
	return sanitize(d.Schedule) + " " + cmp.Or(sanitize(d.Zone), "UTC")
}

func nextOf(d *api.DrillSummary) string {
	if len(d.NextRuns) == 0 {
		return "-"
	}
	return formatTime(d.NextRuns[0].At)
}

func lastOf(d *api.DrillSummary) string {
	switch {
	case d.Running != nil:
		return "running"
	case d.Last == nil:
		return "-"
	}
	return sanitize(d.Last.Verdict)
}

// passedAgo says how many days ago a drill passed.
func passedAgo(d *api.DrillSummary, now time.Time) string {
	late := ""
	if d.Overdue {
		late = ", overdue"
	}
	if d.LastPassedAt == nil {
		return "never" + late
	}
	at, err := time.Parse(time.RFC3339, *d.LastPassedAt)
	if err != nil {
		return sanitize(*d.LastPassedAt)
	}
	switch days := int(now.Sub(at) / (24 * time.Hour)); days {
	case 0:
		return "today" + late
	case 1:
		return "1 day ago" + late
	default:
		return fmt.Sprintf("%d days ago%s", days, late)
	}
}

// drillNotes tells what the table does not.
func drillNotes(w io.Writer, d *api.DrillSummary) {
	var lines []string
	for _, problem := range d.Problems {
		lines = append(lines, "cannot run: "+sanitize(problem))
	}
	if d.Running != nil {
		lines = append(lines, "running: headgate drill show "+sanitize(*d.Running))
	}
	for _, n := range d.NextRuns {
		line := fmt.Sprintf("due %s (%s)", sanitize(n.Local), formatTime(n.At))
		if n.Note != "" {
			line += ", " + sanitize(n.Note)
		}
		lines = append(lines, line)
	}
	for i, line := range lines {
		if i == 0 {
			fmt.Fprintf(w, "\n%s: %s\n", sanitize(d.ID), line)
		} else {
			fmt.Fprintf(w, "%*s%s\n", len(sanitize(d.ID))+2, "", line)
		}
	}
}
