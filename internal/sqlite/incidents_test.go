package sqlite

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/alerts"
	"headgate/engine"
	"headgate/runbooks/control"
)

// recordIncidents records 60 incidents of two pools and three rules, ten at a time, every
// fifth of them open.
func recordIncidents(t *testing.T, s *Store) {
	t.Helper()
	var b engine.Batch
	for i := range 60 {
		inc := fullIncident(fmt.Sprintf("id-%03d", i))
		inc.Key = engine.Key{Rule: []string{"a", "b", "c"}[i%3], Pool: []string{"p", "q"}[i%2]}
		inc.Opened = noon.Add(time.Duration(i/10) * time.Second)
		if i%5 > 0 {
			inc = ended(inc, inc.Opened)
		}
		b.Incidents = append(b.Incidents, inc)
	}
	saveBatch(t, s, b, nil)
}

// TestIncidentPages: pages hold every incident that was asked for once, newest
// first, also when new ones come in between.
func TestIncidentPages(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	recordIncidents(t, s)
	for _, tt := range []struct {
		filter IncidentFilter
		want   int
	}{
		{IncidentFilter{}, 60}, {IncidentFilter{Limit: 1}, 60}, {IncidentFilter{Limit: 7}, 60}, {IncidentFilter{Limit: 60}, 60},
		{IncidentFilter{Limit: -3}, 60}, {IncidentFilter{Limit: 1 << 40}, 60},
		{IncidentFilter{Limit: 5, Open: true}, 12}, {IncidentFilter{Limit: 4, Pool: "q"}, 30}, {IncidentFilter{Limit: 4, Rule: "b"}, 20},
		{IncidentFilter{Limit: 3, Rule: "b", Pool: "q", Open: true}, 2}, {IncidentFilter{Rule: "' OR 1=1 --"}, 0},
		{IncidentFilter{Limit: 4, Since: noon.Add(4 * time.Second)}, 20}, {IncidentFilter{Since: noon.Add(4*time.Second + 1)}, 10},
		{IncidentFilter{Since: noon.Add(time.Hour)}, 0}, {IncidentFilter{Since: time.Date(-400, 1, 1, 0, 0, 0, 0, time.UTC)}, 60},
	} {
		if got := pageIncidents(t, s, tt.filter, nil); got != tt.want {
			t.Errorf("%+v: %d incidents, want %d", tt.filter, got, tt.want)
		}
	}
	newer := func() {
		inc := fullIncident(newID())
		inc.Opened = noon.Add(time.Hour)
		saveBatch(t, s, engine.Batch{Incidents: []engine.Incident{inc}}, nil)
	}
	if got := pageIncidents(t, s, IncidentFilter{Limit: 5}, newer); got != 60 {
		t.Errorf("with new ones in between: %d, want the 60 that were there", got)
	}
}

// pageIncidents goes through all pages, calls between after each, and counts.
func pageIncidents(t *testing.T, s *Store, f IncidentFilter, between func()) (seen int) {
	t.Helper()
	for last := "z"; ; {
		found, next, err := s.Incidents(t.Context(), f)
		if err != nil {
			t.Fatalf("%+v: %v", f, err)
		}
		if len(found) > (page{limit: f.Limit}).size() || next != "" && len(found) != (page{limit: f.Limit}).size() {
			t.Fatalf("%+v: a page of %d, next %q", f, len(found), next)
		}
		for _, i := range found {
			if i.ID >= last || f.Open && !i.Open() || f.Pool != "" && i.Key.Pool != f.Pool || f.Rule != "" && i.Key.Rule != f.Rule {
				t.Fatalf("%+v: %+v comes after %s", f, i, last)
			}
			last = i.ID
		}
		if seen += len(found); next == "" {
			return seen
		}
		if f.After = next; between != nil {
			between()
		}
	}
}

