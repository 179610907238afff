package slack

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"headgate/internal/fakeslack"
)

// transports runs a test over both ways.
func transports(t *testing.T, o fakeslack.Options, test func(*testing.T, *interactionFixture)) {
	t.Helper()
	t.Run("http", func(t *testing.T) { test(t, newInteractionFixture(t, o).overHTTP()) })
	t.Run("socket", func(t *testing.T) {
		l := newInteractionFixture(t, o)
		l.overSocket()
		test(t, l)
	})
}

func TestButtonPress(t *testing.T) {
	transports(t, fakeslack.Options{}, func(t *testing.T, l *interactionFixture) {
		l.press(Rollback, "U0ADA")
		if said := l.wantEphemeral("U0ADA", 1); said != "Done by <@U0ADA>." {
			t.Errorf("shown %q", said)
		}
		w := l.executor.executed()[0]
		n := sampleDelivery().Notification
		if w.Action != Rollback || w.Incident != n.Incident.ID || w.Pool != "default" || w.Actor != "slack:U0ADA" ||
			w.Observed == nil || w.Observed.Seq != 1 || w.Observed.Mode != "enforce" || !w.Observed.ModeSince.Equal(n.ModeSince) {
			t.Errorf("command %+v, seen %+v", w, w.Observed)
		}
		e := l.executor.audited()[0]
		if e.Forged || e.Action != Rollback || e.Result != Done || e.Actor != "slack:U0ADA" || e.Incident != n.Incident.ID || e.Inputs["channel"] != "C1" {
			t.Errorf("entry %+v", e)
		}
	})
}

func TestSlashCommand(t *testing.T) {
	transports(t, fakeslack.Options{}, func(t *testing.T, l *interactionFixture) {
		l.command("U0ADA", "/headgate rollback default it refuses &amp; nobody waits")
		if said := l.wantEphemeral("U0ADA", 1); said != "Done by <@U0ADA>." {
			t.Errorf("shown %q", said)
		}
		w := l.executor.executed()[0]
		if w.Action != Rollback || w.Pool != "default" || w.Observed != nil || w.Reason != "it refuses & nobody waits" {
			t.Errorf("command %+v", w)
		}
		l.command("U0BEN", "/headgate")
		if said := l.wantEphemeral("U0BEN", 1); said != strings.ReplaceAll(strings.ReplaceAll(Usage, "<", "&lt;"), ">", "&gt;") {
			t.Errorf("shown %q", said)
		}
		l.command("U0BEN", "/headgate explode")
		if said := l.wantEphemeral("U0BEN", 2); !strings.Contains(said, `unknown command "explode"`) || !strings.Contains(said, "/headgate status") {
			t.Errorf("shown %q", said)
		}
		if n := len(l.executor.executed()); n != 1 {
			t.Errorf("%d commands", n)
		}
	})
}

func TestDenied(t *testing.T) {
	l := newInteractionFixture(t, fakeslack.Options{}).overHTTP()
	id := sampleDelivery().Incident
	tests := []struct {
		name, user, want string
		do               func(user string)
	}{
		{"not in the list", "U0BEN", "slack.allow.rollback in the settings does not list you (U0BEN). CLI equivalent: headgate rollback --pool default",
			func(u string) { l.press(Rollback, u) }},
		{"in another list", "U0EVE", "headgate incident ack " + id, func(u string) { l.press(Ack, u) }},
		{"an empty list", "U0ADA", "slack.allow.drill in the settings is empty. CLI equivalent: headgate drill run burst",
			func(u string) { l.command(u, "/headgate drill run burst") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := len(l.executor.audited())
			tt.do(tt.user)
			if said := l.wantEphemeral(tt.user, 1); !strings.HasPrefix(said, "Not executed: ") || !strings.Contains(said, tt.want) {
				t.Errorf("shown %q, want %q", said, tt.want)
			}
			if e := l.executor.audited()[before]; e.Result != Refused || e.Actor != Actor(tt.user) {
				t.Errorf("entry %+v", e)
			}
		})
	}
	if asked := l.executor.executed(); len(asked) != 0 {
		t.Errorf("executed: %+v", asked)
	}
	l.press(Runbook, "U0BEN") // changes nothing, and is for everybody
	l.wantEphemeral("U0BEN", 2)
}

