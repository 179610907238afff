package alerts_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"headgate/alerts"
	"headgate/alerts/outboxtest"
	"headgate/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// call is one attempt as a scripted notifier saw it.
type call struct {
	at       time.Time
	delivery alerts.Delivery
	root     alerts.Ref
	plain    bool
	lookup   bool
}

// fakeNotifier is a notifier whose answers are given by a function; without one, all
// arrives. It remembers what arrived, so that it can be found.
type fakeNotifier struct {
	mu       sync.Mutex
	recorded []call
	messages map[alerts.Key]alerts.Ref
	answer   func(n int, s call) *alerts.SendResult                   // nil: it arrives
	lookup   func(n int, s call) (ref alerts.Ref, ok bool, err error) // nil: what stands is found
	wait     func(ctx context.Context, s call)
	visible  map[string]int // messages visible, by incident and what they are
}

func newFakeNotifier() *fakeNotifier {
	return &fakeNotifier{messages: make(map[alerts.Key]alerts.Ref), visible: make(map[string]int)}
}

func (s *fakeNotifier) Send(ctx context.Context, d alerts.Delivery, root alerts.Ref, plain bool) alerts.SendResult {
	now := call{at: time.Now(), delivery: d, root: root, plain: plain}
	if s.wait != nil {
		s.wait(ctx, now)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.recorded = append(s.recorded, now)
	if s.answer != nil {
		if a := s.answer(len(s.recorded), now); a != nil {
			return *a
		}
	}
	return alerts.SendResult{Outcome: alerts.Delivered, Ref: s.acceptLocked(d, root)}
}

// acceptLocked makes a message visible.
func (s *fakeNotifier) acceptLocked(d alerts.Delivery, root alerts.Ref) alerts.Ref {
	if !d.StartsThread(root) && d.Kind != alerts.Reply {
		return root
	}
	what := "reply"
	if d.StartsThread(root) {
		what = "root"
	}
	s.visible[fmt.Sprintf("%s %s %d", d.Incident, what, d.Seq)]++
	ref := alerts.Ref{Channel: "C", TS: fmt.Sprintf("%s.%d", d.Incident, len(s.recorded))}
	s.messages[d.Key()] = ref
	return ref
}

func (s *fakeNotifier) Lookup(_ context.Context, d alerts.Delivery, root alerts.Ref) (alerts.Ref, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := call{at: time.Now(), delivery: d, root: root, lookup: true}
	s.recorded = append(s.recorded, now)
	if s.lookup != nil {
		return s.lookup(len(s.recorded), now)
	}
	ref, ok := s.messages[d.Key()]
	return ref, ok, nil
}

func (s *fakeNotifier) calls() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]call(nil), s.recorded...)
}

// String writes the attempts: kind, sequence, ! if it pings, + if it opens, ? for
// a look.
func (s *fakeNotifier) String() string {
	var out []string
	for _, c := range s.calls() {
		x := fmt.Sprintf("%s%d", c.delivery.Kind, c.delivery.Seq)
		if c.lookup {
			x = fmt.Sprintf("find%d", c.delivery.Seq)
		} else if c.delivery.StartsThread(c.root) {
			x += "+"
		}
		if c.delivery.Notification.Ping && !c.lookup {
			x += "!"
		}
		out = append(out, x)
	}
	return strings.Join(out, " ")
}

// fixture is a dispatcher with everything around it.
type fixture struct {
	t          *testing.T
	box        *outboxtest.Memory
	page       *fakeNotifier
	fallback   *fakeNotifier // the fallback's
	reg        *prometheus.Registry
	log        *strings.Builder
	opts       alerts.Options
	dispatcher *alerts.Dispatcher
}

