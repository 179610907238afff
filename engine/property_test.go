package engine

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// simulation is a machine, an oracle and a disk that live through the same.
type simulation struct {
	t         *testing.T
	rnd       *rand.Rand
	m         *Machine
	oracle    *oracle
	store     *journalStore
	now       time.Time
	rules     []Rule
	deleted   []Rule
	regime    map[Key]int
	trace     []string
	lifecycle *lifecycleChecker
	steps     int
	often     bool // look at the record after every step
	count     map[string]int
}

// fastConfig makes everything happen within seconds.
func fastConfig() Config {
	c := testConfig()
	c.MissingGrace, c.IdleClose, c.ReopenWindow = 6*time.Second, 9*time.Second, 8*time.Second
	c.Flap = Flap{Count: 4, Window: 40 * time.Second, Digest: 7 * time.Second}
	c.Remind = Remind{Warn: 25 * time.Second, Page: 15 * time.Second}
	c.AckFor = 12 * time.Second
	return c
}

func newSimulation(t *testing.T, seed uint64) *simulation {
	m, err := NewMachine(fastConfig())
	if err != nil {
		t.Fatal(err)
	}
	both, pages, warns := ageRule(), ageRule(), ageRule()
	both.Warn.For, both.Page.For, both.Clear.For = 2*time.Second, 3*time.Second, 3*time.Second
	pages.Name, pages.Warn, pages.Page.For, pages.Clear.For = "pages", Threshold{}, 2*time.Second, 2*time.Second
	warns.Name, warns.Pool, warns.Page, warns.Warn.For, warns.Clear.For = "warns", "q", Threshold{}, 0, time.Second
	fast := both
	fast.Pool, fast.Page.For, fast.Clear.For = "q", 2*time.Second, 0
	return &simulation{
		t: t, rnd: rand.New(rand.NewPCG(seed, 7)), m: m, oracle: newOracle(m.c), store: newJournalStore(), now: epoch,
		rules: []Rule{both, pages, warns, fast}, regime: map[Key]int{}, lifecycle: newLifecycleChecker(), count: map[string]int{},
	}
}

// value returns a key's next value; moods last for some steps, so that clocks run
// out now and then.
func (w *simulation) value(key Key) Value {
	if w.rnd.IntN(4) == 0 {
		w.regime[key] = w.rnd.IntN(12)
	}
	switch w.regime[key] {
	case 0:
		return Value{Quality: Missing}
	case 1:
		return Value{Quality: Idle}
	case 2, 3:
		return hold
	case 4, 5, 6:
		return page
	case 7, 8:
		return warn
	default:
		return low
	}
}

// step makes one step, after whatever else may happen before it.
func (w *simulation) step(restarts bool) {
	elapsed := time.Second
	switch w.rnd.IntN(25) {
	case 0:
		elapsed = time.Minute // of which two intervals count
	case 1, 2:
		elapsed = 1500 * time.Millisecond
	}
	switch w.rnd.IntN(60) {
	case 0:
		elapsed = w.restart(restarts)
	case 1, 2:
		w.ack()
	case 3:
		w.silence()
	case 4:
		w.lift()
	case 5:
		w.edit()
	case 6:
		w.delete()
	}
	values := map[Key]Value{}
	for _, r := range w.rules {
		values[r.Key()] = w.value(r.Key())
	}
	w.now = w.now.Add(elapsed)
	w.trace = append(w.trace[max(0, len(w.trace)-40):], fmt.Sprintf("step %s %v", elapsed, values))
	b := w.m.Step(w.now, elapsed, w.rules, values)
	w.compare(b, w.oracle.step(w.now, elapsed, w.rules, values))
	if w.steps++; w.steps%10 == 0 || w.often {
		w.reload()
	}
}

