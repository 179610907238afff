package main

import (
	"context"

	"github.com/spf13/cobra"

	"headgate/internal/cli"
)

// newIncident returns the group of commands for on-call without a browser or Slack.
func newIncident(env cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "incident",
		Short: "List, acknowledge and silence incidents",
		Long: `Show open and past incidents with their notifications; acknowledge an incident;
silence a rule while the cause is known.`,
	}
	cmd.AddCommand(newIncidentList(env), newIncidentShow(env), newIncidentAck(env), newIncidentSilence(env))
	return cmd
}

func newIncidentList(env cli.Env) *cobra.Command {
	var l cli.Incidents
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List incidents, newest first",
		Long:  `List incidents, newest first: open ones of any age, and those opened recently.`,
		Example: `  headgate incident list
  headgate incident list --open
  headgate incident list --since 30d --pool big --json`,
	}
	f := cmd.Flags()
	f.BoolVar(&l.Open, "open", false, "only open incidents")
	sinceFlag(cmd, &l.Since, "7d")
	poolFlag(cmd, &l.Pool)
	f.StringVar(&l.Rule, "rule", "", "only this `rule` (default all)")
	return serviceCommand(cmd, env, &l.Service, func(ctx context.Context, _ []string) error {
		// An incident that has been open for longer than the default period is still open.
		if l.Open && !f.Changed("since") {
			l.Since = ""
		}
		return l.Run(ctx)
	})
}

func newIncidentShow(env cli.Env) *cobra.Command {
	var s cli.ShowIncident
	return serviceCommand(&cobra.Command{
		Use:   "show ID",
		Short: "Show an incident with its timeline and notifications",
		Long: `Show one incident: what is wrong and its impact, its value against the threshold, its
timeline, and the state of every notification. The beginning of an ID is enough if it
is unique.`,
		Example: `  headgate incident show 01a22990
  headgate incident show 01a22990-4f00-7a3e-8d51-6c2b9a4e11aa --json | jq .events`,
		Args: cobra.ExactArgs(1),
	}, env, &s.Service, oneArg(s.Run))
}

// newIncidentAck returns the command that stops reminders for a limited time only: an
// acknowledgement without end would hide an incident that its owner has forgotten.
func newIncidentAck(env cli.Env) *cobra.Command {
	var a cli.Ack
	cmd := &cobra.Command{
		Use:   "ack ID",
		Short: "Acknowledge an incident",
		Long: `Acknowledge an open incident, so that others see who handles it, and no reminders are
sent until the time has passed. An escalation to page and the end are still sent. If
another person has acknowledged it, nothing changes, and the command says who.`,
		Example: `  headgate incident ack 01a22990
  headgate incident ack 01a22990 --for 30m`,
		Args: cobra.ExactArgs(1),
	}
	cmd.Flags().StringVar(&a.For, "for", "2h", "how long, a `duration` such as 30m or 4h")
	return serviceCommand(cmd, env, &a.Service, oneArg(a.Run))
}

// newIncidentSilence returns one command for three actions on silences. --for has no default
// and a reason is required, because a silence also hides the next, unrelated incident.
func newIncidentSilence(env cli.Env) *cobra.Command {
	var s cli.Silence
	cmd := &cobra.Command{
		Use:   "silence [RULE]",
		Short: "Silence a rule",
		Long: `Silence a rule for some time: its incidents open, end and are recorded, but nothing is
sent about them. When the silence ends, the state at that moment is sent.
--list shows the active silences, --lift ends one early.`,
		Example: `  headgate incident silence queue_age --for 1h --reason "load test until noon"
  headgate incident silence queue_age --pool big --for 2d --reason "new hardware"
  headgate incident silence --list
  headgate incident silence --lift 01a22991`,
		Args: cobra.MaximumNArgs(1),
	}
	f := cmd.Flags()
	f.StringVar(&s.Pool, "pool", "", "only in this `pool` (default all)")
	f.StringVar(&s.For, "for", "", "how long, a `duration` such as 1h or 2d")
	f.StringVar(&s.Reason, "reason", "", "`why`, for those who wonder why nothing is sent")
	f.BoolVar(&s.List, "list", false, "list the active silences")
	f.StringVar(&s.Lift, "lift", "", "end the silence with this `ID`, or with an ID that begins so")
	return serviceCommand(cmd, env, &s.Service, oneArg(s.Run))
}
