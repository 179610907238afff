package sqlite

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/alerts"
	"headgate/engine"
)

// TestMachine: a machine whose batches are recorded is, whenever it is loaded
// again, the machine that it was; and everything that happened to an incident has
// its events, in one sequence, and its deliveries.
func TestMachine(t *testing.T) {
	seeds := uint64(4)
	if raceEnabled {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) { runMachine(t, storeKinds["ephemeral"](t), rand.New(rand.NewPCG(seed, 1))) })
	}
}

// machineTest drives a machine with values that come and go.
type machineTest struct {
	t      *testing.T
	s      *Store
	random *rand.Rand
	config engine.Config
	rules  []engine.Rule
	m      *engine.Machine
	now    time.Time
	level  map[engine.Key]float64
}

func runMachine(t *testing.T, s *Store, random *rand.Rand) {
	c := engine.DefaultConfig()
	c.ReopenWindow, c.IdleClose, c.Flap.Window = 20*time.Second, time.Minute, time.Minute
	c.Remind.Page, c.AckFor, c.AckMax, c.SilenceMax = 10*time.Second, 8*time.Second, time.Minute, time.Minute
	x := &machineTest{t: t, s: s, random: random, config: c, now: noon, level: map[engine.Key]float64{}}
	for _, key := range []engine.Key{{Rule: "a", Pool: "p"}, {Rule: "a", Pool: "q"}, {Rule: "b"}} {
		x.rules = append(x.rules, engine.Rule{
			Name: key.Rule, Pool: key.Pool, Signal: "up", Warn: engine.Threshold{At: 1, For: time.Second, Set: true},
			Page: engine.Threshold{At: 2, For: 2 * time.Second, Set: true}, Clear: engine.Clear{Below: 1, For: 2 * time.Second}, Summary: "trouble",
		})
	}
	x.m = x.machine()
	for range 400 {
		x.step()
	}
	x.check()
}

func (x *machineTest) machine() *engine.Machine {
	m, err := engine.NewMachine(x.config)
	if err != nil {
		x.t.Fatal(err)
	}
	return m
}

func (x *machineTest) step() {
	x.now = x.now.Add(time.Second)
	values := map[engine.Key]engine.Value{}
	for _, r := range x.rules {
		if x.random.IntN(5) == 0 {
			x.level[r.Key()] = float64(x.random.IntN(6)) / 2
		}
		if knowing := x.random.IntN(12); knowing > 0 {
			values[r.Key()] = engine.Value{V: x.level[r.Key()]}
		} else if x.random.IntN(2) == 0 {
			values[r.Key()] = engine.Value{Quality: engine.Idle}
		}
	}
	x.save(x.m.Step(x.now, time.Second, x.rules, values))
	switch x.random.IntN(20) {
	case 0:
		for _, inc := range x.m.Incidents() {
			if _, b, err := x.m.Ack(x.now, inc.ID, "anna", 0); err == nil {
				x.save(b)
			}
		}
	case 1:
		if _, b, err := x.m.Silence(x.now, engine.Silence{Rule: "a", Until: x.now.Add(7 * time.Second), By: "bert"}); err == nil {
			x.save(b)
		}
	case 2:
		x.restart()
	}
}

func (x *machineTest) save(b engine.Batch) {
	x.t.Helper()
	saveBatch(x.t, x.s, b, planPost)
	if x.random.IntN(3) == 0 { // as if its outcome had not been known
		saveBatch(x.t, x.s, b, planPost)
	}
}

// restart compares what was recorded with what the machine knows, and goes on
// from the record.
func (x *machineTest) restart() {
	x.t.Helper()
	saved := mustLoad(x.t, x.s)
	again := x.machine()
	if wrong := again.Load(x.now, saved); len(wrong) > 0 {
		x.t.Fatalf("the record contradicts itself: %q", wrong)
	}
	if diff := cmp.Diff(x.m.States(), again.States()); diff != "" {
		x.t.Fatalf("states (-machine +record):\n%s", diff)
	}
	if diff := cmp.Diff(x.m.Incidents(), again.Incidents()); diff != "" {
		x.t.Fatalf("incidents (-machine +record):\n%s", diff)
	}
	if diff := cmp.Diff(x.m.Silences(), again.Silences()); diff != "" {
		x.t.Fatalf("silences (-machine +record):\n%s", diff)
	}
	x.m = again
}

func (x *machineTest) check() {
	x.t.Helper()
	found, _, err := x.s.Incidents(x.t.Context(), IncidentFilter{Limit: MaxLimit})
	if err != nil || len(found) < 3 {
		x.t.Fatalf("%d incidents, %v: not much of a script", len(found), err)
	}
	for _, inc := range found {
		checkHistory(x.t, mustLoadIncident(x.t, x.s, inc.ID))
	}
}

// checkHistory fails unless an incident has all its events, each with one delivery,
// the first of which opens it.
func checkHistory(t *testing.T, st IncidentHistory) {
	t.Helper()
	if len(st.Events) != st.Incident.Seq || len(st.Deliveries) != len(st.Events) {
		t.Fatalf("incident %s of sequence %d has %d events and %d deliveries", st.Incident.ID, st.Incident.Seq, len(st.Events), len(st.Deliveries))
	}
	for n, e := range st.Events {
		d := st.Deliveries[n]
		if e.Seq != n+1 || d.Seq != n+1 || d.Notification.Event.ID != e.ID || (d.Kind == alerts.Post) != (n == 0) {
			t.Fatalf("event %d of incident %s is %+v, and its delivery %+v", n+1, st.Incident.ID, e, d)
		}
	}
}