// TestIncidentKeys: only keys that a page gave out are taken.
func TestIncidentKeys(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	for _, key := range []string{"x", ".", "1.", ".a", "-1.a", "01.a", "1.a b", "1." + strings.Repeat("a", 65)} {
		if _, _, err := s.Incidents(t.Context(), IncidentFilter{After: key}); !errors.Is(err, control.ErrUnknownCursor) {
			t.Errorf("incidents after %q: %v, want ErrKey", key, err)
		}
		if _, _, err := s.Silences(t.Context(), SilenceFilter{After: key}); !errors.Is(err, control.ErrUnknownCursor) {
			t.Errorf("silences after %q: %v, want ErrKey", key, err)
		}
	}
}

// TestStory: an incident comes with all that belongs to it and nothing else, in
// order.
func TestStory(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	for _, id := range []string{"i-0", "i-1", "i-2"} {
		for seq := 1; seq <= 3; seq++ {
			saveBatch(t, s, childBatch(id, seq), planPost)
		}
	}
	st := mustLoadIncident(t, s, "i-1")
	checkHistory(t, st)
	if diff := cmp.Diff(childBatch("i-1", 3).Incidents[0], st.Incident); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, id := range []string{"", "i", "i-1 ", "' OR 1=1 --", "i-1\x00", strings.Repeat("i", 70_000)} {
		if got, err := s.IncidentHistory(t.Context(), id); !errors.Is(err, ErrNoIncident) || got.Incident.ID != "" {
			t.Errorf("%.20q: %v, %v, want ErrNoIncident", id, got.Incident.ID, err)
		}
	}
}

// TestLongStory: of an incident without end the latest is returned.
func TestLongStory(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	b := engine.Batch{Incidents: []engine.Incident{fullIncident("i-1")}}
	for seq := 1; seq <= maxHistory+5; seq++ {
		b.Events = append(b.Events, fullEvent("i-1", seq))
	}
	saveBatch(t, s, b, planPost)
	st := mustLoadIncident(t, s, "i-1")
	for what, first := range map[string]int{"events": st.Events[0].Seq, "deliveries": st.Deliveries[0].Seq} {
		if first != 6 || len(st.Events) != maxHistory || len(st.Deliveries) != maxHistory {
			t.Errorf("%s from %d on, %d and %d of them", what, first, len(st.Events), len(st.Deliveries))
		}
	}
}

// TestSilenceList: silences are listed newest first, in pages.
func TestSilenceList(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	var b engine.Batch
	for i := range 10 {
		sil := fullSilence(fmt.Sprint("rule", i))
		sil.ID, sil.From, sil.EndHandled = fmt.Sprintf("s-%d", i), noon.Add(time.Duration(i/3)*time.Second), i%2 == 0
		b.Silences = append(b.Silences, sil)
	}
	saveBatch(t, s, b, nil)
	for _, standing := range []bool{false, true} {
		var got, want []engine.Silence
		for f := (SilenceFilter{Active: standing, Limit: 3}); ; {
			found, next, err := s.Silences(t.Context(), f)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, found...)
			if f.After = next; next == "" {
				break
			}
		}
		for _, sil := range slices.Backward(b.Silences) {
			if !standing || !sil.EndHandled {
				want = append(want, sil)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("standing %v (-want +got):\n%s", standing, diff)
		}
	}
}

