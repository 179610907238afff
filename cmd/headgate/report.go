package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"headgate/proxy/admission"
	"headgate/web/api"
)

// modeRun is one run of a command that changes modes.
type modeRun struct {
	*modeCmd
	endpoint endpoint
	actor    string
	start    time.Time
	out      io.Writer // data
	err      io.Writer // messages
}

// report shows what was done.
func (r *modeRun) report(o modeResult) error {
	o.UndoCommands = []string{}
	if !o.DryRun {
		o.UndoCommands = r.undo(o.Changes)
	}
	if !o.DryRun && !o.Recorded && len(o.Changes) > 0 {
		fmt.Fprintln(r.err, "headgate: warning: applied but not recorded yet: a restart would forget it. The service tries again until it is recorded.")
	}
	if r.json {
		return printJSON(r.out, o)
	}
	for i := range o.Changes {
		r.reportPool(&o.Changes[i], o.DryRun)
	}
	for _, command := range o.UndoCommands {
		fmt.Fprintf(r.out, "undo: %s\n", command)
	}
	return nil
}

// reportPool shows what became of one pool.
func (r *modeRun) reportPool(c *api.ModeChange, dry bool) {
	now, would := "", ""
	if dry {
		now, would = "would go ", "would be "
	}
	if c.From == c.To {
		fmt.Fprintf(r.out, "%s: already in %s; %d running, %d queued\n", sanitize(c.Pool), sanitize(c.To), c.Running, c.Queued-c.Dropped)
	} else {
		fmt.Fprintf(r.out, "%s: %s%s → %s; %d running and %d queued %skept\n",
			sanitize(c.Pool), now, sanitize(c.From), sanitize(c.To), c.Running, c.Queued-c.Dropped, would)
	}
	if c.Dropped > 0 {
		fmt.Fprintf(r.out, "%s: %d queued %srefused, since they could no longer end in time\n", sanitize(c.Pool), c.Dropped, would)
	}
	if c.To != admission.PassThrough.String() && c.Overdue > 0 {
		r.reportBacklog(c)
	}
}

// reportBacklog tells of those who are late already, and how long they take.
func (r *modeRun) reportBacklog(c *api.ModeChange) {
	fmt.Fprintf(r.out, "%s: %d of %d queued can no longer end in time; they are served all the same, and the queue takes %s to drain\n",
		sanitize(c.Pool), c.Overdue, c.Queued-c.Dropped, formatSeconds(c.DrainS))
	if r.mode == api.ModeRestore && !r.dropOverdue {
		fmt.Fprintf(r.out, "%s: to refuse those: headgate restore --drop-overdue --pool %s%s\n",
			sanitize(c.Pool), shellQuote(c.Pool), r.where.shellArgs())
	}
}

// undo returns the commands that take changes back. One without --pool would
// touch pools that were not changed, so it is only shown when all of them were.
func (r *modeRun) undo(changes []api.ModeChange) []string {
	commands := []string{}
	same := r.pool == ""
	for i := range changes {
		c := &changes[i]
		same = same && c.From != c.To && undoCommand(c) == undoCommand(&changes[0])
		if c.From != c.To {
			commands = append(commands, fmt.Sprintf("headgate %s --pool %s%s", undoCommand(c), shellQuote(c.Pool), r.where.shellArgs()))
		}
	}
	if same && len(changes) > 0 {
		return []string{"headgate " + undoCommand(&changes[0]) + r.where.shellArgs()}
	}
	return commands
}

// undoCommand is the command that leads from a change's end to its beginning.
func undoCommand(c *api.ModeChange) string {
	switch {
	case c.From == admission.PassThrough.String():
		return "rollback"
	case c.From == admission.Observe.String() && c.To != admission.PassThrough.String():
		return "observe"
	default:
		return "restore"
	}
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
