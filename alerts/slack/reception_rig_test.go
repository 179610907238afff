package slack

import (
	"context"
	"io"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"headgate/alerts"
	"headgate/internal/fakeslack"
)

const (
	signing  = "signing-secret"
	appToken = "xapp-1-A0FAKE-1-secret"
)

// clerk is a Desk under a test's control.
type clerk struct {
	mu      sync.Mutex
	wishes  []Wish
	entries []Entry
	do      func(context.Context, Wish) Answer
	changed chan struct{}
}

func (c *clerk) Do(ctx context.Context, w Wish) Answer {
	c.mu.Lock()
	c.wishes = append(c.wishes, w)
	do := c.do
	c.mu.Unlock()
	if do == nil {
		return Answer{Ending: Done, Text: "Done by " + w.Actor + "."}
	}
	return do(ctx, w)
}

func (c *clerk) Note(_ context.Context, e Entry) {
	c.mu.Lock()
	c.entries = append(c.entries, e)
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

func (c *clerk) asked() []Wish {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.wishes)
}

func (c *clerk) noted() []Entry {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.entries)
}

// lobby is a Slack with a bot whose messages have buttons, and a reception.
type lobby struct {
	*world
	t         *testing.T
	clerk     *clerk
	reception *Reception
	reg       *prometheus.Registry
	log       *strings.Builder
	logs      *slog.Logger
	root      alerts.Ref
}

// everybody allows ada all of it, and ben nothing.
func everybody() Allow {
	return Allow{Rollback: {"U0ADA", "U0EVE"}, Restore: {"U0ADA"}, Ack: {"U0ADA"}, Silence: {"U0ADA"}}
}

func newLobby(t *testing.T, o fakeslack.Options, edit ...func(*ReceptionOptions)) *lobby {
	t.Helper()
	l := &lobby{
		world: newWorld(t, o), t: t, clerk: &clerk{changed: make(chan struct{}, 1)}, reg: prometheus.NewRegistry(), log: &strings.Builder{},
	}
	t.Cleanup(l.slack.Close)
	var err error
	l.bot, err = New(Options{
		Token: token, APIURL: l.srv.URL + "/api/", Timeout: 2 * time.Second, Buttons: true,
		Channels: map[alerts.Destination]string{alerts.ToPage: "C1"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.bot.Close)
	l.logs = slog.New(slog.NewTextHandler(&locked{w: l.log}, nil))
	ro := ReceptionOptions{Bot: l.bot, Desk: l.clerk, Allow: everybody(), AppToken: appToken, Registerer: l.reg, Log: l.logs}
	for _, f := range edit {
		f(&ro)
	}
	if l.reception, err = NewReception(ro); err != nil {
		t.Fatal(err)
	}
	l.reception.Start()
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := l.reception.Stop(ctx); err != nil {
			t.Error(err)
		}
		clean(t, "the log", l.log.String())
		for _, secret := range []string{signing, appToken} {
			if strings.Contains(l.log.String(), secret) {
				t.Errorf("the log shows %s", secret)
			}
		}
	})
	l.root = arrive(t, l.bot.Send(t.Context(), tried(counted), alerts.Ref{}, false))
	return l
}

// locked is a log for several goroutines.
type locked struct {
	mu sync.Mutex
	w  io.Writer
}

func (l *locked) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// overHTTP has Slack send what people do to a listener.
func (l *lobby) overHTTP() *lobby {
	l.t.Helper()
	q, err := NewRequests(signing, l.reception, l.logs)
	if err != nil {
		l.t.Fatal(err)
	}
	srv := httptest.NewServer(q)
	l.t.Cleanup(srv.Close)
	l.slack.SetCallbacks(fakeslack.Callbacks{
		Interactivity: srv.URL + InteractivityPath, Commands: srv.URL + CommandsPath, Secret: signing,
	})
	return l
}

// overSocket has Slack send it over a socket.
func (l *lobby) overSocket() *Socket {
	l.t.Helper()
	s, err := NewSocket(SocketOptions{
		AppToken: appToken, APIURL: l.srv.URL + "/api/", Reception: l.reception, Registerer: l.reg, Log: l.logs, LongestPause: time.Second,
	})
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.Run(ctx)
	}()
	l.t.Cleanup(func() {
		cancel()
		<-done
		if s.Connected() {
			l.t.Error("connected after the end")
		}
	})
	l.within("a socket", s.Connected)
	return s
}

// within waits for a condition.
func (l *lobby) within(what string, holds func() bool) {
	l.t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			l.t.Fatalf("%s: not in time; %d wishes, %d entries, log:\n%.3000s", what, len(l.clerk.asked()), len(l.clerk.noted()), l.log)
		}
	}
}

func (l *lobby) press(a Action, user string) fakeslack.Receipt {
	l.t.Helper()
	r, err := l.slack.Press(l.t.Context(), "C1", l.root.TS, actionPrefix+string(a), user)
	if err != nil {
		l.t.Fatal(err)
	}
	return r
}

func (l *lobby) typed(user, line string) {
	l.t.Helper()
	if _, err := l.slack.Command(l.t.Context(), "C1", user, line); err != nil {
		l.t.Fatal(err)
	}
}

// told waits until a user has been told so many things, and returns the latest.
func (l *lobby) told(user string, n int) string {
	l.t.Helper()
	l.within(user+" is told", func() bool { return len(l.slack.Whispers("C1", user)) >= n })
	all := l.slack.Whispers("C1", user)
	if len(all) > n {
		l.t.Errorf("%s was told %d things: %+v", user, len(all), all)
	}
	return all[n-1].Text
}

func (l *lobby) metric(name string) float64 {
	l.t.Helper()
	families, err := l.reg.Gather()
	if err != nil {
		l.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() == name {
			for _, m := range f.GetMetric() {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	return sum
}

func (l *lobby) turnedAway(why string) float64 {
	return testutil.ToFloat64(l.reception.metrics.refused.WithLabelValues(why))
}
