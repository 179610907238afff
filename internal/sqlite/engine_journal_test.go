package sqlite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/alerts"
	"headgate/engine"
)

var _ engine.Journal = EngineJournal{}

// TestEngineJournal holds every kind of Store against what the engine's port
// promises.
func TestEngineJournal(t *testing.T) {
	promises := map[string]func(*testing.T, *Store){
		"empty":                         testLoadEmpty,
		"a batch is read back whole":    testBatchRoundTrip,
		"what is over is not loaded":    testLoad,
		"a later batch replaces":        testUpsert,
		"blank states are forgotten":    testBlank,
		"a repetition does nothing":     testRepeated,
		"the plan knows what is there":  testPosted,
		"sent from memory, once":        testFromMemory,
		"diverted from memory":          testDivertedFromMemory,
		"sequences are not given twice": testSequence,
		"all or nothing":                testBatchAtomic,
		"an ended context":              testBatchEnded,
		"closed":                        testBatchClosed,
		"what cannot be read back":      testBatchUnwritable,
		"texts are made fit":            testBatchTexts,
	}
	for kind, make := range storeKinds {
		for name, promise := range promises {
			t.Run(kind+"/"+name, func(t *testing.T) { promise(t, make(t)) })
		}
	}
}

func testLoadEmpty(t *testing.T, s *Store) {
	if diff := cmp.Diff(engine.SavedState{}, mustLoad(t, s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	saveBatch(t, s, engine.Batch{}, planPost)
	if n := countRows(t, s); n != 0 {
		t.Errorf("%d rows of nothing", n)
	}
}

func testBatchRoundTrip(t *testing.T, s *Store) {
	b := newIncidentBatch("i-1")
	b.Incidents = append(b.Incidents, engine.Incident{ID: "i-2"})
	b.Events = append(b.Events, engine.Event{ID: "e-2", Incident: "i-2"})
	b.States = append(b.States, engine.State{Key: engine.Key{Rule: "r"}, Phase: engine.Pending})
	b.Silences = []engine.Silence{fullSilence("queue_age"), {ID: "s-2", Rule: "r", From: noon.Add(1e9), Until: noon}}
	saveBatch(t, s, b, nil)
	got := mustLoad(t, s)
	slices.Reverse(b.Incidents) // those without a time are the oldest
	slices.Reverse(b.States)
	want := engine.SavedState{States: b.States, Incidents: b.Incidents, Silences: b.Silences}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for n, id := range []string{"i-1", "i-2"} {
		if diff := cmp.Diff(b.Events[n:n+1], mustLoadIncident(t, s, id).Events); diff != "" {
			t.Errorf("events (-want +got):\n%s", diff)
		}
	}
}

// testLoad: open incidents, those that a state names and those that are due are
// loaded, with the silences that were not lifted.
func testLoad(t *testing.T, s *Store) {
	due := ended(fullIncident("due"), noon)
	due.PendingUnmute = true
	lifted := fullSilence("r")
	lifted.EndHandled = true
	saveBatch(t, s, engine.Batch{
		Incidents: []engine.Incident{fullIncident("open"), ended(fullIncident("over"), noon), ended(fullIncident("named"), noon), due},
		States:    []engine.State{fullState("queue_age", "named"), fullState("other", "gone")},
		Silences:  []engine.Silence{lifted},
	}, nil)
	got := mustLoad(t, s)
	var ids []string
	for _, i := range got.Incidents {
		ids = append(ids, i.ID)
	}
	if !slices.Equal(ids, []string{"due", "named", "open"}) || len(got.States) != 2 || len(got.Silences) != 0 {
		t.Errorf("incidents %v, %d states, silences %v", ids, len(got.States), got.Silences)
	}
}

func testUpsert(t *testing.T, s *Store) {
	b := newIncidentBatch("i-1")
	b.Silences = []engine.Silence{fullSilence("queue_age")}
	saveBatch(t, s, b, nil)
	later := ended(b.Incidents[0], noon.Add(time.Hour))
	later.Seq, later.AckedBy, later.AckUntil, later.Flapping, later.Value = 2, "", time.Time{}, false, 3
	silence := b.Silences[0]
	silence.Until, silence.Reason = noon.Add(time.Minute), "shorter"
	again := engine.State{Key: b.States[0].Key, Incident: "i-1", LastResolved: noon.Add(time.Hour)}
	saveBatch(t, s, engine.Batch{
		Incidents: []engine.Incident{later}, States: []engine.State{again}, Silences: []engine.Silence{silence},
	}, nil)
	want := engine.SavedState{
		States: []engine.State{again}, Incidents: []engine.Incident{later}, Silences: []engine.Silence{silence},
	}
	if diff := cmp.Diff(want, mustLoad(t, s)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func testBlank(t *testing.T, s *Store) {
	saveBatch(t, s, engine.Batch{States: []engine.State{fullState("a", ""), fullState("b", "")}}, nil)
	saveBatch(t, s, engine.Batch{States: []engine.State{{Key: fullState("a", "").Key}}}, nil)
	if got := mustLoad(t, s).States; len(got) != 1 || got[0].Key.Rule != "b" {
		t.Errorf("states %+v, want that of b", got)
	}
}

// testRepeated: an attempt of unknown outcome is repeated, after the incident has
// gone on and with more behind it.
func testRepeated(t *testing.T, s *Store) {
	b := newIncidentBatch("i-1")
	saveBatch(t, s, b, planPost)
	before := mustLoadIncident(t, s, "i-1")
	altered := b.Events[0]
	altered.Kind, altered.By = engine.EventOpened, "altered"
	more := fullEvent("i-1", 2)
	asked := 0
	saveBatch(t, s, engine.Batch{Incidents: b.Incidents, Events: []engine.Event{altered, more}},
		func(b engine.Batch, k alerts.TxView) []alerts.Delivery {
			asked++
			if len(b.Events) != 1 || b.Events[0].Seq != 2 || len(b.Incidents) != 1 {
				t.Errorf("planned for %+v", b)
			}
			return planPost(b, k)
		})
	saveBatch(t, s, engine.Batch{Incidents: b.Incidents, Events: []engine.Event{altered}}, func(engine.Batch, alerts.TxView) []alerts.Delivery {
		t.Error("asked for a plan although nothing is new")
		return nil
	})
	got := mustLoadIncident(t, s, "i-1")
	if diff := cmp.Diff(append(before.Events, more), got.Events); diff != "" || asked != 1 {
		t.Errorf("planned %d times (-want +got):\n%s", asked, diff)
	}
	if want := []string{"1 post page queued", "2 edit page queued"}; !slices.Equal(historyKeys(got), want) {
		t.Errorf("deliveries %v, want %v", historyKeys(got), want)
	}
}

// newPost is a delivery of an incident's message.
func newPost(incident string, seq int, to alerts.Destination, state alerts.State) alerts.Delivery {
	return alerts.Delivery{ID: newID(), Incident: incident, Seq: seq, Kind: alerts.Post, Destination: to, Created: noon, State: state}
}

// queryPosted records an event and returns what the plan could know.
func queryPosted(t *testing.T, s *Store, seq int) (known []alerts.Destination) {
	t.Helper()
	saveBatch(t, s, engine.Batch{Incidents: []engine.Incident{fullIncident("i-1")}, Events: []engine.Event{fullEvent("i-1", seq)}},
		func(_ engine.Batch, k alerts.TxView) []alerts.Delivery {
			if other := k.Posted("i-9"); len(other) != 0 {
				t.Errorf("an incident that is not there was posted to %v", other)
			}
			known = k.Posted("i-1")
			slices.Sort(known)
			return nil
		})
	return known
}

func testPosted(t *testing.T, s *Store) {
	saveOutbox(t, s, alerts.Changes{Add: []alerts.Delivery{
		newPost("i-1", 1, alerts.ToPage, alerts.Sent), newPost("i-1", 1, alerts.ToDrills, alerts.Dropped),
		newPost("i-1", 2, alerts.ToPage, alerts.Queued), newPost("i-1", 2, alerts.ToWarn, alerts.Dead), newPost("i-2", 1, alerts.ToFallback, alerts.Sent),
	}})
	if got, want := queryPosted(t, s, 3), []alerts.Destination{alerts.ToPage, alerts.ToWarn}; !slices.Equal(got, want) {
		t.Errorf("posted to %v, want %v", got, want)
	}
}

// testFromMemory: a page that went out of memory, and was noted in the outbox
// before the event could be recorded, is planned again under the same key.
func testFromMemory(t *testing.T, s *Store) {
	b := newIncidentBatch("i-1")
	planned := planPost(b, alerts.TxView{Posted: func(string) []alerts.Destination { return nil }})
	planned[0].State, planned[0].Notification.Unrecorded = alerts.Sent, true
	saveOutbox(t, s, alerts.Changes{Update: planned})
	b.Events = append(b.Events, fullEvent("i-1", 2))
	saveBatch(t, s, b, planPost)
	if got, want := historyKeys(mustLoadIncident(t, s, "i-1")), []string{"1 post page sent", "2 edit page queued"}; !slices.Equal(got, want) {
		t.Errorf("deliveries %v, want %v", got, want)
	}
}

// testDivertedFromMemory: where it was diverted to cannot be planned again.
func testDivertedFromMemory(t *testing.T, s *Store) {
	diverted := newPost("i-1", 1, alerts.ToFallback, alerts.Sent)
	diverted.Notification.FallbackFrom, diverted.Notification.FallbackReason = alerts.ToPage, "archived"
	saveOutbox(t, s, alerts.Changes{Update: []alerts.Delivery{newPost("i-1", 1, alerts.ToPage, alerts.Dead), diverted}})
	if got, want := queryPosted(t, s, 1), []alerts.Destination{alerts.ToFallback}; !slices.Equal(got, want) {
		t.Errorf("posted to %v, want %v", got, want)
	}
}

// testSequence: the number of an event that was sent from memory and lost with the
// process is not used again.
func testSequence(t *testing.T, s *Store) {
	saveBatch(t, s, newIncidentBatch("i-1"), planPost)
	saveOutbox(t, s, alerts.Changes{Update: []alerts.Delivery{newPost("i-1", 4, alerts.ToWarn, alerts.Sent), newPost("i-2", 7, alerts.ToWarn, alerts.Sent)}})
	if got := mustLoad(t, s).Incidents; len(got) != 1 || got[0].Seq != 4 {
		t.Errorf("%+v, want to go on after 4", got)
	}
}

// testBatchAtomic: whatever fails, nothing of the batch is there.
func testBatchAtomic(t *testing.T, s *Store) {
	b := newIncidentBatch("i-1")
	b.Silences = []engine.Silence{fullSilence("queue_age")}
	if err := s.SaveBatch(t.Context(), b, func(b engine.Batch, k alerts.TxView) []alerts.Delivery {
		ds := planPost(b, k)
		ds[0].Kind = "telegram"
		return ds
	}); err == nil {
		t.Error("a plan of no known kind was written")
	}
	for _, table := range []string{"rule_states", "incidents", "incident_events", "silences", "deliveries"} {
		if _, err := s.writer.ExecContext(t.Context(),
			"CREATE TEMP TRIGGER refuse BEFORE INSERT ON "+table+" BEGIN SELECT RAISE(ABORT, 'refused'); END"); err != nil {
			t.Fatal(err)
		}
		if err := s.SaveBatch(t.Context(), b, planPost); err == nil {
			t.Errorf("%s: written past a trigger", table)
		}
		if n := countRows(t, s); n != 0 {
			t.Errorf("%s: %d rows are there after a failure", table, n)
		}
		if _, err := s.writer.ExecContext(t.Context(), "DROP TRIGGER refuse"); err != nil {
			t.Fatal(err)
		}
	}
	saveBatch(t, s, b, planPost)
	if n := countRows(t, s); n != 5 {
		t.Errorf("%d rows, want 5", n)
	}
}

func testBatchEnded(t *testing.T, s *Store) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	j := s.EngineJournal(planPost)
	if err := j.Save(ctx, newIncidentBatch("i-1")); !errors.Is(err, ErrBusy) || !errors.Is(err, context.Canceled) {
		t.Errorf("save: %v, want ErrBusy and the reason", err)
	}
	if got, err := j.Load(ctx); !errors.Is(err, context.Canceled) || got.Incidents != nil {
		t.Errorf("load: %v, %v", got, err)
	}
	if n := countRows(t, s); n != 0 {
		t.Errorf("%d rows", n)
	}
	if err := j.Save(t.Context(), newIncidentBatch("i-1")); err != nil {
		t.Error(err)
	}
}

func testBatchClosed(t *testing.T, s *Store) {
	saveBatch(t, s, newIncidentBatch("i-1"), planPost)
	closeStore(t, s)
	j, o := s.EngineJournal(nil), s.Outbox()
	_, loaded := j.Load(t.Context())
	_, pending := o.Pending(t.Context(), 1)
	_, root := o.Thread(t.Context(), "i-1", alerts.ToPage)
	_, _, listed := s.Incidents(t.Context(), IncidentFilter{})
	_, _, silences := s.Silences(t.Context(), SilenceFilter{})
	_, history := s.IncidentHistory(t.Context(), "i-1")
	_, _, slo := s.SLO(t.Context(), "p", noon)
	_, pruned := s.Prune(t.Context(), noon)
	for name, err := range map[string]error{
		"save": j.Save(t.Context(), newIncidentBatch("i-2")), "load": loaded, "pending": pending, "root": root, "outbox": o.Save(t.Context(), alerts.Changes{}),
		"incidents": listed, "silences": silences, "history": history, "slo": slo, "save slo": s.SaveSLO(t.Context(), nil), "prune": pruned,
	} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("%s: %v, want ErrClosed", name, err)
		}
	}
}

func testBatchUnwritable(t *testing.T, s *Store) {
	for name, spoil := range map[string]func(*engine.Batch){
		"no ID of an incident":         func(b *engine.Batch) { b.Incidents[0].ID = "" },
		"a strange ID of an incident":  func(b *engine.Batch) { b.Incidents[0].ID = "a.b" },
		"a strange reason of an end":   func(b *engine.Batch) { b.Incidents[0].Resolution = "Because" },
		"no ID of an event":            func(b *engine.Batch) { b.Events[0].ID = "" },
		"a long ID of an event":        func(b *engine.Batch) { b.Events[0].ID = strings.Repeat("a", maxID+1) },
		"an event of no incident":      func(b *engine.Batch) { b.Events[0].Incident = "" },
		"a strange kind":               func(b *engine.Batch) { b.Events[0].Kind = "open ed" },
		"a long kind":                  func(b *engine.Batch) { b.Events[0].Kind = engine.EventKind(strings.Repeat("a", maxWord+1)) },
		"no ID of a silence":           func(b *engine.Batch) { b.Silences[0].ID = "" },
		"a strange incident of states": func(b *engine.Batch) { b.States[0].Incident = "ä" },
		"no such phase":                func(b *engine.Batch) { b.States[0].Phase = 9 },
	} {
		b := newIncidentBatch("i-1")
		b.Silences = []engine.Silence{fullSilence("queue_age")}
		spoil(&b)
		if err := s.SaveBatch(t.Context(), b, planPost); err == nil {
			t.Errorf("%s: written", name)
		}
	}
	if n := countRows(t, s); n != 0 {
		t.Errorf("%d rows", n)
	}
}

// testBatchTexts: what people and clocks make of fields never keeps an incident
// out of the record.
func testBatchTexts(t *testing.T, s *Store) {
	b := newIncidentBatch("i-1")
	i, e, st := &b.Incidents[0], &b.Events[0], &b.States[0]
	i.Summary, i.AckedBy, i.Unit = strings.Repeat("é", maxReason), "an\x00na\n\x1b[31m\u202e\xff", strings.Repeat("u", 10_000)
	i.Value, i.Threshold, e.Value = math.NaN(), math.Inf(1), math.Inf(-1)
	i.Opened, i.Changed, i.Seq, i.ReopenCount = time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(30_000, 1, 1, 0, 0, 0, 0, time.UTC), -1, 1<<40
	e.By, e.Count = strings.Repeat("b", 10_000), -1
	st.WarnFor, st.FlapTimes = -1, make([]time.Time, maxItems+5)
	for n := range st.FlapTimes {
		st.FlapTimes[n] = noon
	}
	saveBatch(t, s, b, func(b engine.Batch, k alerts.TxView) []alerts.Delivery {
		ds := planPost(b, k)
		ds[0].Reason, ds[0].Notification.FallbackReason, ds[0].Notification.Incident = strings.Repeat("\"", 10_000), strings.Repeat("\\", 10_000), b.Incidents[0]
		return ds
	})
	got := mustLoad(t, s)
	want := b.Incidents[0]
	want.Summary, want.AckedBy, want.Unit = strings.Repeat("é", maxReason/2), "an na  [31m ?", strings.Repeat("u", maxName)
	want.Value, want.Threshold, want.Seq, want.ReopenCount = 0, 0, 0, math.MaxInt32
	want.Opened, want.Changed = time.UnixMilli(1).UTC(), time.UnixMilli(maxTime).UTC()
	seq := want
	seq.Seq = 1 // the delivery knows better
	if diff := cmp.Diff([]engine.Incident{seq}, got.Incidents); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := got.States[0]; got.WarnFor != 0 || len(got.FlapTimes) != maxItems {
		t.Errorf("warn for %v, %d flips", got.WarnFor, len(got.FlapTimes))
	}
	ds, err := s.Outbox().Pending(t.Context(), 10)
	if err != nil || len(ds) != 1 || ds[0].Reason != strings.Repeat("\"", maxReason) || ds[0].Notification.FallbackReason != strings.Repeat("\\", maxReason) {
		t.Fatalf("%d deliveries, %v", len(ds), err)
	}
	if diff := cmp.Diff(want, ds[0].Notification.Incident); diff != "" {
		t.Errorf("in the note (-want +got):\n%s", diff)
	}
}

// TestKeptTooMuch: more than can ever have been is not loaded.
func TestKeptTooMuch(t *testing.T) {
	for _, statement := range []string{
		"INSERT INTO silences SELECT 's-' || i, 'r', '', 1, 2, 'a', 'r', 0, 'w' FROM n",
		"INSERT INTO rule_states SELECT 'r' || i, '', '', '{\"rule\":\"r' || i || '\"}', 'w' FROM n",
		"INSERT INTO incidents SELECT 'i-' || i, 'r', '', 1, 0, 0, '{\"id\":\"i-' || i || '\"}', 'w' FROM n",
	} {
		s := storeKinds["ephemeral"](t)
		numbered := fmt.Sprintf(" WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d) SELECT", maxLoaded+1)
		if _, err := s.writer.ExecContext(t.Context(), strings.Replace(statement, " SELECT", numbered, 1)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.EngineJournal(nil).Load(t.Context()); !errors.Is(err, ErrCorrupt) || got.States != nil || got.Incidents != nil {
			t.Errorf("%.40s: %v, want ErrCorrupt", statement, err)
		}
	}
}
