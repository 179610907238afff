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

// interaction is the way in from Slack: one reception, and one or two ways to it.
type interaction struct {
	reception *slack.Reception
	socket    *slack.Socket  // nil without an app token
	listener  *slackListener // for requests; nil without an address
	fresh     sync.Mutex     // held while a message of old is put right
}

// pressTime is how long a stop waits for presses that were taken, and for requests
// that come in: what comes after it, the record among it, needs its time too.
const pressTime = time.Second

// interactive says whether presses can come back: only then messages have buttons.
func interactive(c config.Slack) bool {
	return !c.BotToken.Empty() && (!c.AppToken.Empty() || c.Listen != "" && !c.SigningSecret.Empty())
}

// newInteraction makes the way in; nil if the settings have none. It opens nothing.
func (a *App) newInteraction(cfg *config.Config) (*interaction, error) {
	s := cfg.Slack
	if a.unwatched || a.double != nil || a.telling.bot == nil || !interactive(s) {
		return nil, nil
	}
	log := a.log.With("component", "slack")
	var i interaction
	var err error
	i.reception, err = slack.NewReception(slack.ReceptionOptions{
		Bot: a.telling.bot, Desk: slackDesk{a, cfg.Admin.ExternalURL != ""}, Allow: allow(s.Allow), AppToken: s.AppToken.Reveal(), Registerer: a.registry, Log: log,
	})
	if err != nil {
		return nil, cfg.At("slack.allow", err)
	}
	if !s.AppToken.Empty() {
		i.socket, err = slack.NewSocket(slack.SocketOptions{
			AppToken: s.AppToken.Reveal(), APIURL: s.APIURL, Reception: i.reception, Registerer: a.registry, Log: log,
		})
		if err != nil {
			return nil, cfg.At("slack.app_token", err)
		}
	}
	if s.Listen != "" {
		requests, err := slack.NewRequests(s.SigningSecret.Reveal(), i.reception, log)
		if err != nil {
			return nil, cfg.At("slack.signing_secret", err)
		}
		if i.listener, err = newSlackListener(requests, a.registry, log); err != nil {
			return nil, cfg.At("slack.listen", err)
		}
	}
	return &i, nil
}

func allow(c config.Allow) slack.Allow {
	return slack.Allow{
		slack.Rollback: c.Rollback, slack.Restore: c.Restore, slack.Drill: c.Drill, slack.Ack: c.Ack, slack.Silence: c.Silence,
	}
}

// buttons says what will come of presses, for who tries the settings.
func buttons(ctx context.Context, s config.Slack) []slack.Check {
	if !interactive(s) {
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

// startInteraction lets people in Slack in, once all is there that they can change.
// It ends before that does.
func (a *App) startInteraction(w *watch) error {
	if a.interact == nil {
		return nil
	}
	i := a.interact
	i.reception.Start()
	w.onStop(func(ctx context.Context) error {
		ctx, cancel := context.WithTimeout(ctx, pressTime)
		defer cancel()
		return i.reception.Stop(ctx)
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
		w.run(i.socket.Run)
	}
	return nil
}

// reallow takes over who may do what.
func (i *interaction) reallow(c config.Allow) error {
	if i == nil {
		return nil
	}
	return i.reception.SetAllow(allow(c))
}

// SlackAddr returns the address at which Slack's requests are taken, empty if there
// is none; call it after Start.
func (a *App) SlackAddr() string {
	if a.interact == nil || a.interact.listener == nil {
		return ""
	}
	a.interact.listener.mu.Lock()
	defer a.interact.listener.mu.Unlock()
	return a.interact.listener.address
}

// Note implements slack.Desk.
func (d slackDesk) Note(_ context.Context, e slack.Entry) {
	entry := control.Entry{
		At: time.Now(), Kind: control.KindPress, Action: string(e.Action), Ending: control.Ending(e.Ending), Pool: e.Pool,
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
	d.a.auditor.Note(entry)
}
