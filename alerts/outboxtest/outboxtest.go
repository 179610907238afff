package outboxtest

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"headgate/alerts"
	"headgate/engine"
)

// ErrDown is what a Memory returns while it is down.
var ErrDown = errors.New("the outbox is down")

type threadKey struct {
	incident    string
	destination alerts.Destination
}

// Memory is an outbox that does not survive the process. It is safe for concurrent use. A dispatcher that is stopped and
// another that is started on the same Memory see what a restarted process would see.
type Memory struct {
	mu         sync.Mutex
	deliveries map[alerts.Key]alerts.Delivery
	threads    map[threadKey]alerts.Ref
	hook       func(op string) error
}

var _ alerts.Outbox = (*Memory)(nil)

// NewMemory returns an empty outbox.
func NewMemory() *Memory {
	return &Memory{deliveries: make(map[alerts.Key]alerts.Delivery), threads: make(map[threadKey]alerts.Ref)}
}

// SetHook makes f be called at the start and at the end of every method, as "pending", "pending done", "save", "save
// done", "root", "root done". An error at the start makes the method fail without effect, one at the end makes it fail
// after its effect. Nil removes the hook.
func (m *Memory) SetHook(f func(op string) error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.hook = f
}

// SetDown makes every method fail with ErrDown, or work again.
func (m *Memory) SetDown(down bool) {
	if !down {
		m.SetHook(nil)
		return
	}
	m.SetHook(func(string) error { return ErrDown })
}

// do runs an operation between the calls of the hook, which is called without the lock.
func (m *Memory) do(ctx context.Context, op string, f func()) error {
	if err := m.callHook(ctx, op); err != nil {
		return err
	}
	f()
	return m.callHook(ctx, op+" done")
}

func (m *Memory) callHook(ctx context.Context, op string) error {
	m.mu.Lock()
	hook := m.hook
	m.mu.Unlock()
	if hook != nil {
		if err := hook(op); err != nil {
			return err
		}
	}
	return ctx.Err()
}

// Pending returns the deliveries whose state is pending.
func (m *Memory) Pending(ctx context.Context, limit int) (ds []alerts.Delivery, err error) {
	err = m.do(ctx, "pending", func() {
		ds = slices.DeleteFunc(m.All(), func(d alerts.Delivery) bool { return !d.State.Pending() })
		ds = ds[:min(limit, len(ds))]
	})
	return ds, err
}

// All returns every delivery, whatever its state, in the order of Pending.
func (m *Memory) All() []alerts.Delivery {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.deliveries), func(a, b alerts.Delivery) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.Incident, b.Incident),
			cmp.Compare(a.Seq, b.Seq), strings.Compare(a.ID, b.ID))
	})
}

// Save writes all changes.
func (m *Memory) Save(ctx context.Context, c alerts.Changes) error {
	return m.do(ctx, "save", func() { m.write(c) })
}

// Put adds deliveries as the writer of the record does, without the hook.
func (m *Memory) Put(ds ...alerts.Delivery) { m.write(alerts.Changes{Add: ds}) }

func (m *Memory) write(c alerts.Changes) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, d := range c.Add {
		if _, there := m.deliveries[d.Key()]; !there {
			m.deliveries[d.Key()] = d
		}
	}
	for _, d := range c.Update {
		if old, there := m.deliveries[d.Key()]; there {
			d.ID, d.Created = old.ID, old.Created
		}
		m.deliveries[d.Key()] = d
	}
	for _, t := range c.Threads {
		at := threadKey{t.Incident, t.Destination}
		m.threads[at] = t.Ref
		if t.Ref == (alerts.Ref{}) {
			delete(m.threads, at)
		}
	}
}

// Thread returns the reference of an incident's message at a destination.
func (m *Memory) Thread(ctx context.Context, incident string, to alerts.Destination) (ref alerts.Ref, err error) {
	err = m.do(ctx, "root", func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		ref = m.threads[threadKey{incident, to}]
	})
	return ref, err
}

// start is when the suite's first delivery was created.
var start = time.Date(2026, 3, 1, 12, 0, 0, 123_000_000, time.UTC)

// Run tests an implementation. Open returns an empty outbox, and a function that closes it and opens its contents again;
// nil if it does not survive.
func Run(t *testing.T, open func(t *testing.T) (box alerts.Outbox, reopen func(t *testing.T) alerts.Outbox)) {
	tests := []struct {
		name string
		run  func(*testing.T, alerts.Outbox)
	}{
		{"added deliveries come back complete", testRoundTrip},
		{"pending states come back, others do not", testStates},
		{"pending is ordered and limited", testOrder},
		{"adding keeps existing deliveries", testAdd},
		{"updating replaces all but ID and Created", testUpdate},
		{"updating inserts missing deliveries", testUpsert},
		{"keys differ in each part", testKeys},
		{"threads are set, replaced, cleared and kept apart", testThreads},
		{"references stay text", testRefsStayText},
		{"an ended context changes nothing", testContext},
		{"empty changes are no error", testEmpty},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			box, _ := open(t)
			tt.run(t, box)
		})
	}
	t.Run("what was saved survives", func(t *testing.T) {
		box, reopen := open(t)
		if reopen == nil {
			return
		}
		mustSave(t, box, alerts.Changes{Add: []alerts.Delivery{FullDelivery("i", 1)}, Threads: oneThread("i", alerts.ToPage, "C1", "1.10")})
		box = reopen(t)
		wantEqual(t, mustPending(t, box, 10), []alerts.Delivery{FullDelivery("i", 1)})
		wantThread(t, box, "i", alerts.ToPage, alerts.Ref{Channel: "C1", TS: "1.10"})
	})
}

