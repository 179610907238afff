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
func transports(t *testing.T, o fakeslack.Options, test func(*testing.T, *lobby)) {
	t.Helper()
	t.Run("http", func(t *testing.T) { test(t, newLobby(t, o).overHTTP()) })
	t.Run("socket", func(t *testing.T) {
		l := newLobby(t, o)
		l.overSocket()
		test(t, l)
	})
}

func TestAPressComesToTheDesk(t *testing.T) {
	transports(t, fakeslack.Options{}, func(t *testing.T, l *lobby) {
		l.press(Rollback, "U0ADA")
		if said := l.told("U0ADA", 1); said != "Done by <@U0ADA>." {
			t.Errorf("told %q", said)
		}
		w := l.clerk.asked()[0]
		n := sample().Note
		if w.Action != Rollback || w.Incident != n.Incident.ID || w.Pool != "default" || w.Actor != "slack:U0ADA" ||
			w.Seen == nil || w.Seen.Seq != 1 || w.Seen.Mode != "enforce" || !w.Seen.Since.Equal(n.ModeSince) {
			t.Errorf("wish %+v, seen %+v", w, w.Seen)
		}
		e := l.clerk.noted()[0]
		if e.Forged || e.Action != Rollback || e.Ending != Done || e.Actor != "slack:U0ADA" || e.Incident != n.Incident.ID || e.Inputs["channel"] != "C1" {
			t.Errorf("entry %+v", e)
		}
	})
}

func TestACommandComesToTheDesk(t *testing.T) {
	transports(t, fakeslack.Options{}, func(t *testing.T, l *lobby) {
		l.typed("U0ADA", "/headgate rollback default it refuses &amp; nobody waits")
		if said := l.told("U0ADA", 1); said != "Done by <@U0ADA>." {
			t.Errorf("told %q", said)
		}
		w := l.clerk.asked()[0]
		if w.Action != Rollback || w.Pool != "default" || w.Seen != nil || w.Reason != "it refuses & nobody waits" {
			t.Errorf("wish %+v", w)
		}
		l.typed("U0BEN", "/headgate")
		if said := l.told("U0BEN", 1); said != strings.ReplaceAll(strings.ReplaceAll(Usage, "<", "&lt;"), ">", "&gt;") {
			t.Errorf("told %q", said)
		}
		l.typed("U0BEN", "/headgate explode")
		if said := l.told("U0BEN", 2); !strings.Contains(said, `"explode" is not known`) || !strings.Contains(said, "/headgate status") {
			t.Errorf("told %q", said)
		}
		if n := len(l.clerk.asked()); n != 1 {
			t.Errorf("%d wishes", n)
		}
	})
}

func TestWhoMayNotIsToldWhatToType(t *testing.T) {
	l := newLobby(t, fakeslack.Options{}).overHTTP()
	id := sample().Incident
	tests := []struct {
		name, user, want string
		do               func(user string)
	}{
		{"not in the list", "U0BEN", "slack.allow.rollback in the settings does not name you (U0BEN). At the machine the command is: headgate rollback --pool default",
			func(u string) { l.press(Rollback, u) }},
		{"in another list", "U0EVE", "headgate incident ack " + id, func(u string) { l.press(Ack, u) }},
		{"an empty list", "U0ADA", "nobody may do that from Slack: slack.allow.drill in the settings names no user. At the machine the command is: headgate drill run burst",
			func(u string) { l.typed(u, "/headgate drill run burst") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := len(l.clerk.noted())
			tt.do(tt.user)
			if said := l.told(tt.user, 1); !strings.HasPrefix(said, "Nothing was done: ") || !strings.Contains(said, tt.want) {
				t.Errorf("told %q, want %q", said, tt.want)
			}
			if e := l.clerk.noted()[before]; e.Ending != Refused || e.Actor != Actor(tt.user) {
				t.Errorf("entry %+v", e)
			}
		})
	}
	if asked := l.clerk.asked(); len(asked) != 0 {
		t.Errorf("the desk was asked: %+v", asked)
	}
	l.press(Runbook, "U0BEN") // changes nothing, and is for everybody
	l.told("U0BEN", 2)
}

func TestForeignPressesDoNothing(t *testing.T) {
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
	l := newLobby(t, fakeslack.Options{}).overHTTP()
	for k, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			i, err := l.slack.Interaction("C1", l.root.TS, actionPrefix+string(Rollback), "U0ADA")
			if err != nil {
				t.Fatal(err)
			}
			tt.change(&i)
			if _, err := l.slack.Deliver(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			if said := l.told("U0ADA", k+1); !strings.Contains(said, "Nothing was done: ") || !strings.Contains(said, tt.want) {
				t.Errorf("told %q", said)
			}
		})
	}
	if asked := l.clerk.asked(); len(asked) != 0 {
		t.Errorf("the desk was asked: %+v", asked)
	}
	if n := len(l.clerk.noted()); n != len(tests) {
		t.Errorf("%d entries, want %d", n, len(tests))
	}
}

