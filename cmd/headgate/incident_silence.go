package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"headgate/web/api"
)

func newIncidentSilence(h environment) *cobra.Command {
	s := incidentSilence{serviceCmd: serviceCmd{host: h}}
	cmd := &cobra.Command{
		Use:   "silence [RULE]",
		Short: "Send nothing about a rule for a while",
		Long: `Silence a rule for some time: its incidents open, end and are recorded, and nothing
is sent about them. When the silence ends, the truth of that moment is sent.
--list shows the silences that stand, --lift ends one early.`,
		Example: `  headgate incident silence queue_age --for 1h --reason "load test until noon"
  headgate incident silence queue_age --pool big --for 2d --reason "new hardware"
  headgate incident silence --list
  headgate incident silence --lift 01a22991`,
		Args: usageArgs(cobra.MaximumNArgs(1)),
		RunE: s.run,
	}
	f := cmd.Flags()
	f.StringVar(&s.pool, "pool", "", "only in this `pool` (default all)")
	f.StringVar(&s.length, "for", "", "how long, a `span` such as 1h or 2d")
	f.StringVar(&s.reason, "reason", "", "`why`, for those who wonder why nothing is sent")
	f.BoolVar(&s.list, "list", false, "list the silences that are not over")
	f.StringVar(&s.liftID, "lift", "", "end the silence with this `ID`, or this beginning of one")
	s.add(cmd)
	completePools(cmd, h, &s.where)
	return cmd
}

type incidentSilence struct {
	serviceCmd
	pool, length, reason, liftID string
	list                         bool
}

func (s *incidentSilence) run(cmd *cobra.Command, args []string) error {
	work, err := s.parse(cmd, args)
	if err != nil {
		return usageError{fmt.Errorf("%w\nsee `%s --help`", err, cmd.CommandPath())}
	}
	return s.withClient(cmd, func(ctx context.Context, c *api.Client) error { return work(ctx, c, cmd.OutOrStdout()) })
}

type silenceAction func(context.Context, *api.Client, io.Writer) error

// parse finds out which of three things is asked for, and refuses mixtures.
func (s *incidentSilence) parse(cmd *cobra.Command, args []string) (silenceAction, error) {
	lift := cmd.Flags().Changed("lift")
	given := len(args) > 0 || s.pool != "" || s.length != "" || s.reason != ""
	switch {
	case s.list && lift || (s.list || lift) && given:
		return nil, errors.New("give a RULE with --for and --reason, or --list, or --lift ID")
	case s.list:
		return s.listSilences, nil
	case lift:
		return s.liftSilence, nil
	case len(args) == 0 || args[0] == "":
		return nil, errors.New("which RULE? headgate incident list shows them; or give --list or --lift ID")
	}
	s.reason = sanitize(strings.Join(strings.Fields(s.reason), " "))
	if s.reason == "" {
		return nil, errors.New("--reason must say why")
	}
	if _, err := api.ParseDuration(s.length); err != nil {
		return nil, fmt.Errorf("--for %w", err)
	}
	m := api.SilenceRequest{Rule: args[0], Pool: s.pool, For: s.length, Reason: s.reason}
	return func(ctx context.Context, c *api.Client, w io.Writer) error { return s.create(ctx, c, w, m) }, nil
}

func (s *incidentSilence) create(ctx context.Context, c *api.Client, w io.Writer, m api.SilenceRequest) error {
	reply, err := c.Silence(ctx, m)
	if err != nil {
		return hintMaybeApplied(err)
	}
	if s.json {
		return printJSON(w, reply)
	}
	done := "silenced"
	if !reply.Created {
		done = "silenced before"
	}
	n := &reply.Silence
	_, err = fmt.Fprintf(w, "%s: %s until %s by %s: %s\nundo: headgate incident silence --lift %s%s\n",
		ruleInPool(n.Rule, n.Pool), done, formatTime(n.Until), sanitize(n.By), sanitize(n.Reason), sanitize(n.ID), s.where.shellArgs())
	return err
}

// allSilences reads all silences that are not over.
func allSilences(ctx context.Context, c *api.Client) ([]api.Silence, string, error) {
	return readPages(func(after string) ([]api.Silence, string, error) {
		list, err := c.Silences(ctx, after, api.MaxPage)
		return list.Items, list.Next, err
	})
}

func (s *incidentSilence) liftSilence(ctx context.Context, c *api.Client, w io.Writer) error {
	id, err := resolveID("silence", s.liftID, func() (ids []string, err error) {
		all, _, err := allSilences(ctx, c)
		for i := range all {
			ids = append(ids, all[i].ID)
		}
		return ids, err
	})
	if err != nil {
		return err
	}
	lifted, err := c.Unsilence(ctx, id)
	if err != nil {
		return hintMaybeApplied(err)
	}
	if s.json {
		return printJSON(w, lifted)
	}
	_, err = fmt.Fprintf(w, "%s: no longer silenced; what is true now is sent\n", ruleInPool(lifted.Rule, lifted.Pool))
	return err
}

func (s *incidentSilence) listSilences(ctx context.Context, c *api.Client, w io.Writer) error {
	all, rest, err := allSilences(ctx, c)
	if err != nil {
		return err
	}
	if s.json {
		return printJSON(w, api.SilenceList{Items: append([]api.Silence{}, all...), Next: rest})
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no silences")
		return err
	}
	rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "ID\tRULE\tPOOL\tUNTIL\tBY\tREASON")
	for i := range all {
		m := &all[i]
		pool := sanitize(m.Pool)
		if pool == "" {
			pool = "all"
		}
		fmt.Fprintf(rows, "%s\t%s\t%s\t%s\t%s\t%s\n", sanitize(m.ID), sanitize(m.Rule), pool, formatTime(m.Until), sanitize(m.By), orDash(m.Reason))
	}
	return rows.Flush()
}
