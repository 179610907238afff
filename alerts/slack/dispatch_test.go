package slack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/expfmt"

	"headgate/alerts"
	"headgate/alerts/outboxtest"
	"headgate/engine"
	"headgate/internal/fakeslack"
)

// syncBuffer is a log that several goroutines write to.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// memoryNetwork is a listener without sockets, for the virtual clock.
type memoryNetwork struct {
	conns  chan net.Conn
	closed context.Context
	close  context.CancelFunc
}

func newMemoryNetwork() *memoryNetwork {
	n := &memoryNetwork{conns: make(chan net.Conn)}
	n.closed, n.close = context.WithCancel(context.Background())
	return n
}

func (n *memoryNetwork) Accept() (net.Conn, error) {
	select {
	case c := <-n.conns:
		return c, nil
	case <-n.closed.Done():
		return nil, net.ErrClosed
	}
}

func (n *memoryNetwork) Close() error {
	n.close()
	return nil
}

func (n *memoryNetwork) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

func (n *memoryNetwork) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case n.conns <- server:
		return client, nil
	case <-n.closed.Done():
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// withSynctest runs a test over a fake Slack on the virtual clock.
func withSynctest(t *testing.T, o fakeslack.Options, test func(*testing.T, *fixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newFixtureOn(t, o, newMemoryNetwork())) })
}

// startDispatcher starts a dispatcher over a fixture.
func startDispatcher(t *testing.T, w *fixture, box *outboxtest.Memory, reg *prometheus.Registry, log *syncBuffer) *alerts.Dispatcher {
	t.Helper()
	m, err := alerts.NewMetrics(reg)
	if err != nil {
		t.Fatal(err)
	}
	d, err := alerts.New(alerts.Options{
		Outbox: box, Metrics: m, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Routes:    alerts.Routes{Page: "C1", Fallback: "C9"},
		Notifiers: map[alerts.Destination]alerts.Notifier{alerts.ToPage: w.bot, alerts.ToFallback: w.hook},
		NewID:     func() string { return "new" },
	})
	if err != nil {
		t.Fatal(err)
	}
	d.Start()
	return d
}

// waitUntil advances the virtual clock until a condition holds.
func waitUntil(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for range 3600 {
		time.Sleep(time.Second)
		synctest.Wait()
		if holds() {
			return
		}
	}
	t.Fatalf("%s: not within an hour", what)
}

func nothingPending(box *outboxtest.Memory) bool {
	for _, d := range box.All() {
		if d.State.Pending() {
			return false
		}
	}
	return true
}

// plannedIncident plans an incident from opening through page to its end.
func plannedIncident(id string) [][]alerts.Delivery {
	p := alerts.Planner{Routes: alerts.Routes{Page: "C1", Fallback: "C9"}}
	inc := engine.Incident{
		ID: id, Key: engine.Key{Rule: "queue_age", Pool: "default"}, Level: engine.LevelWarn, Peak: engine.LevelWarn,
		Opened: time.Now(), Value: 16, Threshold: 15, Unit: "s", Summary: "The queue is old",
	}
	known := alerts.TxView{}
	var all [][]alerts.Delivery
	for i, k := range []engine.EventKind{engine.EventOpened, engine.EventEscalated, engine.EventResolved} {
		inc.Seq = i + 1
		if k == engine.EventEscalated {
			inc.Level, inc.Peak = engine.LevelPage, engine.LevelPage
		}
		if k == engine.EventResolved {
			inc.Ended, inc.Resolution = time.Now(), engine.Recovered
		}
		e := engine.Event{Incident: id, Seq: i + 1, Kind: k, At: time.Now(), Level: inc.Level, Value: inc.Value}
		all = append(all, p.Plan(engine.Batch{Incidents: []engine.Incident{inc}, Events: []engine.Event{e}}, known))
		known.Posted = func(string) []alerts.Destination { return []alerts.Destination{alerts.ToPage} }
	}
	return all
}

// injectFaults makes every third call fail, each time in another way.
func injectFaults(w *fixture) {
	for i, f := range []fakeslack.Fault{
		{Kind: fakeslack.ServerError}, {Kind: fakeslack.DropAfter}, {Kind: fakeslack.DropBefore}, {Kind: fakeslack.EmptyResponse},
		{Kind: fakeslack.EmptyAfter}, {Kind: fakeslack.ErrorAfter},
	} {
		f.Every = 18 - i // about one in three, taken together
		w.slack.Inject(f)
	}
}

func TestCrashesWhileSlackFails(t *testing.T) {
	for seed := range 5 {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			withSynctest(t, fakeslack.Options{Seed: uint64(seed)}, func(t *testing.T, w *fixture) {
				crashWhileSlackFails(t, w, uint64(seed))
			})
		})
	}
}

func crashWhileSlackFails(t *testing.T, w *fixture, seed uint64) {
	injectFaults(w)
	r := rand.New(rand.NewPCG(seed, 1))
	box, log := outboxtest.NewMemory(), &syncBuffer{}
	var stories [][][]alerts.Delivery
	for i := range 4 {
		stories = append(stories, plannedIncident(fmt.Sprintf("inc%d", i)))
	}
	kills := 0
	for step := range 3 {
		for _, s := range stories {
			box.Put(s[step]...)
		}
		runUntilOutboxDies(t, w, box, log, 1+r.IntN(30))
		kills++
	}
	d := startDispatcher(t, w, box, prometheus.NewRegistry(), log)
	waitUntil(t, "everything is sent", func() bool { return nothingPending(box) })
	if err := d.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	checkMessages(t, w, box, kills)
	wantNoSecret(t, "the log", log.String())
}

