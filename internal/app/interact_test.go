package app

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"

	"headgate/internal/config"
	"headgate/internal/fakeslack"
	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

const opsChannel = "C0123456789"

// slackFixture is an App with an incident message in Slack, with buttons.
type slackFixture struct {
	*fixture
	slack  *fakeslack.Server
	answer <-chan response // of the task that keeps a worker busy

	repeatedPresses int // made again
}

// useSocketMode allow ada and eve all, and ben nothing.
func useSocketMode(c *config.Config) {
	all := []string{"U0ADA", "U0EVE"}
	c.Slack.AppToken = config.NewSecret("xapp-1-A0FAKE-1-secret")
	c.Slack.Allow = config.Allow{Rollback: all, Restore: all, Drill: all, Ack: all, Silence: all}
}

func newSlackFixture(t *testing.T, edit func(*config.Config)) *slackFixture {
	return newScaledSlackFixture(t, 20, edit)
}

func newScaledSlackFixture(t *testing.T, pace float64, edit func(*config.Config)) *slackFixture {
	t.Helper()
	t.Parallel() // the most of it is waiting for Slack's limits on how often one may post
	slack, url := newFakeSlack(t)
	t.Cleanup(slack.Close)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(queueAgeRules), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &slackFixture{slack: slack}
	p.fixture = newFixture(t, func(c *config.Config) {
		useFakeSlack(url)(c)
		c.Rules.File = file
		edit(c)
	}, TimeScale(pace))
	if addr := p.app.SlackAddr(); addr != "" {
		slack.SetCallbacks(fakeslack.Callbacks{
			Interactivity: "http://" + addr + "/slack/interactivity", Commands: "http://" + addr + "/slack/commands", Secret: "signing",
		})
	} else {
		p.eventually("a socket", p.app.interactions.Connected)
	}
	p.answer = p.sendChat()
	p.eventually("the message is there", func() bool { return len(slack.Roots(opsChannel)) == 1 })
	return p
}

func (p *slackFixture) incidentMessage() fakeslack.Message { return p.slack.Roots(opsChannel)[0] }

// hasButton says whether the message has a button now.
func (p *slackFixture) hasButton(action string) bool {
	_, err := p.slack.PressInteraction(opsChannel, p.incidentMessage().TS, "headgate_"+action, "U0ADA")
	return err == nil
}

func (p *slackFixture) interaction(action, user string) fakeslack.Interaction {
	p.Helper()
	i, err := p.slack.PressInteraction(opsChannel, p.incidentMessage().TS, "headgate_"+action, user)
	if err != nil {
		p.Fatalf("%s: %v", action, err)
	}
	return i
}

// deliver delivers a press, and returns the ephemeral response to its user.
func (p *slackFixture) deliver(i fakeslack.Interaction) string {
	p.Helper()
	return p.ephemeralReply(i.User.ID, func() error { _, err := p.slack.Deliver(p.Context(), i); return err })
}

func (p *slackFixture) command(user, line string) string {
	p.Helper()
	return p.ephemeralReply(user, func() error { _, err := p.slack.Command(p.Context(), opsChannel, user, line); return err })
}

func (p *slackFixture) ephemeralReply(user string, do func() error) string {
	p.Helper()
	before := len(p.slack.Ephemerals(opsChannel, user))
	if err := do(); err != nil {
		p.Fatal(err)
	}
	p.eventually(user+" gets a response", func() bool { return len(p.slack.Ephemerals(opsChannel, user)) > before })
	return p.slack.Ephemerals(opsChannel, user)[before].Text
}

func (p *slackFixture) mode() admission.Mode {
	s, _ := p.app.record.modes.State("default")
	return s.Mode
}

// waitThreadReply waits for a line in the incident's thread.
func (p *slackFixture) waitThreadReply(text string) {
	p.Helper()
	p.eventually("the thread says "+text, func() bool {
		return slices.ContainsFunc(p.slack.Replies(opsChannel, p.incidentMessage().TS), func(m fakeslack.Message) bool { return strings.Contains(m.Text, text) })
	})
}

func assertContains(t *testing.T, what, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%s: %q, want %q in it", what, got, w)
		}
	}
}

