package api_test

import (
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strings"
	"testing"
	"time"

	"headgate/engine"
	"headgate/web/api"
)

func TestIncidentLife(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		i := r.openIncident("queue_age", "a", 27.4)
		if i.Level != engine.LevelPage || i.Peak != engine.LevelPage || i.Value != 27.4 || i.Threshold != 25 || i.Unit != "s" || !i.Open() || i.Resolution != "" ||
			i.AckedBy != "" || !i.AckUntil.IsZero() || i.Silenced || i.Pool != "a" || i.Summary == "" || i.Impact == "" || i.Runbook != "queue_age" {
			t.Errorf("open: %+v", i)
		}
		if time.Since(i.Opened) > 2*time.Second {
			t.Errorf("opened_at %s", i.Opened)
		}
		r.setValue("queue_age", "a", 18)
		r.setValue("queue_age", "a", 3)
		var report api.IncidentReport
		r.get("/api/v1/incidents/"+i.ID, &report)
		if report.Open() || report.Resolution != engine.Recovered || report.Peak != engine.LevelPage || !report.Recorded || report.Truncated {
			t.Errorf("ended: %+v", report)
		}
		var kinds []string
		for n, e := range report.Events {
			kinds = append(kinds, string(e.Kind))
			if e.Seq != n+1 || e.At.IsZero() {
				t.Errorf("event %+v", e)
			}
		}
		if got := strings.Join(kinds, " "); got != "opened deescalated resolved" {
			t.Errorf("timeline %s", got)
		}
		var list api.IncidentList
		r.get("/api/v1/incidents?open=true", &list)
		if len(list.Items) != 0 {
			t.Errorf("still open: %+v", list.Items)
		}
	})
}

func TestIncidentDeliveries(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		i := r.openIncident("queue_age", "a", 20)
		at := time.Date(2026, 1, 31, 11, 29, 0, 250_999_999, time.FixedZone("east", 3600))
		r.incidents.SetDeliveries(i.ID, []api.Delivery{
			{ID: "1", Seq: 1, Kind: "post", Destination: "page", State: "retry", Attempts: 3, Created: at, Tried: at, NextAttempt: at.Add(time.Minute), Reason: "rate limited"},
			{ID: "2", Seq: 1, Kind: "reply", Destination: "page", State: "queued", Created: at},
			{ID: "3", Seq: 2, Kind: "edit", Destination: "page", State: "sent", Attempts: 1, Created: at, Tried: at, Channel: "C1", AmbiguousAttempts: 1},
		}...)
		var report api.IncidentReport
		r.get("/api/v1/incidents/"+i.ID, &report)
		d := report.Deliveries
		if len(d) != 3 || !d[0].Created.Equal(at) || !d[0].NextAttempt.Equal(at.Add(time.Minute)) || d[0].Reason != "rate limited" ||
			!d[1].Tried.IsZero() || !d[1].NextAttempt.IsZero() || !d[2].NextAttempt.IsZero() || !d[2].Tried.Equal(at) || d[2].Channel != "C1" || d[2].AmbiguousAttempts != 1 {
			t.Errorf("deliveries %+v", d)
		}
	})
}

// TestIncidentsOfABrokenRecord: open ones are shown from memory, with what is not
// known said.
func TestIncidentsOfABrokenRecord(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		before := r.openIncident("queue_age", "a", 30)
		r.incidents.SetError(errDisk)
		during := r.openIncident("queue_age", "b", 30)
		for _, id := range []string{before.ID, during.ID} {
			var report api.IncidentReport
			r.get("/api/v1/incidents/"+id, &report)
			if report.Recorded || report.ID != id || report.Events == nil || report.Deliveries == nil || len(report.Events) != 0 {
				t.Errorf("report %+v", report)
			}
		}
		w := r.request(testRequest{method: "GET", path: "/api/v1/incidents"})
		if p := r.problem(w, http.StatusServiceUnavailable); p.Type != api.TypeRecordUnavailable || !strings.Contains(p.Detail, "open=true") {
			t.Errorf("problem %+v", p)
		}
		w = r.request(testRequest{method: "GET", path: "/api/v1/incidents/0198"})
		r.problem(w, http.StatusServiceUnavailable)
		if strings.Contains(w.Body.String(), "/some/where") || !strings.Contains(r.log.String(), "/some/where") {
			t.Error("the log says what broke, the answer does not")
		}
		var ack api.AckReply
		r.reply(r.post("/api/v1/incidents/"+during.ID+"/ack", `{}`, "ana"), &ack)
		r.incidents.SetError(nil)
		time.Sleep(10 * time.Second)
		var report api.IncidentReport
		r.get("/api/v1/incidents/"+during.ID, &report)
		if !report.Recorded || len(report.Events) != 2 || report.AckedBy != "ana" {
			t.Errorf("after the record is whole again: %+v", report)
		}
	})
}