func TestForeignCallbacksRefused(t *testing.T) {
	tests := []struct {
		name, want string
		change     func(*fakeslack.Interaction)
	}{
		{"another workspace", "another workspace", func(i *fakeslack.Interaction) { i.Team = "T0OTHER" }},
		{"a user of another workspace", "another workspace", func(i *fakeslack.Interaction) { i.User.Team = "T0OTHER" }},
		{"another app", "another app", func(i *fakeslack.Interaction) { i.App = "A0OTHER" }},
		{"another channel", "does not post in this channel", func(i *fakeslack.Interaction) { i.Channel = "C9" }},
		{"another button", "not one of this version's", func(i *fakeslack.Interaction) { i.Action.ID = "headgate_explode" }},
		{"another app's button", "not one of this version's", func(i *fakeslack.Interaction) { i.Action.ID = "rollback" }},
		{"another version", "not one of this version's", func(i *fakeslack.Interaction) { i.Action.Value = `{"v":2,"incident":"x"}` }},
		{"no value", "not one of this version's", func(i *fakeslack.Interaction) { i.Action.Value = "" }},
	}
	l := newInteractionFixture(t, fakeslack.Options{}).overHTTP()
	for k, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i, err := l.slack.PressInteraction("C1", l.root.TS, actionPrefix+string(Rollback), "U0ADA")
			if err != nil {
				t.Fatal(err)
			}
			tt.change(&i)
			if _, err := l.slack.Deliver(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			if said := l.wantEphemeral("U0ADA", k+1); !strings.Contains(said, "Not executed: ") || !strings.Contains(said, tt.want) {
				t.Errorf("shown %q", said)
			}
		})
	}
	if asked := l.executor.executed(); len(asked) != 0 {
		t.Errorf("executed: %+v", asked)
	}
	if n := len(l.executor.audited()); n != len(tests) {
		t.Errorf("%d entries, want %d", n, len(tests))
	}
}

// A user of an unknown workspace is rejected.
func TestUnknownWorkspace(t *testing.T) {
	l := newInteractionFixture(t, fakeslack.Options{}).overHTTP()
	heal := l.slack.Inject(fakeslack.Fault{Method: "auth.test", Kind: fakeslack.ErrorResponse, Error: "internal_error"})
	l.press(Rollback, "U0ADA")
	if said := l.wantEphemeral("U0ADA", 1); !strings.Contains(said, "cannot be verified") || len(l.executor.executed()) != 0 {
		t.Errorf("shown %q", said)
	}
	heal()
	l.press(Rollback, "U0ADA")
	if said := l.wantEphemeral("U0ADA", 2); said != "Done by <@U0ADA>." {
		t.Errorf("shown %q", said)
	}
}

// The same callback has one effect, however often it comes.
func TestRepeatedCallbacks(t *testing.T) {
	t.Run("http, signed anew", func(t *testing.T) {
		l := newInteractionFixture(t, fakeslack.Options{}).overHTTP()
		i, err := l.slack.PressInteraction("C1", l.root.TS, actionPrefix+string(Rollback), "U0ADA")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := l.slack.Deliver(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			i.At = i.At.Add(2 * time.Second) // so that the body differs
		}
		l.wantOneCommand("repeated")
	})
	t.Run("http, byte for byte", func(t *testing.T) {
		l := newInteractionFixture(t, fakeslack.Options{}).overHTTP()
		l.slack.Inject(fakeslack.Fault{Method: string(fakeslack.ButtonPress), Kind: fakeslack.Duplicated})
		if r := l.press(Rollback, "U0ADA"); r.Responses != 2 {
			t.Errorf("receipt %+v", r)
		}
		l.wantOneCommand("replayed")
	})
	t.Run("socket", func(t *testing.T) {
		l := newInteractionFixture(t, fakeslack.Options{})
		l.overSocket()
		l.slack.Inject(fakeslack.Fault{Method: string(fakeslack.ButtonPress), Kind: fakeslack.Duplicated})
		if r := l.press(Rollback, "U0ADA"); r.Responses != 2 {
			t.Errorf("receipt %+v", r)
		}
		l.wantOneCommand("repeated")
	})
}