// newFixture returns a fixture that is not started. The fallback is a separate channel.
func newFixture(t *testing.T, box *outboxtest.Memory) *fixture {
	t.Helper()
	r := &fixture{t: t, box: box, page: newFakeNotifier(), fallback: newFakeNotifier(), reg: prometheus.NewRegistry(), log: &strings.Builder{}}
	m, err := alerts.NewMetrics(r.reg)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	r.opts = alerts.Options{
		Outbox: box, Metrics: m, Log: slog.New(slog.NewTextHandler(r.log, nil)),
		Routes:    alerts.Routes{Warn: "ops", Page: "ops", Fallback: "spare"},
		Notifiers: map[alerts.Destination]alerts.Notifier{alerts.ToPage: r.page, alerts.ToFallback: r.fallback},
		NewID:     func() string { n++; return fmt.Sprint("new", n) },
		Random:    func() float64 { return 0.999999 },
	}
	return r
}

func (r *fixture) start() {
	r.t.Helper()
	d, err := alerts.New(r.opts)
	if err != nil {
		r.t.Fatal(err)
	}
	r.dispatcher = d
	d.Start()
}

func (r *fixture) stop() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.dispatcher.Stop(ctx); err != nil {
		r.t.Errorf("Stop: %v", err)
	}
}

// put queues deliveries.
func (r *fixture) put(ds ...alerts.Delivery) {
	r.t.Helper()
	if err := r.box.Save(context.Background(), alerts.Changes{Add: ds}); err != nil {
		r.t.Fatal(err)
	}
	if r.dispatcher != nil {
		r.dispatcher.Wake()
	}
}

func (r *fixture) metric(channel alerts.Destination, result alerts.State) int {
	r.t.Helper()
	fams, err := r.reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, f := range fams {
		if f.GetName() != "headgate_deliveries_total" {
			continue
		}
		for _, m := range f.GetMetric() {
			if m.GetLabel()[0].GetValue() == string(channel) && m.GetLabel()[1].GetValue() == string(result) {
				return int(m.GetCounter().GetValue())
			}
		}
	}
	r.t.Fatalf("no counter for %s, %s", channel, result)
	return 0
}

// states lists the deliveries as kind, sequence, destination and state.
func (r *fixture) states() string {
	var out []string
	for _, d := range r.box.All() {
		out = append(out, fmt.Sprintf("%s%d@%s:%s", d.Kind, d.Seq, d.Destination, d.State))
	}
	return strings.Join(out, " ")
}

// delivery returns a queued one about an incident, created now. Post, page level
// and open, unless changed.
func delivery(inc string, seq int, kind alerts.Kind, change ...func(*alerts.Delivery)) alerts.Delivery {
	now := time.Now()
	i := incident(engine.LevelPage)
	i.ID, i.Seq, i.Opened = inc, seq, now
	d := alerts.Delivery{
		ID: fmt.Sprint(inc, seq, kind), Incident: inc, Seq: seq, Kind: kind, Destination: alerts.ToPage,
		Created: now, State: alerts.Queued,
		Notification: alerts.Notification{Incident: i, Event: engine.Event{Incident: inc, Seq: seq, Kind: engine.EventOpened, At: now}},
	}
	for _, c := range change {
		c(&d)
	}
	return d
}

func ping(d *alerts.Delivery) { d.Notification.Ping = true }

func resolved(d *alerts.Delivery) {
	d.Notification.Incident.Ended, d.Notification.Incident.Resolution = d.Created, engine.Recovered
	d.Notification.Event.Kind = engine.EventResolved
}

func inState(s alerts.State) func(*alerts.Delivery) { return func(d *alerts.Delivery) { d.State = s } }

func gauge(t *testing.T, reg *prometheus.Registry, name string) float64 {
	t.Helper()
	fams, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fams {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("no %s", name)
	return 0
}

func TestMetricsExistAtZero(t *testing.T) {
	reg := prometheus.NewRegistry()
	if _, err := alerts.NewMetrics(reg); err != nil {
		t.Fatal(err)
	}
	fams, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	n := make(map[string]int)
	for _, f := range fams {
		n[f.GetName()] = len(f.GetMetric())
	}
	if n["headgate_deliveries_total"] != 4*6 || n["headgate_outbox_errors_total"] != 3 || n["headgate_delivery_oldest_pending_seconds"] != 1 {
		t.Errorf("series: %v", n)
	}
	if _, err := alerts.NewMetrics(reg); err == nil {
		t.Error("registered twice")
	}
}
