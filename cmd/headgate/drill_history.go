package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"headgate/runbooks/drill"
	"headgate/web/api"
)

func newDrillHistory(h environment) *cobra.Command {
	l := drillHistory{drillCmd: drillCmd{serviceCmd{host: h}}}
	cmd := &cobra.Command{
		Use:   "history",
		Short: "List runs of drills, newest first",
		Long: `List runs of drills, newest first: verdict, what began them, how long they took,
and the hypothesis that was closest to its limit. Runs that were skipped or missed
are there too. When the service does not answer, they are read from its database.`,
		Example: `  headgate drill history
  headgate drill history --drill burst --verdict failed,inconclusive --since 90d
  headgate drill history --since 365d --csv > drills.csv`,
		Args: usageArgs(cobra.NoArgs),
		RunE: l.run,
	}
	f := cmd.Flags()
	f.StringVar(&l.drill, "drill", "", "only this `drill`, by ID or a name that it has or has had")
	f.StringVar(&l.verdict, "verdict", "", "only these `verdicts`, with commas between them: passed, failed, aborted, inconclusive, skipped, interrupted, missed")
	f.StringVar(&l.trigger, "trigger", "", "only these `triggers`, with commas between them: schedule, catch_up, manual")
	f.StringVar(&l.since, "since", "30d", "from then on: a `span` such as 7d or 90m, or a time such as 2026-01-31T12:00:00Z")
	f.StringVar(&l.until, "until", "", "before then: a `span` ago, or a time")
	f.BoolVar(&l.csv, "csv", false, "print CSV")
	l.add(cmd)
	// It fails only for a flag that is not there.
	_ = cmd.RegisterFlagCompletionFunc("drill", func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		return drillIDs(cmd.Context(), h, &l.where), cobra.ShellCompDirectiveNoFileComp
	})
	return cmd
}

type drillHistory struct {
	drillCmd
	drill, verdict, trigger, since, until string
	csv                                   bool
}

func (l *drillHistory) run(cmd *cobra.Command, _ []string) error {
	if l.json && l.csv {
		return usageError{errors.New("--json and --csv exclude each other")}
	}
	q, err := l.query()
	if err != nil {
		return usageError{fmt.Errorf("--%w", err)}
	}
	return l.withRuns(cmd, func(ctx context.Context, c runReader) error {
		all, rest, err := allRuns(ctx, c, q)
		if err != nil {
			return err
		}
		if rest != "" {
			fmt.Fprintf(cmd.ErrOrStderr(), "headgate: warning: there are more than %d runs; shorten --since\n", maxItems)
		}
		switch {
		case l.json:
			return printJSON(cmd.OutOrStdout(), api.DrillRunList{Items: append([]api.DrillRun{}, all...), Next: rest})
		case l.csv:
			return api.WriteRunsCSV(cmd.OutOrStdout(), all)
		}
		return runTable(cmd.OutOrStdout(), all, colorizerFor(l.host, cmd.OutOrStdout()))
	})
}

// query reads the flags as the API reads its parameters, which have their names.
func (l *drillHistory) query() (drill.Query, error) {
	v := url.Values{}
	for name, text := range map[string]string{"drill": l.drill, "verdict": l.verdict, "trigger": l.trigger, "since": l.since, "until": l.until} {
		v.Set(name, strings.ReplaceAll(text, " ", ""))
	}
	v.Set("drill", l.drill)
	return api.RunQuery(v, l.host.now())
}

func runTable(w io.Writer, all []api.DrillRun, p colorizer) error {
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no runs")
		return err
	}
	var b bytes.Buffer
	rows := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "ID\tDRILL\tVERDICT\tBEGUN\tBY\tTOOK\tTIGHTEST\tREASON")
	for i := range all {
		r := &all[i]
		at := r.StartedAt
		if at == nil {
			at = r.ScheduledAt
		}
		took := "-"
		if r.DurationS != nil {
			took = formatSeconds(*r.DurationS)
		}
		fmt.Fprintf(rows, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", sanitize(r.ID), sanitize(r.Drill), verdictOf(r), formatTimeOr(at, "-"), orDash(r.Trigger), took,
			hypothesisText(r.Tightest), orDash(r.Reason))
	}
	if err := rows.Flush(); err != nil {
		return err
	}
	for i, line := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
		if i > 0 {
			line = highlightVerdict(p, verdictOf(&all[i-1]), line)
		}
		if _, err := fmt.Fprintln(w, line); err != nil {
			return err
		}
	}
	return nil
}