// TestRollBackAndRestoreBySlack goes all the way, over both transports: a press
// changes the mode, the message changes with it, and the thread says who did it.
func TestRollBackAndRestoreBySlack(t *testing.T) {
	for name, edit := range map[string]func(*config.Config){
		"socket": useSocketMode,
		"requests": func(c *config.Config) {
			useSocketMode(c)
			c.Slack.AppToken, c.Slack.SigningSecret, c.Slack.Listen = config.Secret{}, config.NewSecret("signing"), "127.0.0.1:0"
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newSlackFixture(t, edit)
			rollback := p.interaction("rollback", "U0ADA")
			assertContains(t, "pressed", p.deliver(rollback), "Pool default: from enforce to passthrough. 1 running and 0 waiting")
			if p.mode() != admission.PassThrough {
				t.Fatalf("mode %s", p.mode())
			}
			p.eventually("Restore is there instead", func() bool { return p.hasButton("restore") && !p.hasButton("rollback") })
			p.waitThreadReply("Mode passthrough, set by <@U0ADA>")

			assertContains(t, "pressed on a message of before", p.deliver(p.repeatInteraction(rollback)), "Not executed", "pool default has been in passthrough since", "set by <@U0ADA>")
			assertContains(t, "restored", p.deliver(p.interaction("restore", "U0EVE")), "from passthrough to enforce")
			p.eventually("Roll back is there again", func() bool { return p.hasButton("rollback") && !p.hasButton("restore") })
			p.waitThreadReply("Mode enforce, set by <@U0EVE>")

			// The pool is in the mode of the first message again, but not since then.
			assertContains(t, "a replay after the restore", p.deliver(p.repeatInteraction(rollback)), "Not executed", "pool default has been in enforce since", "set by <@U0EVE>")
			if p.mode() != admission.Enforce {
				t.Errorf("mode %s", p.mode())
			}
			close(p.upstream.release)
			<-p.answer
		})
	}
}

// repeatInteraction is the same press, as if it were made once more.
func (p *slackFixture) repeatInteraction(i fakeslack.Interaction) fakeslack.Interaction {
	p.repeatedPresses++
	i.TriggerID = fmt.Sprintf("again.%d", p.repeatedPresses)
	return i
}

// TestRestoreAfterIncidentClosed: the trouble is often over long before the gate is put
// back. The message of then is where one looks for the button, and follows.
func TestRestoreAfterIncidentClosed(t *testing.T) {
	p := newScaledSlackFixture(t, 400, useSocketMode)
	p.deliver(p.interaction("rollback", "U0ADA"))
	p.waitThreadReply("Mode passthrough, set by <@U0ADA>")
	close(p.upstream.release)
	<-p.answer
	p.eventually("it is over, and the engine has let go of it", func() bool { return len(p.app.monitor.engine.Incidents()) == 0 })
	p.eventually("the message is updated", func() bool {
		return strings.HasPrefix(p.incidentMessage().Text, "RESOLVED") && p.hasButton("restore") && !p.hasButton("rollback")
	})
	restore, late := p.interaction("restore", "U0ADA"), p.interaction("restore", "U0EVE")
	assertContains(t, "restored", p.deliver(restore), "from passthrough to enforce")
	p.waitThreadReply("Mode enforce, set by <@U0ADA>")
	p.eventually("no button is left", func() bool { return !p.hasButton("restore") && !p.hasButton("rollback") })
	replies := len(p.slack.Replies(opsChannel, p.incidentMessage().TS))
	assertContains(t, "who was later", p.deliver(late), "pool default has been in enforce since", "set by <@U0ADA>")
	p.command("U0BEN", "/headgate status") // so that something that came of it would have come
	if n := len(p.slack.Replies(opsChannel, p.incidentMessage().TS)); n != replies {
		t.Errorf("%d replies more", n-replies)
	}
}

