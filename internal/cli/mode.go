package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"headgate/internal/format"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
)

const (
	confirmInterval = 100 * time.Millisecond // between looks at the audit log, for its effect
	confirmPageSize = 100                    // changes, newest first
)

// ModeChange changes the mode of pools: rollback, restore and observe. It asks the
// service, and queues the request in its database if there is no answer.
type ModeChange struct {
	Service
	Mode         string // as the API has it
	Pool, Reason string
	DryRun       bool
	DropOverdue  bool // restore only

	at target
	// start is a moment before which the request cannot have been applied, in milliseconds
	// as the database has it. It has no margin: an earlier restore by the same person may
	// be recent.
	start time.Time
}

// The paths by which a change of mode is applied.
const (
	pathAPI     = "api"
	pathRequest = "request" // queued in the database
)

// modeResult is the effect of a change of mode, as --json prints it.
type modeResult struct {
	api.ModeReply
	Path         string   `json:"path"`
	Request      int64    `json:"request"`  // number of the queued request, 0 without one
	Deferred     bool     `json:"deferred"` // no service runs: it is applied at the next start
	UndoCommands []string `json:"undo_commands"`
}

// Run changes the mode.
func (m *ModeChange) Run(ctx context.Context) (err error) {
	if err := checkPool(m.Pool); err != nil {
		return err
	}
	if m.Reason, err = reasonLine(m.Reason); err != nil {
		return err
	}
	if m.at, err = m.target(); err != nil {
		return err
	}
	m.start = m.Now().Truncate(time.Millisecond)
	reply, err := m.ask(ctx)
	var unreachable *api.UnreachableError
	switch {
	case err == nil:
		return m.report(modeResult{ModeReply: reply, Path: pathAPI})
	case errors.As(err, &unreachable):
		return m.queue(ctx, unreachable)
	default:
		return fmt.Errorf("%s failed, nothing was changed: %w", m.commandName(), err)
	}
}

// ask sends the change to the service, after a ping: a dead service is known within a
// second instead of the five of a call.
func (m *ModeChange) ask(ctx context.Context) (reply api.ModeReply, err error) {
	request := api.ModeRequest{Mode: m.Mode, Reason: m.Reason, DropOverdue: m.DropOverdue, DryRun: m.DryRun}
	err = m.connect(ctx, m.at, func(c *api.Client) error {
		reply, err = c.SetMode(ctx, m.Pool, request)
		return err
	})
	return reply, err
}

// commandName is the command's own name.
func (m *ModeChange) commandName() string {
	if m.Mode == admission.PassThrough.String() {
		return "rollback"
	}
	return m.Mode
}

// request is what is queued in the database.
func (m *ModeChange) request() control.ModeRequest {
	r := control.ModeRequest{
		Pool: m.Pool, DropOverdue: m.DropOverdue, Actor: m.Actor(), Via: control.ViaRequest, Reason: m.Reason,
	}
	switch m.Mode {
	case admission.PassThrough.String():
		r.Action, r.Mode = control.Rollback, admission.PassThrough
	case api.ModeRestore:
		r.Action = control.Restore
	default:
		r.Action, r.Mode = control.SetMode, admission.Observe
	}
	return r
}

const lastResortHint = `what remains:
  stop headgate and let clients use the model endpoint directly (upstream in the settings), or
  start it again with --ephemeral and mode: passthrough in the settings;
  with a database, that mode applies only to pools that were never seen before`