// TestIncidentsAreNow: what is not recorded yet counts.
func TestIncidentsAreNow(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		i := r.openIncident("queue_age", "a", 20)
		old := r.incidents.Stored(i.ID)
		r.setValue("queue_age", "a", 21)
		r.incidents.Add(old)
		var list api.IncidentList
		r.get("/api/v1/incidents", &list)
		if len(list.Items) != 1 || list.Items[0].Value != 21 {
			t.Errorf("list %+v", list)
		}
		var report api.IncidentReport
		r.get("/api/v1/incidents/"+i.ID, &report)
		if report.Value != 21 || !report.Recorded {
			t.Errorf("value %v, recorded %v: no step is missing in the record", report.Value, report.Recorded)
		}
		old.Seq--
		r.incidents.Add(old)
		r.get("/api/v1/incidents/"+i.ID, &report)
		if report.Recorded {
			t.Error("a step is not recorded yet, and the answer says that all are")
		}
	})
}

func TestIncidentPages(t *testing.T) {
	for _, query := range []string{"", "open=true&"} {
		t.Run(query, func(t *testing.T) {
			withEngine(t, func(t *testing.T, r *engineFixture) {
				var want []string // newest first
				for _, key := range [][2]string{{"queue_age", "a"}, {"journal", ""}, {"queue_age", "b"}} {
					want = append([]string{r.openIncident(key[0], key[1], 20).ID}, want...)
				}
				var got []string
				after := ""
				for range want {
					var list api.IncidentList
					r.get("/api/v1/incidents?"+query+"limit=1"+after, &list)
					got = append(got, list.Items[0].ID)
					if (list.Next == "") != (len(got) == len(want)) {
						t.Errorf("next %q after %d", list.Next, len(got))
					}
					after = "&after=" + list.Next
				}
				if strings.Join(got, " ") != strings.Join(want, " ") {
					t.Errorf("pages %v, want %v", got, want)
				}
				for filter, n := range map[string]int{"pool=a": 1, "rule=queue_age": 2, "rule=queue_age&pool=b": 1, "pool=none": 0, "since=1d": 3, "since=900ms": 1, "limit=1000": 3} {
					var list api.IncidentList
					r.get("/api/v1/incidents?"+query+filter, &list)
					if len(list.Items) != n || list.Items == nil || list.Next != "" {
						t.Errorf("%s: %+v, want %d", filter, list, n)
					}
				}
			})
		})
	}
}

func TestIncidentsRefuse(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		for query, detail := range map[string]string{
			"open=yes":                          "open must be true",
			"open=true&open=true":               "must come once",
			"since=yesterday":                   "since must be a span",
			"limit=0":                           "limit must be a number from 1 to 1000",
			"after=../x":                        "after must be the next",
			"after=nonsense":                    "after must be the next",
			"rule=" + strings.Repeat("x", 201):  "rule must have at most 200",
			"after=" + strings.Repeat("x", 201): "at most 200 characters",
			"offset=3":                          "there are open, since, pool, rule, after, limit",
		} {
			p := r.problem(r.request(testRequest{method: "GET", path: "/api/v1/incidents?" + query}), http.StatusBadRequest)
			if !strings.Contains(p.Detail, detail) {
				t.Errorf("%s: detail %q, want %q", query, p.Detail, detail)
			}
		}
		for _, id := range []string{"0198a", "%2e%2e", "a%2fb", "%00", "%1b%5b2J", strings.Repeat("x", 65), "x%20y"} {
			w := r.request(testRequest{method: "GET", path: "/api/v1/incidents/" + id})
			if p := r.problem(w, http.StatusNotFound); p.Type != api.TypeUnknownIncident && p.Type != "about:blank" || len(p.Detail) > 300 {
				t.Errorf("%s: %+v", id, p)
			}
		}
		r.problem(r.request(testRequest{method: "GET", path: "/api/v1/incidents/0198a?x=1"}), http.StatusBadRequest)
	})
}