// Whoever cannot be placed is not let in.
func TestAWorkspaceThatIsNotKnown(t *testing.T) {
	l := newLobby(t, fakeslack.Options{}).overHTTP()
	heal := l.slack.Inject(fakeslack.Fault{Method: "auth.test", Kind: fakeslack.Refuse, Error: "internal_error"})
	l.press(Rollback, "U0ADA")
	if said := l.told("U0ADA", 1); !strings.Contains(said, "cannot find out right now") || len(l.clerk.asked()) != 0 {
		t.Errorf("told %q", said)
	}
	heal()
	l.press(Rollback, "U0ADA")
	if said := l.told("U0ADA", 2); said != "Done by <@U0ADA>." {
		t.Errorf("told %q", said)
	}
}

// The same callback has one effect, however often it comes.
func TestSlackRepeatsACallback(t *testing.T) {
	t.Run("http, signed anew", func(t *testing.T) {
		l := newLobby(t, fakeslack.Options{}).overHTTP()
		i, err := l.slack.Interaction("C1", l.root.TS, actionPrefix+string(Rollback), "U0ADA")
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if _, err := l.slack.Deliver(t.Context(), i); err != nil {
				t.Fatal(err)
			}
			i.At = i.At.Add(2 * time.Second) // so that the body differs
		}
		l.once("repeated")
	})
	t.Run("http, byte for byte", func(t *testing.T) {
		l := newLobby(t, fakeslack.Options{}).overHTTP()
		l.slack.Inject(fakeslack.Fault{Method: string(fakeslack.Pressed), Kind: fakeslack.Twice})
		if r := l.press(Rollback, "U0ADA"); r.Answers != 2 {
			t.Errorf("receipt %+v", r)
		}
		l.once("replayed")
	})
	t.Run("socket", func(t *testing.T) {
		l := newLobby(t, fakeslack.Options{})
		l.overSocket()
		l.slack.Inject(fakeslack.Fault{Method: string(fakeslack.Pressed), Kind: fakeslack.Twice})
		if r := l.press(Rollback, "U0ADA"); r.Answers != 2 {
			t.Errorf("receipt %+v", r)
		}
		l.once("repeated")
	})
}

// once checks that one thing was done and something else turned away.
func (l *lobby) once(why string) {
	l.t.Helper()
	l.told("U0ADA", 1)
	l.within("turned away", func() bool { return l.turnedAway(why) == 1 && len(l.clerk.noted()) == 2 })
	if n := len(l.clerk.asked()); n != 1 {
		l.t.Errorf("done %d times", n)
	}
}

// Slack is answered at once, however long the work takes.
func TestSlowWorkIsAnsweredFirst(t *testing.T) {
	transports(t, fakeslack.Options{}, func(t *testing.T, l *lobby) {
		release := make(chan struct{})
		l.clerk.do = func(ctx context.Context, _ Wish) Answer {
			select {
			case <-release:
			case <-ctx.Done():
			}
			return Answer{Ending: Done, Text: "at last"}
		}
		r := l.press(Rollback, "U0ADA") // fails if it is not answered within three seconds
		if r.Answers != 1 || len(l.slack.Whispers("C1", "U0ADA")) != 0 {
			t.Errorf("receipt %+v", r)
		}
		close(release)
		if said := l.told("U0ADA", 1); said != "at last" {
			t.Errorf("told %q", said)
		}
	})
}

// What is too much is said to be, and nothing of it is lost in silence.
func TestTooManyAtOnce(t *testing.T) {
	l := newLobby(t, fakeslack.Options{})
	release := make(chan struct{})
	l.clerk.do = func(context.Context, Wish) Answer { <-release; return Answer{Ending: Done} }
	taken, busy := 0, 0
	for n := range workers + maxWaiting + 10 {
		c := callback{once: fmt.Sprint(n), team: "T0FAKE", user: "U0ADA", channel: "C1", text: "status"}
		switch err := l.reception.take(c); err {
		case nil:
			taken++
		case errBusy:
			busy++
		default:
			t.Fatal(err)
		}
	}
	if taken < maxWaiting || taken > workers+maxWaiting || busy != workers+maxWaiting+10-taken {
		t.Errorf("%d taken, %d not", taken, busy)
	}
	close(release)
	l.within("all are done", func() bool { return len(l.clerk.asked()) == taken })
	if err := l.reception.take(callback{once: "0", user: "U0ADA"}); err != nil || len(l.clerk.asked()) != taken {
		t.Errorf("one that was done: %v", err)
	}
	last := callback{once: fmt.Sprint(workers + maxWaiting + 9), team: "T0FAKE", user: "U0ADA", channel: "C1", text: "status"}
	if err := l.reception.take(last); err != nil {
		t.Errorf("one that was not: %v", err)
	}
	l.within("it is done then", func() bool { return len(l.clerk.asked()) == taken+1 })
}