// queue leaves the request in the database. A restore may not be repeated, because a
// second one may go one mode further: one that was sent is looked for first.
func (m *ModeChange) queue(ctx context.Context, cause *api.UnreachableError) error {
	unreachable := func(text string, args ...any) error {
		return Error{ExitUnreachable, fmt.Errorf("%w\n"+text, append([]any{cause}, args...)...)}
	}
	dir := m.at.dataDir
	switch {
	case m.DryRun:
		return unreachable("nothing was changed; "+
			"without --dry-run the request would now be queued in the database in %s", dir)
	case !m.at.local:
		return unreachable("the database is not on this machine; on the one that serves, run: headgate %s --data-dir DIR\n%s",
			m.commandName(), lastResortHint)
	case cause.Sent && m.Mode == api.ModeRestore:
		changes := m.waitForChanges(ctx, func(c control.ModeChange) bool {
			return c.Action == control.Restore && c.Actor == m.Actor() && !c.At.Before(m.start)
		})
		if len(changes) == 0 {
			return unreachable("the request was sent, but its result is unknown: check with headgate status%s "+
				"before repeating it, because a second restore may go one mode further", m.shellArgs())
		}
		m.messagef("%v", cause)
		m.messagef("the database in %s shows that it was applied", dir)
		return m.report(modeResult{Path: pathAPI, ModeReply: api.ModeReply{Recorded: true, Changes: changes}})
	}
	timed, cancel := context.WithTimeout(ctx, m.QueueTimeout)
	defer cancel()
	queued, err := m.QueueModeRequest(timed, dir, m.request())
	if err != nil {
		return unreachable("the request could not be queued in %s either: %w\n%s", dir, err, lastResortHint)
	}
	m.messagef("%v", cause)
	m.messagef("queued request %d in the database in %s instead", queued.Number, dir)
	m.warnUnknownPool(ctx)
	if !queued.Running {
		return m.reportDeferred(queued)
	}
	m.messagef("%s applies it within a second", queued.Owner)
	changes := m.waitForChanges(ctx, func(c control.ModeChange) bool { return c.RequestNumber == queued.Number })
	if len(changes) == 0 {
		return fmt.Errorf("request %d was not seen applied within %s; the service applies it as soon as it can: "+
			"check with headgate status%s, and if that does not answer either:\n%s",
			queued.Number, m.ConfirmTimeout, m.shellArgs(), lastResortHint)
	}
	reply := api.ModeReply{Recorded: true, Changes: changes}
	return m.report(modeResult{Path: pathRequest, Request: queued.Number, ModeReply: reply})
}

// warnUnknownPool warns about a pool that has no recorded mode: its name may be
// mistyped. It may also be new in the settings, so that the request stays.
func (m *ModeChange) warnUnknownPool(ctx context.Context) {
	if m.Pool == "" {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.QueueTimeout)
	defer cancel()
	page, err := m.ReadAudit(ctx, m.at.dataDir, control.AuditQuery{Pool: m.Pool, Kind: control.KindMode, Limit: 1})
	if err == nil && len(page.Items) == 0 {
		m.messagef("warning: pool %q has never served from there: if the name is mistyped, nothing will change", m.Pool)
	}
}

// reportDeferred reports a request that no running service applies.
func (m *ModeChange) reportDeferred(queued QueuedRequest) error {
	m.messagef("no service runs from %s: the request is applied at the next start", m.at.dataDir)
	result := modeResult{
		Path: pathRequest, Request: queued.Number, Deferred: true, UndoCommands: []string{},
		ModeReply: api.ModeReply{Changes: []control.PoolChange{}},
	}
	return m.show(result, func(p *printer) {
		p.printf("%s: %s at the next start (request %d)\n", cmp.Or(m.Pool, "all pools"), m.commandName(), queued.Number)
	})
}