// TestIncidentNumbers: whatever the record holds, no NaN and no unbounded answer
// comes out.
func TestIncidentNumbers(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		const id = "0198aaaa"
		var events []engine.Event
		var deliveries []api.Delivery
		for n := range api.MaxTimeline + 7 {
			events = append(events, engine.Event{Incident: id, Seq: n + 1, Value: math.Inf(-1)})
			deliveries = append(deliveries, api.Delivery{ID: fmt.Sprint(n)})
		}
		r.incidents.Add(engine.Incident{ID: id, Level: 99, Value: math.NaN(), Threshold: math.Inf(1), Resolution: "x", Ended: time.Now()}, events...)
		r.incidents.SetDeliveries(id, deliveries...)
		w := r.request(testRequest{method: "GET", path: "/api/v1/incidents/" + id})
		var report api.IncidentReport
		r.reply(w, &report)
		if report.Value != 0 || report.Threshold != 0 || report.Events[0].Value != 0 || !report.Truncated {
			t.Errorf("report %+v", report.Incident)
		}
		if len(report.Events) != api.MaxTimeline || report.Events[0].Seq != 8 || len(report.Deliveries) != api.MaxTimeline {
			t.Errorf("%d events from %d on, %d deliveries", len(report.Events), report.Events[0].Seq, len(report.Deliveries))
		}
		var list api.IncidentList
		r.get("/api/v1/incidents", &list)
		if len(list.Items) != 1 || list.Items[0].Value != 0 {
			t.Errorf("list %+v", list)
		}
	})
}

func TestStatusShowsOpenIncidents(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		r.openIncident("queue_age", "a", 20)
		newest := r.openIncident("queue_age", "b", 30)
		r.openIncident("journal", "", 20)
		r.setValue("journal", "", 1)
		var s api.Status
		r.get("/api/v1/status", &s)
		if len(s.IncidentsOpen) != 2 || s.IncidentsOpen[0].ID != newest.ID || s.IncidentsOpen[1].Pool != "a" {
			t.Errorf("open %+v", s.IncidentsOpen)
		}
	})
}

// TestMonitoringDisabled: a headgate without rules says so, and the rest of it works.
func TestMonitoringDisabled(t *testing.T) {
	r := newFixture(t)
	for _, c := range []testRequest{
		{method: "GET", path: "/api/v1/incidents"}, {method: "GET", path: "/api/v1/incidents/0198"},
		{method: "POST", path: "/api/v1/incidents/0198/ack", body: "{}"}, {method: "GET", path: "/api/v1/silences"},
		{method: "POST", path: "/api/v1/silences", body: "{}"}, {method: "DELETE", path: "/api/v1/silences/0198"},
	} {
		if p := r.problem(r.request(c), http.StatusNotFound); p.Type != api.TypeMonitoringDisabled {
			t.Errorf("%s %s: %+v", c.method, c.path, p)
		}
	}
	var s struct {
		Open json.RawMessage `json:"incidents_open"`
	}
	if err := json.Unmarshal(r.request(testRequest{method: "GET", path: "/api/v1/status"}).Body.Bytes(), &s); err != nil || string(s.Open) != "[]" {
		t.Errorf("incidents_open %s, %v", s.Open, err)
	}
}

func TestEngineNeedsIncidents(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		c := api.AdminConfig{Token: token, Control: r.Service, Status: r.Control, Audit: r.Record}
		_, err := api.NewAdmin(c)
		if err == nil {
			t.Error("an admin API without a log")
		}
		c.Log = slogDiscard()
		if _, err := api.NewAdmin(c); err == nil || !strings.Contains(err.Error(), "go together") {
			t.Errorf("what watches without a record: %v", err)
		}
	})
}

func TestIncidentMethods(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		for _, tt := range []struct{ method, path, allow string }{
			{"POST", "/api/v1/incidents", "GET, HEAD"},
			{"DELETE", "/api/v1/incidents/0198", "GET, HEAD"},
			{"GET", "/api/v1/incidents/0198/ack", "POST"},
			{"PUT", "/api/v1/silences", "GET, HEAD, POST"},
			{"GET", "/api/v1/silences/0198", "DELETE"},
		} {
			w := r.request(testRequest{method: tt.method, path: tt.path})
			if r.problem(w, http.StatusMethodNotAllowed); w.Header().Get("Allow") != tt.allow {
				t.Errorf("%s %s: Allow %q, want %q", tt.method, tt.path, w.Header().Get("Allow"), tt.allow)
			}
		}
		for _, path := range []string{"/api/v1/incidents/0198/", "/api/v1/incidents/0198/ack/", "/api/v1/incidents//ack", "/api/v1/silences/a/b"} {
			r.problem(r.request(testRequest{method: "GET", path: path}), http.StatusNotFound)
		}
	})
}