// wantOneCommand checks that one command was executed and another rejected.
func (l *interactionFixture) wantOneCommand(why string) {
	l.t.Helper()
	l.wantEphemeral("U0ADA", 1)
	l.waitFor("rejected", func() bool { return l.rejected(why) == 1 && len(l.executor.audited()) == 2 })
	if n := len(l.executor.executed()); n != 1 {
		l.t.Errorf("done %d times", n)
	}
}

// Slack is answered at once, however long the work takes.
func TestSlowCommandIsAcknowledgedFirst(t *testing.T) {
	transports(t, fakeslack.Options{}, func(t *testing.T, l *interactionFixture) {
		release := make(chan struct{})
		l.executor.do = func(ctx context.Context, _ Command) Response {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return Response{Result: Done, Text: "at last"}
		}
		r := l.press(Rollback, "U0ADA") // fails if it is not answered within three seconds
		if r.Responses != 1 || len(l.slack.Ephemerals("C1", "U0ADA")) != 0 {
			t.Errorf("receipt %+v", r)
		}
		close(release)
		if said := l.wantEphemeral("U0ADA", 1); said != "at last" {
			t.Errorf("shown %q", said)
		}
	})
}

// What is too much is said to be, and nothing of it is lost in silence.
func TestQueueLimit(t *testing.T) {
	l := newInteractionFixture(t, fakeslack.Options{})
	release := make(chan struct{})
	l.executor.do = func(context.Context, Command) Response { <-release; return Response{Result: Done} }
	taken, busy := 0, 0
	for n := range workers + queueSize + 10 {
		c := callback{dedupKey: fmt.Sprint(n), team: "T0FAKE", user: "U0ADA", channel: "C1", commandText: "status"}
		switch err := l.interactions.enqueue(c); err {
		case nil:
			taken++
		case errBusy:
			busy++
		default:
			t.Fatal(err)
		}
	}
	if taken < queueSize || taken > workers+queueSize || busy != workers+queueSize+10-taken {
		t.Errorf("%d taken, %d not", taken, busy)
	}
	close(release)
	l.waitFor("all are done", func() bool { return len(l.executor.executed()) == taken })
	if err := l.interactions.enqueue(callback{dedupKey: "0", user: "U0ADA"}); err != nil || len(l.executor.executed()) != taken {
		t.Errorf("one that was done: %v", err)
	}
	last := callback{dedupKey: fmt.Sprint(workers + queueSize + 9), team: "T0FAKE", user: "U0ADA", channel: "C1", commandText: "status"}
	if err := l.interactions.enqueue(last); err != nil {
		t.Errorf("one that was not: %v", err)
	}
	l.waitFor("it is done then", func() bool { return len(l.executor.executed()) == taken+1 })
}

func TestStopFinishesQueue(t *testing.T) {
	l := newInteractionFixture(t, fakeslack.Options{})
	begun, release := make(chan struct{}), make(chan struct{})
	var first sync.Once
	l.executor.do = func(context.Context, Command) Response {
		first.Do(func() { close(begun) })
		<-release
		return Response{Result: Done}
	}
	for n := range 10 {
		if err := l.interactions.enqueue(callback{dedupKey: fmt.Sprint(n), team: "T0FAKE", user: "U0ADA", channel: "C1", commandText: "status"}); err != nil {
			t.Fatal(err)
		}
	}
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- l.interactions.Stop(t.Context()) }()
	more := 0
	l.waitFor("it takes nothing more", func() bool {
		err := l.interactions.enqueue(callback{dedupKey: fmt.Sprintf("later %d", more), team: "T0FAKE", user: "U0ADA", channel: "C1", commandText: "status"})
		if err == nil {
			more++
		}
		return err == errShuttingDown
	})
	close(release)
	if err := <-stopped; err != nil || len(l.executor.executed()) != 10+more {
		t.Errorf("%v, %d done", err, len(l.executor.executed()))
	}
}