// FullDelivery returns a queued delivery in which every field that a queued one can have is set.
func FullDelivery(incident string, seq int) alerts.Delivery {
	at := start.Add(time.Duration(seq) * time.Second)
	return alerts.Delivery{
		ID: "01890000-0000-7000-8000-00000000000" + string(rune('0'+seq%10)), Incident: incident, Seq: seq,
		Kind: alerts.Post, Destination: alerts.ToPage, Created: at, State: alerts.Queued,
		Notification: alerts.Notification{
			Incident: engine.Incident{
				ID: incident, Key: engine.Key{Rule: "r", Pool: "p"}, Level: engine.LevelPage, Peak: engine.LevelPage,
				Opened: start, Changed: at, Ended: at, Resolution: engine.Recovered,
				Value: 31.5, Threshold: 25, Unit: "s", Summary: "sum<&>", Impact: "feel", Runbook: "page", Action: "rollback",
				Seq: seq, ReopenCount: 2, Flapping: true, AckedBy: "ann", AckUntil: at.Add(time.Hour),
			},
			Event: engine.Event{
				ID: "e", Incident: incident, Seq: seq, Kind: engine.EventOpened, At: at,
				Level: engine.LevelPage, Value: 31.5, By: "ann",
			},
			Mode: "enforce", ModeSince: start, Ping: true, Combined: true, Unrecorded: true, Drill: true,
			Silenced: true, Late: true, PossibleDuplicate: true, FallbackFrom: alerts.ToWarn, FallbackReason: "why",
			Running: 4, Queued: 11, LoadKnown: true,
		},
	}
}

func testRoundTrip(t *testing.T, box alerts.Outbox) {
	bare := alerts.Delivery{
		ID: "x", Incident: "i", Seq: 1, Kind: alerts.Edit, Destination: alerts.ToWarn, Created: start, State: alerts.Queued,
	}
	mustSave(t, box, alerts.Changes{Add: []alerts.Delivery{bare, FullDelivery("i", 1)}})
	wantEqual(t, byKind(mustPending(t, box, 10)), byKind([]alerts.Delivery{bare, FullDelivery("i", 1)}))
}

func testStates(t *testing.T, box alerts.Outbox) {
	states := []alerts.State{
		alerts.Queued, alerts.Sending, alerts.Retry, alerts.Uncertain, alerts.Sent, alerts.Dead, alerts.Dropped,
	}
	for i, s := range states {
		d := FullDelivery("i", i)
		d.State = s
		mustSave(t, box, alerts.Changes{Add: []alerts.Delivery{d}})
	}
	var got []alerts.State
	for _, d := range mustPending(t, box, 10) {
		got = append(got, d.State)
	}
	wantEqual(t, got, states[:4])
}

func testOrder(t *testing.T, box alerts.Outbox) {
	a, b, c, d := FullDelivery("b", 1), FullDelivery("a", 1), FullDelivery("a", 2), FullDelivery("z", 0)
	c.Created = a.Created
	mustSave(t, box, alerts.Changes{Add: []alerts.Delivery{c, a}})
	mustSave(t, box, alerts.Changes{Add: []alerts.Delivery{d, b}})
	wantEqual(t, mustPending(t, box, 10), []alerts.Delivery{d, b, c, a})
	wantEqual(t, mustPending(t, box, 2), []alerts.Delivery{d, b})
}

func testAdd(t *testing.T, box alerts.Outbox) {
	sent, again := FullDelivery("i", 1), FullDelivery("i", 1)
	sent.State, again.ID = alerts.Sent, "another"
	mustSave(t, box, alerts.Changes{Update: []alerts.Delivery{sent}})
	mustSave(t, box, alerts.Changes{Add: []alerts.Delivery{again, FullDelivery("i", 2)}})
	wantEqual(t, mustPending(t, box, 10), []alerts.Delivery{FullDelivery("i", 2)})
}

func testUpdate(t *testing.T, box alerts.Outbox) {
	mustSave(t, box, alerts.Changes{Add: []alerts.Delivery{FullDelivery("i", 1), FullDelivery("i", 2)}})
	d := FullDelivery("i", 1)
	d.State, d.Attempts, d.LastAttempt, d.NotBefore = alerts.Retry, 3, start.Add(time.Minute), start.Add(time.Hour)
	d.Reason, d.PlainText, d.AmbiguousAttempts = "rate limited", true, 1
	d.Notification = alerts.Notification{Mode: "passthrough"}
	d.Ref = alerts.Ref{Channel: "C", TS: "1.000100"}
	want := d
	d.ID, d.Created = "another", start.Add(-time.Hour)
	mustSave(t, box, alerts.Changes{Update: []alerts.Delivery{d}})
	wantEqual(t, mustPending(t, box, 10), []alerts.Delivery{want, FullDelivery("i", 2)})
}

