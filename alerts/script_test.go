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

// sent is one attempt as a scripted sender saw it.
type sent struct {
	at    time.Time
	d     alerts.Delivery
	root  alerts.Ref
	plain bool
	find  bool
}

// scripted is a sender whose answers are given by a function; without one, all
// arrives. It remembers what arrived, so that it can be found.
type scripted struct {
	mu     sync.Mutex
	all    []sent
	stands map[alerts.Key]alerts.Ref
	answer func(n int, s sent) *alerts.Attempt                      // nil: it arrives
	look   func(n int, s sent) (ref alerts.Ref, ok bool, err error) // nil: what stands is found
	wait   func(ctx context.Context, s sent)
	texts  map[string]int // messages visible, by incident and what they are
}

func newScripted() *scripted {
	return &scripted{stands: make(map[alerts.Key]alerts.Ref), texts: make(map[string]int)}
}

func (s *scripted) Send(ctx context.Context, d alerts.Delivery, root alerts.Ref, plain bool) alerts.Attempt {
	now := sent{at: time.Now(), d: d, root: root, plain: plain}
	if s.wait != nil {
		s.wait(ctx, now)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.all = append(s.all, now)
	if s.answer != nil {
		if a := s.answer(len(s.all), now); a != nil {
			return *a
		}
	}
	return alerts.Attempt{Outcome: alerts.Arrived, Ref: s.acceptLocked(d, root)}
}

// acceptLocked makes a message visible.
func (s *scripted) acceptLocked(d alerts.Delivery, root alerts.Ref) alerts.Ref {
	if !d.Opens(root) && d.Kind != alerts.Reply {
		return root
	}
	what := "reply"
	if d.Opens(root) {
		what = "root"
	}
	s.texts[fmt.Sprintf("%s %s %d", d.Incident, what, d.Seq)]++
	ref := alerts.Ref{Channel: "C", TS: fmt.Sprintf("%s.%d", d.Incident, len(s.all))}
	s.stands[d.Key()] = ref
	return ref
}

func (s *scripted) Find(_ context.Context, d alerts.Delivery, root alerts.Ref) (alerts.Ref, bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := sent{at: time.Now(), d: d, root: root, find: true}
	s.all = append(s.all, now)
	if s.look != nil {
		return s.look(len(s.all), now)
	}
	ref, ok := s.stands[d.Key()]
	return ref, ok, nil
}

func (s *scripted) calls() []sent {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]sent(nil), s.all...)
}

// String writes the attempts: kind, sequence, ! if it pings, + if it opens, ? for
// a look.
func (s *scripted) String() string {
	var out []string
	for _, c := range s.calls() {
		x := fmt.Sprintf("%s%d", c.d.Kind, c.d.Seq)
		if c.find {
			x = fmt.Sprintf("find%d", c.d.Seq)
		} else if c.d.Opens(c.root) {
			x += "+"
		}
		if c.d.Note.Ping && !c.find {
			x += "!"
		}
		out = append(out, x)
	}
	return strings.Join(out, " ")
}

// rig is a deliverer with everything around it.
type rig struct {
	t     *testing.T
	box   *outboxtest.Memory
	page  *scripted
	spare *scripted // the fallback's
	reg   *prometheus.Registry
	log   *strings.Builder
	stuck []alerts.Delivery
	o     alerts.Options
	d     *alerts.Deliverer
}

// newRig returns one that is not started. The fallback is a channel of its own.
func newRig(t *testing.T, box *outboxtest.Memory) *rig {
	t.Helper()
	r := &rig{t: t, box: box, page: newScripted(), spare: newScripted(), reg: prometheus.NewRegistry(), log: &strings.Builder{}}
	m, err := alerts.NewMetrics(r.reg)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	r.o = alerts.Options{
		Outbox: box, Metrics: m, Log: slog.New(slog.NewTextHandler(r.log, nil)),
		Routes:  alerts.Routes{Warn: "ops", Page: "ops", Fallback: "spare"},
		Senders: map[alerts.Destination]alerts.Sender{alerts.ToPage: r.page, alerts.ToFallback: r.spare},
		NewID:   func() string { n++; return fmt.Sprint("new", n) },
		OnStuck: func(d alerts.Delivery) { r.stuck = append(r.stuck, d) },
		Random:  func() float64 { return 0.999999 },
	}
	return r
}

func (r *rig) start() {
	r.t.Helper()
	d, err := alerts.New(r.o)
	if err != nil {
		r.t.Fatal(err)
	}
	r.d = d
	d.Start()
}

func (r *rig) stop() {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := r.d.Stop(ctx); err != nil {
		r.t.Errorf("Stop: %v", err)
	}
}

// put queues deliveries.
func (r *rig) put(ds ...alerts.Delivery) {
	r.t.Helper()
	if err := r.box.Save(context.Background(), alerts.Changes{Add: ds}); err != nil {
		r.t.Fatal(err)
	}
	if r.d != nil {
		r.d.Kick()
	}
}

func (r *rig) metric(channel alerts.Destination, result alerts.Result) int {
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
func (r *rig) states() string {
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
		Note: alerts.Note{Incident: i, Event: engine.Event{Incident: inc, Seq: seq, Kind: engine.EventOpened, At: now}},
	}
	for _, c := range change {
		c(&d)
	}
	return d
}

func ping(d *alerts.Delivery) { d.Note.Ping = true }

func over(d *alerts.Delivery) {
	d.Note.Incident.Ended, d.Note.Incident.Why = d.Created, engine.Recovered
	d.Note.Event.Kind = engine.EventResolved
}

func in(s alerts.State) func(*alerts.Delivery) { return func(d *alerts.Delivery) { d.State = s } }

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