// TestConcurrentButtonPresses makes one change, and names its user to the second one.
func TestConcurrentButtonPresses(t *testing.T) {
	p := newSlackFixture(t, useSocketMode)
	presses := []fakeslack.Interaction{p.interaction("rollback", "U0ADA"), p.interaction("rollback", "U0EVE")}
	said := make([]string, len(presses))
	var both sync.WaitGroup
	for n, i := range presses {
		both.Go(func() {
			if _, err := p.slack.Deliver(p.Context(), i); err != nil {
				t.Error(err)
			}
			p.eventually("a response", func() bool { return len(p.slack.Ephemerals(opsChannel, i.User.ID)) == 1 })
			said[n] = p.slack.Ephemerals(opsChannel, i.User.ID)[0].Text
		})
	}
	both.Wait()
	won := 0
	if strings.HasPrefix(said[1], "Pool default: from enforce") {
		won = 1
	}
	assertContains(t, "the first", said[won], "Pool default: from enforce to passthrough")
	assertContains(t, "the second", said[1-won], "Not executed", "in passthrough since", "set by <@"+presses[won].User.ID+">")
	changes, err := p.app.record.store.Audit(t.Context(), control.AuditQuery{Pool: "default", Kind: control.KindMode})
	if err != nil {
		t.Fatal(err)
	}
	if n := slices.IndexFunc(changes.Items, func(r control.AuditRecord) bool { return r.Change.Via == control.ViaSlack }); n < 0 || len(changes.Items) != 2 {
		t.Errorf("changes %+v", changes)
	}
	close(p.upstream.release)
	<-p.answer
}