// compare holds what the machine said against what it should have said.
func (w *simulation) compare(b Batch, want map[Key][]string) {
	w.t.Helper()
	w.store.save(w.t, b)
	got := map[Key][]string{}
	for _, e := range b.Events {
		inc := w.store.incidents[e.Incident]
		line := fmt.Sprintf("%s %s", e.Kind, e.Level)
		if e.Digested {
			line += " digested"
		}
		if e.Muted {
			line += " muted"
		}
		w.count[string(e.Kind)]++
		got[inc.Key] = append(got[inc.Key], line)
		if err := w.lifecycle.add(inc, e); err != nil {
			w.fail("%v", err)
		}
	}
	if !reflect.DeepEqual(want, got) {
		diff := cmp.Diff(want, got)
		w.fail("said otherwise than it should (-want +got):\n%s", diff)
	}
}

func (w *simulation) fail(format string, args ...any) {
	w.t.Helper()
	for _, line := range w.trace[max(0, len(w.trace)-40):] {
		w.t.Log(line)
	}
	w.t.Fatalf(format, args...)
}

// reload makes sure that the record holds what the machine knows: nothing that a
// restart would need is only in memory.
func (w *simulation) reload() {
	w.t.Helper()
	m, err := NewMachine(w.m.c)
	if err != nil {
		w.t.Fatal(err)
	}
	if wrong := m.Load(w.now, w.store.load()); len(wrong) > 0 {
		w.fail("the record contradicts itself: %q", wrong)
	}
	if mine, loaded := w.m.Incidents(), m.Incidents(); !slices.Equal(mine, loaded) {
		w.fail("incidents (-in memory +on disk):\n%s", cmp.Diff(mine, loaded))
	}
	if mine, loaded := w.m.States(), m.States(); !reflect.DeepEqual(mine, loaded) {
		w.fail("states (-in memory +on disk):\n%s", cmp.Diff(mine, loaded))
	}
	mine, loaded := w.m.Silences(), m.Silences()
	byID := func(a, b Silence) int { return strings.Compare(a.ID, b.ID) }
	slices.SortFunc(mine, byID)
	slices.SortFunc(loaded, byID)
	if !slices.Equal(mine, loaded) {
		w.fail("silences (-in memory +on disk):\n%s", cmp.Diff(mine, loaded))
	}
}

// restart loses the machine and some time. The oracle knows nothing of it: what
// it is asked is only how long nothing was evaluated.
func (w *simulation) restart(really bool) time.Duration {
	w.trace = append(w.trace, "restart")
	w.now = w.now.Add(time.Duration(w.rnd.IntN(20)) * time.Second)
	if !really {
		return 0
	}
	m, err := NewMachine(w.m.c)
	if err != nil {
		w.t.Fatal(err)
	}
	m.Load(w.now, w.store.load())
	w.m = m
	return 0
}

func (w *simulation) ack() {
	var open []Incident
	for _, inc := range w.m.Incidents() {
		if inc.Open() {
			open = append(open, inc)
		}
	}
	if len(open) == 0 {
		return
	}
	inc := open[w.rnd.IntN(len(open))]
	w.trace = append(w.trace, "ack "+inc.Key.Rule)
	a, b, err := w.m.Ack(w.now, inc.ID, "ann", 0)
	if err != nil {
		w.fail("ack: %v", err)
	}
	want := map[Key][]string{}
	w.oracle.now = w.now
	p := w.oracle.history(inc.Key)
	t := p.open()
	if won := !t.acked; won != a.Applied {
		w.fail("won %v, want %v", a.Applied, won)
	}
	p.emitted = nil
	if a.Applied {
		t.acked, t.ackUntil = true, w.now.Add(12*time.Second)
		w.oracle.emit(p, t, EventAcked, false)
		want[inc.Key] = p.emitted
	}
	w.compare(b, want)
}