func TestStopAbortsHangingCommand(t *testing.T) {
	l := newInteractionFixture(t, fakeslack.Options{})
	l.executor.do = func(ctx context.Context, _ Command) Response { <-ctx.Done(); return Response{Result: Failed} }
	if err := l.interactions.enqueue(callback{dedupKey: "1", team: "T0FAKE", user: "U0ADA", channel: "C1", commandText: "status"}); err != nil {
		t.Fatal(err)
	}
	l.waitFor("it hangs", func() bool { return len(l.executor.executed()) == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.interactions.Stop(ctx); err == nil {
		t.Error("nothing is said of it")
	}
}

func TestExecutorPanic(t *testing.T) {
	l := newInteractionFixture(t, fakeslack.Options{}).overHTTP()
	l.executor.do = func(context.Context, Command) Response { panic("boom") }
	l.press(Rollback, "U0ADA")
	if said := l.wantEphemeral("U0ADA", 1); !strings.Contains(said, "went wrong") {
		t.Errorf("shown %q", said)
	}
	if e := l.executor.audited()[0]; e.Result != Failed || e.Action != Rollback {
		t.Errorf("entry %+v", e)
	}
}

// Rejections are audited at a limited rate, so that they cannot fill the database.
func TestAuditRateLimit(t *testing.T) {
	now := time.Now()
	l := newInteractionFixture(t, fakeslack.Options{}, func(o *InteractionOptions) { o.Now = func() time.Time { return now } })
	for range forgedPerMinute + 5 {
		l.interactions.reject("signature", "it is not signed", nil)
	}
	if n := len(l.executor.audited()); n != forgedPerMinute || l.rejected("signature") != forgedPerMinute+5 {
		t.Errorf("%d entries, %v counted", n, l.rejected("signature"))
	}
	now = now.Add(time.Minute)
	l.interactions.reject("signature", "it is not signed", nil)
	if e := l.executor.audited()[forgedPerMinute]; !strings.Contains(e.Reason, "(and 5 more before, not kept)") || !e.Forged {
		t.Errorf("entry %+v", e)
	}
}

func TestTrustedResponseURLs(t *testing.T) {
	l := newInteractionFixture(t, fakeslack.Options{})
	for to, want := range map[string]bool{
		"https://hooks.slack.com/actions/T1/1/x":       true,
		"https://hooks.slack.com:443/actions/T1/1/x":   true,
		l.srv.URL + "/actions/T1/1/x":                  true,
		"http://hooks.slack.com/actions/T1/1/x":        false,
		"https://hooks.slack.com.example.com/x":        false,
		"https://hooks.slack.com@169.254.169.254/x":    false,
		"https://user:pass@hooks.slack.com/x":          false,
		"https://hooks.slack.com:8443/x":               false,
		"http://169.254.169.254/latest/meta-data":      false,
		"http://127.0.0.1:1/x":                         false,
		"//hooks.slack.com/x":                          false,
		"file:///etc/passwd":                           false,
		"https:hooks.slack.com":                        false,
		"":                                             false,
		strings.Replace(l.srv.URL, "http", "https", 1): false,
	} {
		if got := l.bot.trustsResponseURL(to); got != want {
			t.Errorf("%s: %t", to, got)
		}
	}
}

// When the address for the answer does not work, the channel does.
func TestResponseFallsBackToChannel(t *testing.T) {
	l := newInteractionFixture(t, fakeslack.Options{}).overHTTP()
	l.slack.Inject(fakeslack.Fault{Method: "response_url", Kind: fakeslack.ServerError})
	l.press(Ack, "U0ADA")
	l.wantEphemeral("U0ADA", 1)
	if n := l.slack.Count("chat.postEphemeral"); n != 1 {
		t.Errorf("%d ephemeral posts", n)
	}
}