func TestAckAndSilenceBySlack(t *testing.T) {
	p := newSlackFixture(t, useSocketMode)
	ack, eves, bens := p.interaction("ack", "U0ADA"), p.interaction("ack", "U0EVE"), p.interaction("ack", "U0BEN")
	assertContains(t, "acknowledged", p.deliver(ack), "You have acknowledged it until")
	p.eventually("the button is gone", func() bool { return !p.hasButton("ack") })
	p.waitThreadReply("Acknowledged by <@U0ADA>")
	assertContains(t, "once more", p.deliver(p.repeatInteraction(ack)), "Not executed: you have already acknowledged it, since ")
	assertContains(t, "by another", p.deliver(eves), "Not executed: <@U0ADA> has already acknowledged it, since ")
	assertContains(t, "by a user without permission", p.deliver(bens), "slack.allow.ack in the settings does not list you (U0BEN)", "headgate incident ack ")

	silence := p.interaction("silence", "U0ADA")
	assertContains(t, "silenced", p.deliver(silence), "busy is silenced until")
	p.waitThreadReply("Silenced by <@U0ADA>: until")
	_, err := p.app.record.control.Silence(t.Context(), control.Actor{Name: "ben", Via: control.ViaAPI}, control.SilenceOptions{Rule: "busy", For: 2 * time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	p.waitThreadReply("Silenced by ben: until") // the reply has the other spans as well
	assertContains(t, "silenced once more", p.deliver(p.repeatInteraction(silence)), "<@U0ADA> has already silenced busy")
	if all := p.app.monitor.engine.Silences(); len(all) != 2 || all[0].Pool != "default" || all[0].By != "slack:U0ADA" {
		t.Errorf("silences %+v", all)
	}
	assertContains(t, "the runbook", p.deliver(p.interaction("runbook", "U0BEN")), "Runbook queue_age: headgate incident show "+p.incidentID())
	close(p.upstream.release)
	<-p.answer
}

const escalatingRules = `rules:
  - name: busy
    signal: headgate_in_flight{pool="$pool"}
    unit: tasks
    warn: {at: 1, for: 5s}
    page: {at: 2, for: 5s}
    clear: {below: 1, for: 5s}
    summary: tasks are in flight
    impact: answers take a while
    runbook: queue_age
`

// TestAckRefusedAfterEscalation: who acknowledged a warning has not seen the page that it
// became before the press arrived, and would silence its reminders.
func TestAckRefusedAfterEscalation(t *testing.T) {
	rules := withRulesFile(t, escalatingRules)
	p := newSlackFixture(t, func(c *config.Config) {
		useSocketMode(c)
		rules(c)
		c.Pools[0].Workers = 2
	})
	ack := p.interaction("ack", "U0ADA")
	second := p.sendChat()
	p.waitThreadReply("page")
	assertContains(t, "acknowledged too late", p.deliver(ack), "Not executed: it has escalated since that message, and is a page now")
	p.eventually("the message has a button of now", func() bool {
		return p.hasButton("ack") && p.interaction("ack", "U0ADA").Action.Value != ack.Action.Value
	})
	assertContains(t, "acknowledged", p.deliver(p.interaction("ack", "U0ADA")), "You have acknowledged it until")
	close(p.upstream.release)
	<-p.answer
	<-second
}

func (p *slackFixture) incidentID() string { return p.app.monitor.engine.Incidents()[0].ID }

func TestCommandsBySlack(t *testing.T) {
	p := newSlackFixture(t, useSocketMode)
	assertContains(t, "status", p.command("U0BEN", "/headgate status"), "Pool default: enforce since", "1 of 1 in flight, 0 waiting", "Open, warn: busy (default), "+p.incidentID())
	assertContains(t, "rolled back", p.command("U0ADA", "/headgate rollback default it refuses <too> much"), "from enforce to passthrough")
	p.waitThreadReply("Mode passthrough, set by <@U0ADA>: it refuses &lt;too&gt; much")
	assertContains(t, "restored", p.command("U0ADA", "/headgate restore all"), "from passthrough to enforce")
	assertContains(t, "a rule that is not", p.command("U0ADA", "/headgate silence bsuy 1h"), "no such rule; there are busy")
	assertContains(t, "silenced", p.command("U0ADA", "/headgate silence busy 30m load test"), "busy is silenced until")
	p.waitThreadReply("load test")
	assertContains(t, "a drill", p.command("U0ADA", "/headgate drill run burst"), "Not executed")
	assertContains(t, "help", p.command("U0BEN", "/headgate what"), `unknown command "what"`, "/headgate status")
	close(p.upstream.release)
	<-p.answer
}

// auditEntries are those of presses, newest first.
func (p *slackFixture) auditEntries() []control.AuditEntry {
	p.Helper()
	a, err := p.app.record.store.Audit(p.Context(), control.AuditQuery{})
	if err != nil {
		p.Fatal(err)
	}
	return slices.DeleteFunc(entriesOf(a), func(e control.AuditEntry) bool { return e.Kind != control.KindInteraction })
}

// TestEveryPressIsAudited looks into the record.
func TestEveryPressIsAudited(t *testing.T) {
	p := newSlackFixture(t, useSocketMode)
	p.command("U0ADA", "/headgate rollback default")
	p.command("U0BEN", "/headgate restore default")
	p.eventually("both are recorded", func() bool {
		items := p.auditEntries()
		return len(items) == 2 && items[1].Action == "rollback" && items[1].Result == control.Done && items[1].Actor == "slack:U0ADA" &&
			items[0].Action == "restore" && items[0].Result == control.Refused && items[0].Actor == "slack:U0BEN" && items[0].Via == control.ViaSlack
	})
	close(p.upstream.release)
	<-p.answer
}

// What people type is kept as far as it fits, and holds up nothing.
func TestMalformedCommandsAudited(t *testing.T) {
	p := newSlackFixture(t, useSocketMode)
	lines := []string{
		"rollback " + strings.Repeat("p", 1900), "restore default " + strings.Repeat("ü", 900), "ack " + strings.Repeat("\x01", 100),
		"silence a\x00b 1h \u202e", "drill run <script>", "ack ' OR 1=1 --", "silence " + strings.Repeat("🔥", 400) + " 1h",
	}
	for _, line := range lines {
		p.command("U0ADA", "/headgate "+line)
	}
	p.command("U0ADA", "/headgate rollback default")
	p.eventually("all are recorded", func() bool { return len(p.auditEntries()) == len(lines)+1 })
	if e := p.auditEntries()[0]; e.Action != "rollback" || e.Result != control.Done || e.Pool != "default" {
		t.Errorf("the latest entry is %+v", e)
	}
	close(p.upstream.release)
	<-p.answer
}

// TestNoButtonsWithoutInteractivity: a button that does nothing would be a lie.
func TestNoButtonsWithoutInteractivity(t *testing.T) {
	slack, url := newFakeSlack(t)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(queueAgeRules), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newFixture(t, func(c *config.Config) {
		useFakeSlack(url)(c)
		c.Rules.File = file
	}, TimeScale(20))
	answer := r.sendChat()
	r.eventually("the message is there", func() bool { return len(slack.Roots(opsChannel)) == 1 })
	for _, action := range []string{"ack", "silence", "runbook", "rollback"} {
		if _, err := slack.PressInteraction(opsChannel, slack.Roots(opsChannel)[0].TS, "headgate_"+action, "U0ADA"); !errors.Is(err, fakeslack.ErrNoButton) {
			t.Errorf("%s: %v", action, err)
		}
	}
	close(r.upstream.release)
	<-answer
}

// Who is on call changes more often than one would restart.
func TestReloadUpdatesSlackAllow(t *testing.T) {
	p := newSlackFixture(t, useSocketMode)
	press := p.interaction("rollback", "U0BEN")
	assertContains(t, "before", p.deliver(press), "slack.allow.rollback in the settings does not list you")
	if err := p.app.Reload(p.fixture.editedConfig(func(c *config.Config) { c.Slack.Allow.Rollback = []string{"U0BEN"} })); err != nil {
		t.Fatal(err)
	}
	assertContains(t, "of those before", p.deliver(p.interaction("rollback", "U0ADA")), "does not list you (U0ADA)")
	assertContains(t, "after", p.deliver(p.repeatInteraction(press)), "from enforce to passthrough")
	err := p.app.Reload(p.fixture.editedConfig(func(c *config.Config) { c.Slack.AppToken = config.NewSecret("xapp-other") }))
	if err == nil || !strings.Contains(err.Error(), "restart instead") {
		t.Errorf("another app: %v", err)
	}
	close(p.upstream.release)
	<-p.answer
}

// TestAlertsTestChecksInteractivity: the command says whether presses come back,
// and who may do what.
func TestAlertsTestChecksInteractivity(t *testing.T) {
	slack, url := newFakeSlack(t)
	t.Cleanup(slack.Close)
	cfg := config.Default()
	useFakeSlack(url)(cfg)
	useSocketMode(cfg)
	cfg.Slack.Allow.Restore = nil
	cfg.Slack.SigningSecret, cfg.Slack.Listen = config.NewSecret("signing"), "127.0.0.1:0"
	checks, err := TestAlerts(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string]string{}
	for _, c := range checks {
		if said[c.Name] = c.Detail; !c.OK {
			t.Errorf("%+v", c)
		}
	}
	assertContains(t, "the socket", said["buttons: socket"], "accepts connections of the app")
	assertContains(t, "requests", said["buttons: requests"], "accepted at 127.0.0.1:0")
	assertContains(t, "rollback", said["may roll back"], "2 of slack.allow")
	assertContains(t, "restore", said["may restore"], "nobody")
}

// The settings on the page for Slack are taken, and give buttons.
func TestSettingsOnThePageForSlack(t *testing.T) {
	page, err := os.ReadFile("../../docs/slack.md")
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"SLACK_BOT_TOKEN": "xoxb-1", "SLACK_APP_TOKEN": "xapp-1", "SLACK_SIGNING_SECRET": "s"}
	for _, way := range []string{"socket", "requests"} {
		_, rest, _ := strings.Cut(string(page), "<!-- settings "+way+" -->\n```yaml\n")
		text, _, ended := strings.Cut(rest, "```\n")
		cfg, err := config.Parse("slack.md", []byte(text), func(name string) (string, bool) { v, ok := env[name]; return v, ok })
		if err != nil || !ended {
			t.Fatalf("%s: %v", way, err)
		}
		a, err := New(cfg, "test", slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatalf("%s: %v", way, err)
		}
		families, err := a.metrics.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for name, want := range map[string]bool{"headgate_slack_socket_connected": way == "socket", "headgate_slack_listening": way == "requests"} {
			got := slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == name })
			if got != want {
				t.Errorf("%s: has the metric %s: %t", way, name, got)
			}
		}
	}
}