func TestStopWorksOffWhatWasTaken(t *testing.T) {
	l := newLobby(t, fakeslack.Options{})
	begun, release := make(chan struct{}), make(chan struct{})
	var first sync.Once
	l.clerk.do = func(context.Context, Wish) Answer {
		first.Do(func() { close(begun) })
		<-release
		return Answer{Ending: Done}
	}
	for n := range 10 {
		if err := l.reception.take(callback{once: fmt.Sprint(n), team: "T0FAKE", user: "U0ADA", channel: "C1", text: "status"}); err != nil {
			t.Fatal(err)
		}
	}
	<-begun
	stopped := make(chan error, 1)
	go func() { stopped <- l.reception.Stop(t.Context()) }()
	more := 0
	l.within("it takes nothing more", func() bool {
		err := l.reception.take(callback{once: fmt.Sprintf("later %d", more), team: "T0FAKE", user: "U0ADA", channel: "C1", text: "status"})
		if err == nil {
			more++
		}
		return err == errGoingDown
	})
	close(release)
	if err := <-stopped; err != nil || len(l.clerk.asked()) != 10+more {
		t.Errorf("%v, %d done", err, len(l.clerk.asked()))
	}
}

func TestStopBreaksOffWhatHangs(t *testing.T) {
	l := newLobby(t, fakeslack.Options{})
	l.clerk.do = func(ctx context.Context, _ Wish) Answer { <-ctx.Done(); return Answer{Ending: Failed} }
	if err := l.reception.take(callback{once: "1", team: "T0FAKE", user: "U0ADA", channel: "C1", text: "status"}); err != nil {
		t.Fatal(err)
	}
	l.within("it hangs", func() bool { return len(l.clerk.asked()) == 1 })
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := l.reception.Stop(ctx); err == nil {
		t.Error("nothing is said of it")
	}
}

func TestAPanicIsToldAndNoted(t *testing.T) {
	l := newLobby(t, fakeslack.Options{}).overHTTP()
	l.clerk.do = func(context.Context, Wish) Answer { panic("boom") }
	l.press(Rollback, "U0ADA")
	if said := l.told("U0ADA", 1); !strings.Contains(said, "went wrong") {
		t.Errorf("told %q", said)
	}
	if e := l.clerk.noted()[0]; e.Ending != Failed || e.Action != Rollback {
		t.Errorf("entry %+v", e)
	}
}

// Refusals are kept, but nobody can fill the record with them.
func TestRefusalsAreRationed(t *testing.T) {
	now := time.Now()
	l := newLobby(t, fakeslack.Options{}, func(o *ReceptionOptions) { o.Now = func() time.Time { return now } })
	for range forgedEach + 5 {
		l.reception.turnAway("signature", "it is not signed", nil)
	}
	if n := len(l.clerk.noted()); n != forgedEach || l.turnedAway("signature") != forgedEach+5 {
		t.Errorf("%d entries, %v counted", n, l.turnedAway("signature"))
	}
	now = now.Add(time.Minute)
	l.reception.turnAway("signature", "it is not signed", nil)
	if e := l.clerk.noted()[forgedEach]; !strings.Contains(e.Reason, "(and 5 more before, not kept)") || !e.Forged {
		t.Errorf("entry %+v", e)
	}
}

func TestAnswersGoToSlackOnly(t *testing.T) {
	l := newLobby(t, fakeslack.Options{})
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
		if got := l.bot.answerable(to); got != want {
			t.Errorf("%s: %t", to, got)
		}
	}
}

// When the address for the answer does not work, the channel does.
func TestAnswersGoByTheChannelThen(t *testing.T) {
	l := newLobby(t, fakeslack.Options{}).overHTTP()
	l.slack.Inject(fakeslack.Fault{Method: "response_url", Kind: fakeslack.ServerError})
	l.press(Ack, "U0ADA")
	l.told("U0ADA", 1)
	if n := l.slack.Count("chat.postEphemeral"); n != 1 {
		t.Errorf("%d ephemeral posts", n)
	}
}