func testUpsert(t *testing.T, box alerts.Outbox) {
	d := FullDelivery("of an incident that was never recorded", 1)
	mustSave(t, box, alerts.Changes{Update: []alerts.Delivery{d}, Threads: oneThread(d.Incident, alerts.ToPage, "C", "1.1")})
	wantEqual(t, mustPending(t, box, 10), []alerts.Delivery{d})
}

func testKeys(t *testing.T, box alerts.Outbox) {
	base := FullDelivery("i", 1)
	seq, kind, dest, inc := FullDelivery("i", 2), base, base, FullDelivery("j", 1)
	kind.Kind, dest.Destination = alerts.Reply, alerts.ToFallback
	mustSave(t, box, alerts.Changes{Add: []alerts.Delivery{base, seq, kind, dest, inc, base}})
	if n := len(mustPending(t, box, 10)); n != 5 {
		t.Errorf("%d deliveries, want 5", n)
	}
}

func testThreads(t *testing.T, box alerts.Outbox) {
	wantThread(t, box, "i", alerts.ToPage, alerts.Ref{})
	mustSave(t, box, alerts.Changes{Threads: oneThread("i", alerts.ToPage, "C1", "1.1")})
	mustSave(t, box, alerts.Changes{Threads: oneThread("i", alerts.ToWarn, "C2", "2.2")})
	mustSave(t, box, alerts.Changes{Threads: oneThread("i", alerts.ToPage, "C1", "3.3")})
	wantThread(t, box, "i", alerts.ToPage, alerts.Ref{Channel: "C1", TS: "3.3"})
	wantThread(t, box, "j", alerts.ToPage, alerts.Ref{})
	mustSave(t, box, alerts.Changes{Threads: oneThread("i", alerts.ToPage, "", "")})
	mustSave(t, box, alerts.Changes{Threads: oneThread("i", alerts.ToPage, "", "")})
	wantThread(t, box, "i", alerts.ToPage, alerts.Ref{})
	wantThread(t, box, "i", alerts.ToWarn, alerts.Ref{Channel: "C2", TS: "2.2"})
}

func testRefsStayText(t *testing.T, box alerts.Outbox) {
	for _, ts := range []string{"1767225600.000100", "1767225600.123450", "007.10", ""} {
		mustSave(t, box, alerts.Changes{Threads: oneThread("i", alerts.ToPage, "0123", ts)})
		wantThread(t, box, "i", alerts.ToPage, alerts.Ref{Channel: "0123", TS: ts})
	}
}

func testContext(t *testing.T, box alerts.Outbox) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := box.Save(ctx, alerts.Changes{Add: []alerts.Delivery{FullDelivery("i", 1)}}); err == nil {
		t.Error("saved although the context had ended")
	}
	if _, err := box.Pending(ctx, 1); !errors.Is(err, context.Canceled) {
		t.Errorf("Pending: %v, want the context's error", err)
	}
	if _, err := box.Thread(ctx, "i", alerts.ToPage); !errors.Is(err, context.Canceled) {
		t.Errorf("Thread: %v, want the context's error", err)
	}
	if ds := mustPending(t, box, 1); len(ds) != 0 {
		t.Errorf("%d deliveries, want none", len(ds))
	}
}

func testEmpty(t *testing.T, box alerts.Outbox) {
	mustSave(t, box, alerts.Changes{})
	if ds := mustPending(t, box, 10); len(ds) != 0 {
		t.Errorf("%d deliveries, want none", len(ds))
	}
}

func oneThread(incident string, to alerts.Destination, channel, ts string) []alerts.Thread {
	return []alerts.Thread{{Incident: incident, Destination: to, Ref: alerts.Ref{Channel: channel, TS: ts}}}
}

func byKind(ds []alerts.Delivery) map[alerts.Kind]alerts.Delivery {
	m := make(map[alerts.Kind]alerts.Delivery)
	for _, d := range ds {
		m[d.Kind] = d
	}
	return m
}

func mustSave(t *testing.T, box alerts.Outbox, c alerts.Changes) {
	t.Helper()
	if err := box.Save(t.Context(), c); err != nil {
		t.Fatalf("Save: %v", err)
	}
}

func mustPending(t *testing.T, box alerts.Outbox, limit int) []alerts.Delivery {
	t.Helper()
	ds, err := box.Pending(t.Context(), limit)
	if err != nil {
		t.Fatalf("Pending: %v", err)
	}
	return ds
}

func wantThread(t *testing.T, box alerts.Outbox, incident string, to alerts.Destination, want alerts.Ref) {
	t.Helper()
	got, err := box.Thread(t.Context(), incident, to)
	if err != nil {
		t.Fatalf("Thread: %v", err)
	}
	if got != want {
		t.Errorf("thread of %s at %s: %v, want %v", incident, to, got, want)
	}
}

func wantEqual[T any](t *testing.T, got, want T) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("differs (-want +got):\n%s", diff)
	}
}
