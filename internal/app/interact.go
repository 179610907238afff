package app

import (
	"context"
	"fmt"
	"sync"
	"time"

	"headgate/alerts/slack"
	"headgate/internal/config"
	"headgate/runbooks/control"
)

// slackInteractions is the way in from Slack: one reception, and one or two ways to it.
type slackInteractions struct {
	handler   *slack.InteractionHandler
	socket    *slack.Socket  // nil without an app token
	listener  *slackListener // for requests; nil without an address
	refreshMu sync.Mutex     // held while a message of old is put right
}

// slackStopTimeout is how long a stop waits for presses that were taken, and for requests
// that come in: what comes after it, the record among it, needs its time too.
const slackStopTimeout = time.Second

// buttonsEnabled says whether presses can come back: only then messages have buttons.
func buttonsEnabled(c config.Slack) bool {
	return !c.BotToken.Empty() && (!c.AppToken.Empty() || c.Listen != "" && !c.SigningSecret.Empty())
}

// newInteractions makes the way in; nil if the settings have none. It opens nothing.
func (a *App) newInteractions(cfg *config.Config) (*slackInteractions, error) {
	s := cfg.Slack
	if a.withoutMonitoring || a.sandbox.speed > 0 || a.notifiers.bot == nil || !buttonsEnabled(s) {
		return nil, nil
	}
	log := a.log.With("component", "slack")
	var i slackInteractions
	var err error
	i.handler, err = slack.NewInteractionHandler(slack.InteractionOptions{
		Bot: a.notifiers.bot, Executor: slackExecutor{a, cfg.Admin.ExternalURL != ""}, Allow: allowLists(s.Allow), AppToken: s.AppToken.Reveal(), Registerer: a.registry, Log: log,
	})
	if err != nil {
		return nil, cfg.At("slack.allow", err)
	}
	if !s.AppToken.Empty() {
		i.socket, err = slack.NewSocket(slack.SocketOptions{
			AppToken: s.AppToken.Reveal(), APIURL: s.APIURL, Handler: i.handler, Registerer: a.registry, Log: log,
		})
		if err != nil {
			return nil, cfg.At("slack.app_token", err)
		}
	}
	if s.Listen != "" {
		requests, err := slack.NewRequestHandler(s.SigningSecret.Reveal(), i.handler, log)
		if err != nil {
			return nil, cfg.At("slack.signing_secret", err)
		}
		if i.listener, err = newSlackListener(requests, a.registry, log); err != nil {
			return nil, cfg.At("slack.listen", err)
		}
	}
	return &i, nil
}

func allowLists(c config.Allow) slack.AllowList {
	return slack.AllowList{
		slack.Rollback: c.Rollback, slack.Restore: c.Restore, slack.Drill: c.Drill, slack.Ack: c.Ack, slack.Silence: c.Silence,
	}
}

// checkInteractivity says what will come of presses, for who tries the settings.
func checkInteractivity(ctx context.Context, s config.Slack) []slack.Check {
	if !buttonsEnabled(s) {
		return nil
	}
	var checks []slack.Check
	if !s.AppToken.Empty() {
		checks = append(checks, slack.VerifySocket(ctx, s.AppToken.Reveal(), s.APIURL))
	}
	if s.Listen != "" {
		checks = append(checks, slack.Check{
			Name: "buttons: requests", OK: true, Detail: "are taken at " + s.Listen + "; whether Slack reaches that shows when somebody presses",
		})
	}
	for _, list := range []struct {
		action string
		users  []string
	}{
		{"roll back", s.Allow.Rollback}, {"restore", s.Allow.Restore}, {"run drills", s.Allow.Drill},
		{"acknowledge", s.Allow.Ack}, {"silence", s.Allow.Silence},
	} {
		detail := "nobody: the list is empty"
		if len(list.users) > 0 {
			detail = fmt.Sprintf("%d of slack.allow", len(list.users))
		}
		checks = append(checks, slack.Check{Name: "may " + list.action, OK: true, Detail: detail})
	}
	return checks
}

// startInteractions lets people in Slack in, once all is there that they can change.
// It ends before that does.
func (a *App) startInteractions(w *monitor) error {
	if a.interactions == nil {
		return nil
	}
	i := a.interactions
	i.handler.Start()
	w.onStop(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, slackStopTimeout)
		defer cancel()
		return i.handler.Stop(ctx)
	})
	if i.listener != nil {
		// Host names are not checked there: whoever stands in front has a name of its
		// own, and all that comes in is signed.
		if err := i.listener.listen(a.cfg.Slack.Listen); err != nil {
			return err
		}
		i.listener.start(w)
	}
	if i.socket != nil {
		w.runUntilStop(i.socket.Run)
	}
	return nil
}

// setAllow takes over who may do what.
func (i *slackInteractions) setAllow(c config.Allow) error {
	if i == nil {
		return nil
	}
	return i.handler.SetAllow(allowLists(c))
}

// SlackAddr returns the address at which Slack's requests are taken, empty if there
// is none; call it after Start.
func (a *App) SlackAddr() string {
	if a.interactions == nil || a.interactions.listener == nil {
		return ""
	}
	a.interactions.listener.mu.Lock()
	defer a.interactions.listener.mu.Unlock()
	return a.interactions.listener.address
}

// AppendAudit implements slack.Executor.
func (d slackExecutor) AppendAudit(_ context.Context, e slack.AuditEntry) {
	entry := control.AuditEntry{
		At: time.Now(), Kind: control.KindInteraction, Action: string(e.Action), Result: control.Result(e.Result), Pool: e.Pool,
		Subject: e.Incident, Actor: e.Actor, Via: control.ViaSlack, Reason: e.Reason, Inputs: e.Inputs,
	}
	if e.Forged {
		entry.Kind = control.KindAccess
	}
	if entry.Action == "" {
		entry.Action = "callback"
	}
	if entry.Actor == "" {
		entry.Actor = "unknown"
	}
	d.app.auditor.Append(entry)
}