// runUntilOutboxDies runs a dispatcher whose outbox fails after n calls, as if the process had been killed; attempts in
// flight are aborted.
func runUntilOutboxDies(t *testing.T, w *fixture, box *outboxtest.Memory, log *syncBuffer, n int) {
	t.Helper()
	var mu sync.Mutex
	dead := make(chan struct{})
	box.SetHook(func(string) error {
		mu.Lock()
		defer mu.Unlock()
		if n--; n == 0 {
			close(dead)
		}
		if n <= 0 {
			return outboxtest.ErrDown
		}
		return nil
	})
	d := startDispatcher(t, w, box, prometheus.NewRegistry(), log)
	<-dead
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = d.Stop(ctx) // a dead process records nothing
	box.SetHook(nil)
}

// checkMessages checks the messages that people see.
func checkMessages(t *testing.T, w *fixture, box *outboxtest.Memory, kills int) {
	t.Helper()
	for _, d := range box.All() {
		if d.State == alerts.Dead {
			t.Errorf("%s %s%d is dead: %s", d.Incident, d.Kind, d.Seq, d.Reason)
		}
	}
	roots := make(map[string]int)
	for _, m := range w.slack.Roots("C1") {
		var md struct {
			Payload struct{ Incident string } `json:"event_payload"`
		}
		if err := json.Unmarshal(m.Metadata, &md); err != nil {
			t.Fatal(err)
		}
		roots[md.Payload.Incident]++
		if first := append(m.Versions, fakeslack.Version{Text: m.Text})[0]; strings.Contains(first.Text, "RESOLVED") && !strings.Contains(first.Text, "opened") {
			t.Errorf("an end without its beginning: %s", first.Text)
		}
	}
	repeats := 0
	for i := range 4 {
		n := roots[fmt.Sprintf("inc%d", i)]
		if n == 0 {
			t.Errorf("inc%d has no message", i)
		}
		repeats += n - 1
	}
	if repeats > kills {
		t.Errorf("%d repeats after %d kills", repeats, kills)
	}
}

// TestDispatchEndToEnd connects the planner, the dispatcher, slack-go and the server.
func TestDispatchEndToEnd(t *testing.T) {
	withSynctest(t, fakeslack.Options{}, func(t *testing.T, w *fixture) {
		box, log := outboxtest.NewMemory(), &syncBuffer{}
		d := startDispatcher(t, w, box, prometheus.NewRegistry(), log)
		for _, ds := range plannedIncident("inc") {
			box.Put(ds...)
			d.Wake()
			waitUntil(t, "the step is sent", func() bool { return nothingPending(box) })
		}
		if err := d.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		roots := w.slack.Roots("C1")
		if len(roots) != 1 || len(roots[0].Versions) != 2 || len(roots[0].Pings) != 0 {
			t.Fatalf("%+v", roots)
		}
		for i, want := range []string{"WARNING", "PAGE"} {
			if got := roots[0].Versions[i].Text; !strings.HasPrefix(got, want) {
				t.Errorf("version %d: %s", i, got)
			}
		}
		replies := w.slack.Replies("C1", roots[0].TS)
		if len(replies) != 2 || len(replies[0].Pings) != 1 || len(replies[1].Pings) != 1 {
			t.Errorf("%+v: the page and its end mention people", replies)
		}
	})
}

// TestNoSecretsShown fails in every way and searches everything that is left.
func TestNoSecretsShown(t *testing.T) {
	withSynctest(t, fakeslack.Options{}, func(t *testing.T, w *fixture) {
		box, log, reg := outboxtest.NewMemory(), &syncBuffer{}, prometheus.NewRegistry()
		for _, k := range []fakeslack.FaultKind{
			fakeslack.TooManyRequests, fakeslack.ServerError, fakeslack.EmptyResponse, fakeslack.NotJSON, fakeslack.DropBefore, fakeslack.DropAfter,
			fakeslack.NotOK, fakeslack.InvalidBlocks, fakeslack.EndlessBody,
		} {
			w.slack.Inject(fakeslack.Fault{Kind: k, MaxHits: 1, RetryAfter: "0"})
		}
		w.slack.Inject(fakeslack.Fault{Channel: "C1", Kind: fakeslack.ErrorResponse, Error: "invalid_auth"})
		w.slack.Inject(fakeslack.Fault{Method: "webhook", Kind: fakeslack.DropBefore, MaxHits: 1})
		w.slack.Inject(fakeslack.Fault{Method: "webhook", Kind: fakeslack.NotFoundPage})
		d := startDispatcher(t, w, box, reg, log)
		box.Put(plannedIncident("inc")[0]...)
		d.Wake()
		waitUntil(t, "everything is sent", func() bool { return len(box.All()) > 1 && nothingPending(box) })
		if err := d.Stop(t.Context()); err != nil {
			t.Error(err)
		}
		wantNoSecret(t, "the log", log.String())
		record, err := json.Marshal(box.All())
		if err != nil {
			t.Fatal(err)
		}
		wantNoSecret(t, "the record", string(record))
		if !strings.Contains(string(record), "invalid_auth") {
			t.Errorf("the record does not say why: %s", record)
		}
		fams, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range fams {
			var b bytes.Buffer
			if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
				t.Fatal(err)
			}
			wantNoSecret(t, "a metric", b.String())
		}
	})
}
