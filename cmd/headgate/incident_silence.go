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

func newIncidentSilence(h host) *cobra.Command {
	s := incidentSilence{incidentCmd: incidentCmd{host: h}}
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
	f.StringVar(&s.lift, "lift", "", "end the silence with this `ID`, or this beginning of one")
	s.add(cmd)
	completePools(cmd, h, &s.where)
	return cmd
}

type incidentSilence struct {
	incidentCmd
	pool, length, reason, lift string
	list                       bool
}

func (s *incidentSilence) run(cmd *cobra.Command, args []string) error {
	work, err := s.choose(cmd, args)
	if err != nil {
		return usageError{fmt.Errorf("%w\nsee `%s --help`", err, cmd.CommandPath())}
	}
	return s.ask(cmd, func(ctx context.Context, c *api.Client) error { return work(ctx, c, cmd.OutOrStdout()) })
}

type silenceWork func(context.Context, *api.Client, io.Writer) error

// choose finds out which of three things is asked for, and refuses mixtures.
func (s *incidentSilence) choose(cmd *cobra.Command, args []string) (silenceWork, error) {
	lift := cmd.Flags().Changed("lift")
	given := len(args) > 0 || s.pool != "" || s.length != "" || s.reason != ""
	switch {
	case s.list && lift || (s.list || lift) && given:
		return nil, errors.New("give a RULE with --for and --reason, or --list, or --lift ID")
	case s.list:
		return s.showAll, nil
	case lift:
		return s.liftOne, nil
	case len(args) == 0 || args[0] == "":
		return nil, errors.New("which RULE? headgate incident list shows them; or give --list or --lift ID")
	}
	s.reason = inert(strings.Join(strings.Fields(s.reason), " "))
	if s.reason == "" {
		return nil, errors.New("--reason must say why")
	}
	if _, err := api.ParseSpan(s.length); err != nil {
		return nil, fmt.Errorf("--for %w", err)
	}
	m := api.MuteRequest{Rule: args[0], Pool: s.pool, For: s.length, Reason: s.reason}
	return func(ctx context.Context, c *api.Client, w io.Writer) error { return s.make(ctx, c, w, m) }, nil
}

func (s *incidentSilence) make(ctx context.Context, c *api.Client, w io.Writer, m api.MuteRequest) error {
	reply, err := c.Mute(ctx, m)
	if err != nil {
		return doubtful(err)
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
		ruleIn(n.Rule, n.Pool), done, moment(n.Until), inert(n.By), inert(n.Reason), inert(n.ID), s.where.shown())
	return err
}

// mutesOf reads all silences that are not over.
func mutesOf(ctx context.Context, c *api.Client) ([]api.Mute, string, error) {
	return pages(func(after string) ([]api.Mute, string, error) {
		list, err := c.Mutes(ctx, after, api.MaxPage)
		return list.Items, list.Next, err
	})
}

func (s *incidentSilence) liftOne(ctx context.Context, c *api.Client, w io.Writer) error {
	id, err := complete("silence", s.lift, func() (ids []string, err error) {
		all, _, err := mutesOf(ctx, c)
		for i := range all {
			ids = append(ids, all[i].ID)
		}
		return ids, err
	})
	if err != nil {
		return err
	}
	lifted, err := c.Unmute(ctx, id)
	if err != nil {
		return doubtful(err)
	}
	if s.json {
		return printJSON(w, lifted)
	}
	_, err = fmt.Fprintf(w, "%s: no longer silenced; what is true now is sent\n", ruleIn(lifted.Rule, lifted.Pool))
	return err
}

func (s *incidentSilence) showAll(ctx context.Context, c *api.Client, w io.Writer) error {
	all, rest, err := mutesOf(ctx, c)
	if err != nil {
		return err
	}
	if s.json {
		return printJSON(w, api.MuteList{Items: append([]api.Mute{}, all...), Next: rest})
	}
	if len(all) == 0 {
		_, err := fmt.Fprintln(w, "no silences")
		return err
	}
	rows := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(rows, "ID\tRULE\tPOOL\tUNTIL\tBY\tREASON")
	for i := range all {
		m := &all[i]
		pool := inert(m.Pool)
		if pool == "" {
			pool = "all"
		}
		fmt.Fprintf(rows, "%s\t%s\t%s\t%s\t%s\t%s\n", inert(m.ID), inert(m.Rule), pool, moment(m.Until), inert(m.By), orDash(m.Reason))
	}
	return rows.Flush()
}
