package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"headgate/web/api"
)

func newIncidentAck(h environment) *cobra.Command {
	a := incidentAck{serviceCmd: serviceCmd{host: h}}
	cmd := &cobra.Command{
		Use:   "ack ID",
		Short: "Take an incident on: no more reminders for a while",
		Long: `Take an open incident on, so that others see who has it and nobody is reminded
until the time is over. It is told all the same when it rises to page, and when it
ends. Whoever comes second changes nothing, and is told who was first.`,
		Example: `  headgate incident ack 01a22990
  headgate incident ack 01a22990 --for 30m`,
		Args: usageArgs(cobra.ExactArgs(1)),
		RunE: a.run,
	}
	cmd.Flags().StringVar(&a.length, "for", "", "how long, a `span` such as 30m or 4h (default 2h)")
	a.add(cmd)
	return cmd
}

type incidentAck struct {
	serviceCmd
	length string
}

func (a *incidentAck) run(cmd *cobra.Command, args []string) error {
	if cmd.Flags().Changed("for") {
		if _, err := api.ParseDuration(a.length); err != nil {
			return usageError{fmt.Errorf("--for %w", err)}
		}
	}
	return a.withClient(cmd, func(ctx context.Context, c *api.Client) error {
		id, err := resolveIncidentID(ctx, c, args[0], true)
		if err != nil {
			return err
		}
		reply, err := c.Ack(ctx, id, api.AckRequest{For: a.length})
		var p *api.Problem
		if errors.As(err, &p) && p.Acked != nil {
			return a.alreadyAcked(ctx, cmd, c, id, p)
		}
		if err != nil {
			return hintMaybeApplied(err)
		}
		return a.report(cmd, reply, "taken")
	})
}

// alreadyAcked deals with an incident that somebody has. Who gives an order twice has
// what they wanted.
func (a *incidentAck) alreadyAcked(ctx context.Context, cmd *cobra.Command, c *api.Client, id string, p *api.Problem) error {
	if p.Acked.By != a.host.actor() {
		return p
	}
	report, err := c.Incident(ctx, id)
	if err != nil {
		return err
	}
	return a.report(cmd, api.AckReply{By: p.Acked.By, Until: p.Acked.Until, Incident: report.Incident}, "taken before")
}

func (a *incidentAck) report(cmd *cobra.Command, reply api.AckReply, done string) error {
	if a.json {
		return printJSON(cmd.OutOrStdout(), reply)
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "%s: %s by %s until %s; no reminders until then, a rise to page is told all the same\n",
		ruleInPool(reply.Incident.Rule, reply.Incident.Pool), done, sanitize(reply.By), formatTime(reply.Until))
	return err
}