// waitForChanges waits, for a bounded time, until the audit log shows changes that
// match, and returns them oldest first.
func (m *ModeChange) waitForChanges(ctx context.Context, match func(control.ModeChange) bool) []control.PoolChange {
	ctx, cancel := context.WithTimeout(ctx, m.ConfirmTimeout)
	defer cancel()
	again := time.NewTicker(confirmInterval)
	defer again.Stop()
	for {
		page, err := m.ReadAudit(ctx, m.at.dataDir, control.AuditQuery{Kind: control.KindMode, Limit: confirmPageSize})
		var found []control.PoolChange
		for _, record := range slices.Backward(page.Items) {
			if record.Change != nil && match(*record.Change) {
				found = append(found, control.PoolChange{ModeChange: *record.Change})
			}
		}
		if err == nil && len(found) > 0 {
			return found
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// report shows the effect.
func (m *ModeChange) report(r modeResult) error {
	r.UndoCommands = []string{}
	if !r.DryRun {
		r.UndoCommands = m.undoCommands(r.Changes)
		if !r.Recorded && len(r.Changes) > 0 {
			m.messagef("warning: applied but not recorded yet: a restart would lose it; " +
				"the service retries until it is recorded")
		}
	}
	return m.show(r, func(p *printer) {
		for i := range r.Changes {
			m.reportPool(p, &r.Changes[i], r.DryRun)
		}
		for _, command := range r.UndoCommands {
			p.printf("undo: %s\n", command)
		}
	})
}

// reportPool shows the effect on one pool, and how late its queued tasks are.
func (m *ModeChange) reportPool(p *printer, c *control.PoolChange, dry bool) {
	change, would := "", ""
	if dry {
		change, would = "would change ", "would be "
	}
	if c.From == c.To {
		p.printf("%s: already in %s; %d running, %d queued\n", c.Pool, c.To, c.Running, c.Queued-c.Dropped)
	} else {
		p.printf("%s: %s%s → %s; %d running and %d queued %skept\n",
			c.Pool, change, c.From, c.To, c.Running, c.Queued-c.Dropped, would)
	}
	if c.Dropped > 0 {
		p.printf("%s: %d queued %srefused, because they could no longer meet their deadline\n", c.Pool, c.Dropped, would)
	}
	if c.To == admission.PassThrough || c.Overdue == 0 {
		return
	}
	p.printf("%s: %d of %d queued can no longer meet their deadline; "+
		"they are served anyway, and the queue takes %s to drain\n",
		c.Pool, c.Overdue, c.Queued-c.Dropped, format.Table.Seconds(c.DrainS))
	if m.Mode == api.ModeRestore && !m.DropOverdue {
		p.printf("%s: to refuse those: headgate restore --drop-overdue --pool %s%s\n",
			c.Pool, shellQuote(c.Pool), m.shellArgs())
	}
}

// undoCommands returns the commands that revert changes. One without --pool would
// affect pools that were not changed, so it is only shown when all of them were.
func (m *ModeChange) undoCommands(changes []control.PoolChange) []string {
	commands := []string{}
	same := m.Pool == ""
	for i := range changes {
		c := &changes[i]
		same = same && c.From != c.To && undoCommand(c) == undoCommand(&changes[0])
		if c.From != c.To {
			command := fmt.Sprintf("headgate %s --pool %s%s", undoCommand(c), shellQuote(c.Pool), m.shellArgs())
			commands = append(commands, command)
		}
	}
	if same && len(changes) > 0 {
		return []string{"headgate " + undoCommand(&changes[0]) + m.shellArgs()}
	}
	return commands
}

// undoCommand is the command that leads from a change's end to its beginning.
func undoCommand(c *control.PoolChange) string {
	switch {
	case c.From == admission.PassThrough:
		return "rollback"
	case c.From == admission.Observe && c.To != admission.PassThrough:
		return "observe"
	default:
		return "restore"
	}
}

// Pause pauses or resumes dispatch.
type Pause struct {
	Service
	Action       string // control.ActionPause or control.ActionResume
	Pool, Reason string
	For          string // pause only
	DryRun       bool
}

// Run pauses or resumes.
func (p *Pause) Run(ctx context.Context) (err error) {
	if err := checkPool(p.Pool); err != nil {
		return err
	}
	if p.Action == control.ActionPause {
		if d, err := api.ParseDuration(p.For); err != nil {
			return Usagef("--for %w", err)
		} else if d > control.MaxPause {
			return Usage(errors.New("--for must be at most 24h"))
		}
	}
	if p.Reason, err = reasonLine(p.Reason); err != nil {
		return err
	}
	t, err := p.target()
	if err != nil {
		return err
	}
	return p.callTarget(ctx, t, func(c *api.Client) error {
		request := api.ActionRequest{Pool: p.Pool, For: p.For, Reason: p.Reason, DryRun: p.DryRun}
		reply, err := c.DoAction(ctx, p.Action, request)
		switch {
		case isUnreachable(err):
			return err
		case err != nil:
			return fmt.Errorf("%s failed, nothing was changed: %w", p.Action, err)
		case p.JSON:
			return printJSON(p.Out, reply)
		}
		return p.report(reply)
	})
}

// report shows what was done and how to undo it. Reading back must confirm it.
func (p *Pause) report(r api.ActionReply) error {
	if !r.DryRun && !r.Recorded {
		p.messagef("warning: it is not recorded yet: a restart would lose it")
	}
	err := p.show(r, func(out *printer) {
		out.printf("%s\n", r.Message)
		if r.DryRun {
			out.printf("nothing was changed\n")
			return
		}
		for _, undo := range r.UndoCommands {
			out.printf("undo: %s%s\n", undo, p.shellArgs())
		}
	})
	if err == nil && !r.DryRun && !r.Verified {
		err = fmt.Errorf("it was done, but reading back found: %s", format.Printable(r.Observed))
	}
	return err
}