// TestIncidentPlans: what is asked often is answered by an index, in its order.
func TestIncidentPlans(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	list := func(f IncidentFilter) (string, []any) {
		return f.statement(newPage(&reader{}, f.Since, f.After, f.Limit))
	}
	check := func(want, text string, args ...any) {
		t.Helper()
		if steps := explainPlan(t, s.reader, text, args...); len(steps) != 1 || steps[0] != want {
			t.Errorf("%q, want %q alone", steps, want)
		}
	}
	for want, f := range map[string]IncidentFilter{
		"SEARCH incidents USING INDEX incidents_by_time (opened_ms>?)":                                        {Pool: "p", Rule: "r"},
		"SEARCH incidents USING INDEX incidents_by_time (opened_ms>? AND (opened_ms,id)<(?,?))":               {After: "5.x"},
		"SEARCH incidents USING INDEX incidents_by_end (ended_ms=? AND opened_ms>?)":                          {Open: true},
		"SEARCH incidents USING INDEX incidents_by_end (ended_ms=? AND opened_ms>? AND (opened_ms,id)<(?,?))": {Open: true, After: "5.x", Pool: "p"},
	} {
		text, args := list(f)
		check(want, text, args...)
	}
	check("SCAN deliveries USING INDEX deliveries_pending", selectPending(), 10) // the index holds no others
	check("SEARCH delivery_roots USING INDEX sqlite_autoindex_delivery_roots_1 (incident=? AND destination=?)", selectThread(), "i", "page")
	check("SEARCH incident_events USING INDEX sqlite_autoindex_incident_events_1 (incident=?)", selectEventsSQL(), "i", 10)
	check("SEARCH deliveries USING INDEX sqlite_autoindex_deliveries_1 (incident=?)", selectDeliveriesSQL(), "i", 10)
	check("SEARCH slo_hours USING INDEX sqlite_autoindex_slo_hours_1 (pool=? AND hour_ms>?)", selectSLO, "p", 0)
	for name, text := range map[string]string{"load": selectLoadedSQL(), "ended": selectEnded} {
		args := map[string][]any{"load": {10}, "ended": {10, 10}}[name]
		for _, step := range explainPlan(t, s.reader, text, args...) {
			if step == "SCAN incidents USING COVERING INDEX incidents_due" { // it holds few
				continue
			}
			if strings.HasPrefix(step, "SCAN incidents") || strings.HasPrefix(step, "SCAN d") {
				t.Errorf("%s: %s", name, step)
			}
		}
	}
}

// TestManyAtOnce: what gathered while the record could not be written is recorded
// in one piece.
func TestManyAtOnce(t *testing.T) {
	s := openTestStore(t, t.TempDir())
	var b engine.Batch
	for i := range 200 {
		id := fmt.Sprintf("i-%d", i)
		b.Incidents = append(b.Incidents, fullIncident(id))
		for seq := range eventsPerIncident() {
			b.Events = append(b.Events, fullEvent(id, seq+1))
		}
	}
	began := time.Now()
	saveBatch(t, s, b, planPost)
	t.Logf("%d events in %v", len(b.Events), time.Since(began))
	ds, err := s.Outbox().Pending(t.Context(), maxPending)
	if err != nil || len(ds) != len(b.Events) || len(mustLoad(t, s).Incidents) != 200 {
		t.Errorf("%d deliveries, %v, want %d", len(ds), err, len(b.Events))
	}
}

// eventsPerIncident is smaller under the race detector, which makes SQLite ten times slower.
func eventsPerIncident() int {
	if raceEnabled {
		return 5
	}
	return 50
}

// TestUnreadableDelivery: a delivery that makes no sense keeps no other from being sent.
func TestUnreadableDelivery(t *testing.T) {
	s := storeKinds["ephemeral"](t)
	saveOutbox(t, s, alerts.Changes{Add: []alerts.Delivery{newPost("i-1", 1, alerts.ToPage, alerts.Queued), newPost("i-2", 1, alerts.ToPage, alerts.Retry)}})
	if _, err := s.writer.ExecContext(t.Context(), "UPDATE deliveries SET body = '{' WHERE incident = 'i-1'"); err != nil {
		t.Fatal(err)
	}
	o := s.Outbox()
	for range 2 {
		ds, err := o.Pending(t.Context(), 1)
		if err != nil || len(ds) != 1 || ds[0].Incident != "i-2" || o.unreadable.Load() != 1 {
			t.Errorf("%+v, %v, %d odd", ds, err, o.unreadable.Load())
		}
	}
	if ds, err := o.Pending(t.Context(), -1); err != nil || len(ds) != 0 {
		t.Errorf("%d deliveries, %v, where none were asked for", len(ds), err)
	}
	if _, err := s.writer.ExecContext(t.Context(), "UPDATE deliveries SET body = '{}' WHERE incident = 'i-1'"); err != nil {
		t.Fatal(err)
	}
	if ds, _ := o.Pending(t.Context(), 10); len(ds) != 1 {
		t.Errorf("a body without anything was taken: %+v", ds)
	}
}
