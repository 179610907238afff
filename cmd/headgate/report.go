package main

import (
	"encoding/json"
	"fmt"
	"io"
	"time"

	"headgate/proxy/admission"
	"headgate/web/api"
)

// orderRun is one run of a command that changes modes.
type orderRun struct {
	*orderCmd
	place place
	actor string
	start time.Time
	out   io.Writer // data
	err   io.Writer // messages
}

// report shows what was done.
func (r *orderRun) report(o outcome) error {
	o.Undo = []string{}
	if !o.DryRun {
		o.Undo = r.undo(o.Changes)
	}
	if !o.DryRun && !o.Recorded && len(o.Changes) > 0 {
		fmt.Fprintln(r.err, "headgate: warning: applied but not recorded yet: a restart would forget it. The service tries again until it is recorded.")
	}
	if r.json {
		return printJSON(r.out, o)
	}
	for i := range o.Changes {
		r.line(&o.Changes[i], o.DryRun)
	}
	for _, command := range o.Undo {
		fmt.Fprintf(r.out, "undo: %s\n", command)
	}
	return nil
}

// line shows what became of one pool.
func (r *orderRun) line(c *api.ModeChange, dry bool) {
	now, would := "", ""
	if dry {
		now, would = "would go ", "would be "
	}
	if c.From == c.To {
		fmt.Fprintf(r.out, "%s: already in %s; %d running, %d queued\n", inert(c.Pool), inert(c.To), c.Running, c.Queued-c.Dropped)
	} else {
		fmt.Fprintf(r.out, "%s: %s%s → %s; %d running and %d queued %skept\n",
			inert(c.Pool), now, inert(c.From), inert(c.To), c.Running, c.Queued-c.Dropped, would)
	}
	if c.Dropped > 0 {
		fmt.Fprintf(r.out, "%s: %d queued %srefused, since they could no longer end in time\n", inert(c.Pool), c.Dropped, would)
	}
	if c.To != admission.PassThrough.String() && c.Overdue > 0 {
		r.backlog(c)
	}
}

// backlog tells of those who are late already, and how long they take.
func (r *orderRun) backlog(c *api.ModeChange) {
	fmt.Fprintf(r.out, "%s: %d of %d queued can no longer end in time; they are served all the same, and the queue takes %s to drain\n",
		inert(c.Pool), c.Overdue, c.Queued-c.Dropped, seconds(c.DrainS))
	if r.mode == api.ModeRestore && !r.dropOverdue {
		fmt.Fprintf(r.out, "%s: to refuse those: headgate restore --drop-overdue --pool %s%s\n",
			inert(c.Pool), shellWord(c.Pool), r.where.shown())
	}
}

// undo returns the commands that take changes back. One without --pool would
// touch pools that were not changed, so it is only shown when all of them were.
func (r *orderRun) undo(changes []api.ModeChange) []string {
	commands := []string{}
	same := r.pool == ""
	for i := range changes {
		c := &changes[i]
		same = same && c.From != c.To && back(c) == back(&changes[0])
		if c.From != c.To {
			commands = append(commands, fmt.Sprintf("headgate %s --pool %s%s", back(c), shellWord(c.Pool), r.where.shown()))
		}
	}
	if same && len(changes) > 0 {
		return []string{"headgate " + back(&changes[0]) + r.where.shown()}
	}
	return commands
}

// back is the command that leads from a change's end to its beginning.
func back(c *api.ModeChange) string {
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