func (w *simulation) silence() {
	r := w.rules[w.rnd.IntN(len(w.rules))]
	pool := []string{r.Pool, ""}[w.rnd.IntN(2)]
	w.trace = append(w.trace, fmt.Sprintf("silence %s %q", r.Name, pool))
	from := w.now.Add(time.Duration(max(0, w.rnd.IntN(20)-12)) * time.Second)
	until := from.Add(time.Duration(1+w.rnd.IntN(30)) * time.Second)
	done, b, err := w.m.Silence(w.now, Silence{Rule: r.Name, Pool: pool, By: "ann", From: from, Until: until})
	if err != nil {
		w.fail("silence: %v", err)
	}
	if done.Applied {
		w.oracle.silences = append(w.oracle.silences, done.Silence)
	}
	w.compare(b, map[Key][]string{})
}

func (w *simulation) lift() {
	all := w.m.Silences()
	if len(all) == 0 {
		return
	}
	s := all[w.rnd.IntN(len(all))]
	w.trace = append(w.trace, "lift "+s.Rule)
	_, b, err := w.m.Unsilence(w.now, s.ID, "bob")
	if err != nil {
		w.fail("lift: %v", err)
	}
	w.oracle.now = w.now
	w.oracle.silences = slices.DeleteFunc(w.oracle.silences, func(o Silence) bool { return o.ID == s.ID })
	want := map[Key][]string{}
	for _, p := range w.oracle.keys {
		p.emitted, p.opened = nil, false
	}
	if !w.now.Before(s.From) {
		w.oracle.unmute([]Silence{s})
	}
	for key, p := range w.oracle.keys {
		if len(p.emitted) > 0 {
			want[key] = p.emitted
		}
	}
	w.compare(b, want)
}

// edit moves the thresholds of a rule, so that values mean something else.
func (w *simulation) edit() {
	r := &w.rules[w.rnd.IntN(len(w.rules))]
	shift := float64(w.rnd.IntN(3) - 1)
	r.Warn.At, r.Page.At, r.Clear.Below = 15+shift, 25+shift, 12+shift
	w.trace = append(w.trace, fmt.Sprintf("edit %s %v", r.Name, shift))
}

// delete takes a rule away, or brings one back.
func (w *simulation) delete() {
	if len(w.deleted) > 0 {
		w.trace = append(w.trace, "bring back "+w.deleted[0].Name)
		w.rules, w.deleted = append(w.rules, w.deleted...), nil
		return
	}
	n := w.rnd.IntN(len(w.rules))
	w.trace = append(w.trace, "delete "+w.rules[n].Name)
	w.deleted = append(w.deleted, w.rules[n])
	w.rules = slices.Delete(w.rules, n, n+1)
}

// The machine says what the oracle says, step by step, whatever is thrown at it;
// and at every step the record holds all that the machine knows.
func TestAgainstOracle(t *testing.T) {
	t.Parallel()
	count := map[string]int{}
	for seed := range uint64(worlds) {
		w := newSimulation(t, seed)
		w.often = seed%4 == 0
		for range 2500 {
			w.step(true)
		}
		for kind, n := range w.count {
			count[kind] += n
		}
	}
	for _, kind := range []EventKind{
		EventOpened, EventEscalated, EventDeescalated, EventRecovering, EventRefired, EventReopened, EventResolved,
		EventFlapping, EventSteady, EventAcked, EventAckExpired, EventReminder, EventUnmuted,
	} {
		if count[string(kind)] < 20 {
			t.Errorf("%s happened %d times: too rarely to say anything", kind, count[string(kind)])
		}
	}
}

// A machine that is restarted says exactly what one says that only did not
// evaluate for as long.
func TestRestartsAreTransparent(t *testing.T) {
	t.Parallel()
	for seed := range uint64(worlds / 4) {
		restarted, steady := newSimulation(t, seed), newSimulation(t, seed)
		for range 1500 {
			restarted.step(true)
			steady.step(false)
		}
		if diff := cmp.Diff(eventLines(steady.store.events), eventLines(restarted.store.events)); diff != "" {
			t.Fatalf("seed %d (-without restarts +with):\n%s", seed, diff)
		}
	}
}
