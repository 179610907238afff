package api_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headgate/engine"
	"headgate/web/api"
	"headgate/web/api/apitest"
)

func TestIncidentLife(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		i := r.openIncident("queue_age", "a", 27.4)
		if i.Level != engine.LevelPage || i.Peak != engine.LevelPage || *i.Value != 27.4 || *i.Threshold != 25 || i.Unit != "s" || !i.Open() || i.Resolution != "" ||
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
		if len(list.Items) != 1 || *list.Items[0].Value != 21 {
			t.Errorf("list %+v", list)
		}
		var report api.IncidentReport
		r.get("/api/v1/incidents/"+i.ID, &report)
		if *report.Value != 21 || !report.Recorded {
			t.Errorf("value %v, recorded %v: no step is missing in the record", *report.Value, report.Recorded)
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
			"open=true&open=true":               "must be given once",
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
		if report.Value != nil || report.Threshold != nil || report.Events[0].Value != nil || !report.Truncated {
			t.Errorf("report %+v", report.Incident)
		}
		if len(report.Events) != api.MaxTimeline || report.Events[0].Seq != 8 || len(report.Deliveries) != api.MaxTimeline {
			t.Errorf("%d events from %d on, %d deliveries", len(report.Events), report.Events[0].Seq, len(report.Deliveries))
		}
		var list api.IncidentList
		r.get("/api/v1/incidents", &list)
		if len(list.Items) != 1 || list.Items[0].Value != nil {
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

// TestMonitoringDisabled: a headgate without rules reports it, and the rest of the API works.
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

func slogDiscard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// TestAck: the first has it, the second learns who was first, and when it has
// expired another person may have it.
func TestAck(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		path := "/api/v1/incidents/" + r.openIncident("queue_age", "a", 30).ID + "/ack"
		var first api.AckReply
		r.reply(r.post(path, `{"for":"30m"}`, "ana@ops1"), &first)
		if first.By != "ana@ops1" || time.Until(first.Until).Round(time.Minute) != 30*time.Minute ||
			first.Incident.AckedBy != "ana@ops1" || !first.Incident.AckUntil.Equal(first.Until) {
			t.Errorf("first %+v", first)
		}
		for _, who := range []string{"ben@ops2", "ana@ops1"} {
			p := r.problem(r.post(path, `{"for":"9h"}`, who), http.StatusConflict)
			if p.Type != api.TypeAlreadyAcked || p.Acked == nil || p.Acked.By != "ana@ops1" || !p.Acked.Until.Equal(first.Until) ||
				!strings.Contains(p.Detail, "acknowledged by ana@ops1 until "+first.Until.Format(time.RFC3339)) {
				t.Errorf("%s comes second: %+v", who, p)
			}
		}
		time.Sleep(31 * time.Minute)
		var later api.AckReply
		r.reply(r.post(path, `{}`, "ben@ops2"), &later)
		if later.By != "ben@ops2" {
			t.Errorf("later %+v", later)
		}
	})
}

// TestAckTwoAtOnce: of two at the same time one has it, and the other hears so.
func TestAckTwoAtOnce(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		path := "/api/v1/incidents/" + r.openIncident("queue_age", "a", 30).ID + "/ack"
		const n = 20
		codes := make(chan int, n)
		for range n {
			go func() { codes <- r.post(path, `{}`, "somebody").Code }()
		}
		answers := map[int]int{}
		for range n {
			answers[<-codes]++
		}
		if answers[http.StatusOK] != 1 || answers[http.StatusConflict] != n-1 {
			t.Errorf("answers %v", answers)
		}
	})
}

func TestAckRefuses(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		id := r.openIncident("queue_age", "a", 30).ID
		path := "/api/v1/incidents/" + id + "/ack"
		tests := []struct {
			name, path, body, actor string
			status                  int
			detail                  string
		}{
			{"too long", path, `{"for":"25h"}`, "a", 400, "up to 24h0m0s, not 25h0m0s"},
			{"no time", path, `{"for":"0s"}`, "a", 400, "for must be a span such as 1h"},
			{"back in time", path, `{"for":"-1h"}`, "a", 400, "for must be a span"},
			{"no span", path, `{"for":"soon"}`, "a", 400, "for must be a span"},
			{"days without end", path, `{"for":"99999999999999999999d"}`, "a", 400, "for must be a span"},
			{"unknown key", path, `{"until":"x"}`, "a", 400, `"until" that is not known`},
			{"number", path, `{"for":3600}`, "a", 400, `must have a string for "for"`},
			{"nothing", path, ``, "a", 415, "application/json"},
			{"a list", path, `[]`, "a", 400, "must be a JSON object"},
			{"actor of two lines", path, `{}`, "a\tb", 400, "Headgate-Actor must be one line"},
			{"actor too long for the engine", path, `{}`, strings.Repeat("é", 100) + "x", 400, "at most 100 characters"},
			{"parameter", path + "?force=1", `{}`, "a", 400, "not known"},
			{"none", "/api/v1/incidents/0198/ack", `{}`, "a", 404, "may have been resolved"},
			{"no ID", "/api/v1/incidents/%1b/ack", `{}`, "a", 404, "cannot be an ID"},
		}
		for _, tt := range tests {
			p := r.problem(r.post(tt.path, tt.body, tt.actor), tt.status)
			if !strings.Contains(p.Detail, tt.detail) || len(p.Detail) > 300 {
				t.Errorf("%s: detail %q, want %q", tt.name, p.Detail, tt.detail)
			}
		}
		var report api.IncidentReport
		if r.get("/api/v1/incidents/"+id, &report); report.AckedBy != "" {
			t.Errorf("acknowledged by %s", report.AckedBy)
		}
		r.setValue("queue_age", "a", 0)
		if p := r.problem(r.post(path, `{}`, "a"), http.StatusNotFound); p.Type != api.TypeUnknownIncident {
			t.Errorf("an incident that is over: %+v", p)
		}
	})
}

// TestStoppedEngine: a stopped engine rejects commands with a reason; its last state
// is still shown.
func TestStoppedEngine(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		id := r.openIncident("queue_age", "a", 30).ID
		if err := r.engine.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Fatal(err)
		}
		for _, c := range []testRequest{
			{method: "POST", path: "/api/v1/incidents/" + id + "/ack", body: `{}`},
			{method: "POST", path: "/api/v1/silences", body: `{"rule":"queue_age","for":"1h","reason":"x"}`},
			{method: "DELETE", path: "/api/v1/silences/0198"},
		} {
			p := r.problem(r.request(c), http.StatusServiceUnavailable)
			if !strings.Contains(p.Detail, "nothing was changed") {
				t.Errorf("%s: %+v", c.path, p)
			}
		}
		var list api.IncidentList
		if r.get("/api/v1/incidents?open=true", &list); len(list.Items) != 1 {
			t.Errorf("open %+v", list)
		}
	})
}

func FuzzParseSpan(f *testing.F) {
	for _, s := range []string{"1h", "90m", "2d", "0", "-1h", "1e9h", "99999999999999999999d", "", "d", "NaN", "36500d", "36501d"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, err := api.ParseDuration(s)
		if err == nil && (d <= 0 || d > 36500*24*time.Hour) {
			t.Errorf("%q is %s", s, d)
		}
		if err != nil && d != 0 {
			t.Errorf("%q: %s beside an error", s, d)
		}
	})
}

func (r *engineFixture) silence(body, actor string) api.SilenceReply {
	r.Helper()
	var reply api.SilenceReply
	r.reply(r.post("/api/v1/silences", body, actor), &reply)
	return reply
}

func (r *engineFixture) silences(query string) api.SilenceList {
	r.Helper()
	var list api.SilenceList
	r.get("/api/v1/silences?"+query, &list)
	return list
}

func TestSilence(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		reply := r.silence(`{"rule":"queue_age","pool":"a","for":"1h","reason":"load test"}`, "ana")
		s := reply.Silence
		if !reply.Created || s.ID == "" || s.Rule != "queue_age" || s.Pool != "a" || s.By != "ana" || s.Reason != "load test" ||
			time.Until(s.Until).Round(time.Minute) != time.Hour {
			t.Errorf("reply %+v", reply)
		}
		again := r.silence(`{"rule":"queue_age","pool":"a","for":"1h","reason":"me too"}`, "ben")
		if again.Created || again.Silence != s {
			t.Errorf("the same wish again: %+v", again)
		}
		if i := r.openIncident("queue_age", "a", 30); !i.Silenced {
			t.Error("the incident of a silenced rule is not shown so")
		}
		if i := r.openIncident("queue_age", "b", 30); i.Silenced {
			t.Error("the silence of a pool covers another")
		}
		if list := r.silences(""); len(list.Items) != 1 || list.Items[0] != s || list.Next != "" {
			t.Errorf("list %+v", list)
		}
		time.Sleep(time.Hour + time.Second)
		if list := r.silences(""); list.Items == nil || len(list.Items) != 0 {
			t.Errorf("after its time: %+v", list)
		}
		if i := r.openIncident("queue_age", "a", 31); i.Silenced {
			t.Error("still silenced after its time")
		}
	})
}

func TestUnsilence(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		s := r.silence(`{"rule":"queue_age","for":"2d","reason":"why"}`, "ana").Silence
		path := "/api/v1/silences/" + s.ID
		var lifted engine.Silence
		r.reply(r.request(testRequest{method: http.MethodDelete, path: path}), &lifted)
		if lifted.ID != s.ID || !lifted.Until.Before(s.Until) {
			t.Errorf("lifted %+v", lifted)
		}
		if p := r.problem(r.request(testRequest{method: http.MethodDelete, path: path}), http.StatusNotFound); p.Type != api.TypeUnknownSilence {
			t.Errorf("lifted twice: %+v", p)
		}
		if list := r.silences(""); len(list.Items) != 0 {
			t.Errorf("list %+v", list)
		}
		for path, status := range map[string]int{
			"/api/v1/silences/%2e%2e":   http.StatusNotFound,
			"/api/v1/silences/a%2fb":    http.StatusNotFound,
			"/api/v1/silences/0198?x=1": http.StatusBadRequest,
		} {
			r.problem(r.request(testRequest{method: http.MethodDelete, path: path}), status)
		}
	})
}

func TestSilenceRefuses(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		long := strings.Repeat("x", 201)
		for body, want := range map[string]struct {
			status int
			detail string
		}{
			`{}`:                                {400, "rule must name a rule"},
			`{"rule":"queue_age","reason":"x"}`: {400, "for must be a span"},
			`{"rule":"queue_age","for":"1h"}`:   {400, "reason must say why"},
			`{"rule":"queue_age","for":"31d","reason":"x"}`:                               {400, "a silence lasts up to 720h0m0s"},
			`{"rule":"queue_age","for":"1h","reason":"a\nb"}`:                             {400, "reason must be one line"},
			`{"rule":"queue_age","for":"1h","reason":"\u202e"}`:                           {400, "reason must be one line"},
			`{"rule":"queue_age\u001b[2J","for":"1h","reason":"x"}`:                       {400, "rule must be one line"},
			`{"rule":"queue_age","for":"1h","reason":"` + strings.Repeat("é", 501) + `"}`: {400, "at most 500 characters"},
			`{"rule":"queue_age","for":"1h","reason":"` + strings.Repeat("木", 500) + `"}`: {400, "at most 1000 fit"},
			`{"rule":"` + long + `","for":"1h","reason":"x"}`:                             {400, "at most 200"},
			`{"rule":"queue_age","pool":"` + long + `","for":"1h","reason":"x"}`:          {400, "at most 200"},
			`{"rule":"queue_age","until":"1h","reason":"x"}`:                              {400, "not known: there are for, pool, reason, rule"},
			`{"rule":["queue_age"],"for":"1h","reason":"x"}`:                              {400, "a string"},
			`{"rule":"queue","for":"1h","reason":"x"}`:                                    {404, "there are journal, queue_age"},
			`{"rule":"queue_age","pool":"c","for":"1h","reason":"x"}`:                     {404, `in pool "c"`},
			`rule=queue_age`: {400, "must be a JSON object"},
		} {
			p := r.problem(r.post("/api/v1/silences", body, "ana"), want.status)
			if !strings.Contains(p.Detail, want.detail) || len(p.Detail) > 400 {
				t.Errorf("%.80s: detail %q, want %q", body, p.Detail, want.detail)
			}
		}
		if p := r.problem(r.post("/api/v1/silences", `{"rule":"x","for":"1h","reason":"x"}`, "a"), 404); p.Type != api.TypeUnknownRule {
			t.Errorf("unknown rule: %+v", p)
		}
		if list := r.silences(""); len(list.Items) != 0 {
			t.Errorf("silenced %+v", list)
		}
		for query, detail := range map[string]string{"after=%2f": "after must be", "limit=x": "limit must be", "pool=a": "not known"} {
			p := r.problem(r.request(testRequest{method: "GET", path: "/api/v1/silences?" + query}), http.StatusBadRequest)
			if !strings.Contains(p.Detail, detail) {
				t.Errorf("%s: %q", query, p.Detail)
			}
		}
	})
}

// TestSilencePages: there is a bound, and pages lead through all of them.
func TestSilencePages(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		const most = 1000
		for n := range most {
			r.silence(fmt.Sprintf(`{"rule":"queue_age","for":"%dm","reason":"x"}`, 10+2*n), "ana")
		}
		w := r.post("/api/v1/silences", `{"rule":"queue_age","for":"700h","reason":"x"}`, "ana")
		if p := r.problem(w, http.StatusConflict); !strings.Contains(p.Detail, "remove some first") {
			t.Errorf("one too many: %+v", p)
		}
		seen := map[string]bool{}
		query := "limit=300"
		for range 4 {
			list := r.silences(query)
			for n, s := range list.Items {
				if n > 0 && s.ID >= list.Items[n-1].ID {
					t.Fatal("not newest first")
				}
				seen[s.ID] = true
			}
			query = "limit=300&after=" + list.Next
			if (list.Next == "") != (len(seen) == most) {
				t.Errorf("next %q after %d", list.Next, len(seen))
			}
		}
		if len(seen) != most {
			t.Errorf("%d of %d seen", len(seen), most)
		}
	})
}

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for !holds() {
		select {
		case <-t.Context().Done():
			t.Fatalf("%s did not come", what)
		case <-time.After(time.Millisecond):
		}
	}
}

// TestIncidentClient goes through everything over a real listener.
func TestIncidentClient(t *testing.T) {
	r := newEngineFixture(t, 5*time.Millisecond)
	s := httptest.NewServer(r.handler)
	defer s.Close()
	c, ctx := dial(t, s.URL, "ana@ops1"), t.Context()
	r.signals.Set("queue_age", "a", 30)
	var list api.IncidentList
	eventually(t, "an incident", func() bool {
		var err error
		if list, err = c.Incidents(ctx, api.IncidentQuery{Open: true, Pool: "a", Rule: "queue_age", Since: time.Now().Add(-time.Hour), Limit: 5}); err != nil {
			t.Fatal(err)
		}
		return len(list.Items) == 1
	})
	id := list.Items[0].ID
	ack, err := c.Ack(ctx, id, api.AckRequest{For: "1h"})
	if err != nil || ack.By != "ana@ops1" {
		t.Fatalf("%+v, %v", ack, err)
	}
	var p *api.Problem
	if _, err = dial(t, s.URL, "ben").Ack(ctx, id, api.AckRequest{}); !errors.As(err, &p) || p.Acked == nil || p.Acked.By != "ana@ops1" {
		t.Errorf("second: %v", err)
	}
	eventually(t, "the record", func() bool {
		report, err := c.Incident(ctx, id)
		if err != nil {
			t.Fatal(err)
		}
		return report.Recorded && len(report.Events) == 2
	})
	silence, err := c.Silence(ctx, api.SilenceRequest{Rule: "queue_age", Pool: "a", For: "1h", Reason: "why"})
	if err != nil || !silence.Created {
		t.Fatalf("%+v, %v", silence, err)
	}
	if silences, err := c.Silences(ctx, "", 10); err != nil || len(silences.Items) != 1 {
		t.Errorf("%+v, %v", silences, err)
	}
	if silences, err := c.Silences(ctx, silence.Silence.ID, 0); err != nil || len(silences.Items) != 0 {
		t.Errorf("after the only one: %+v, %v", silences, err)
	}
	if lifted, err := c.Unsilence(ctx, silence.Silence.ID); err != nil || lifted.ID != silence.Silence.ID {
		t.Errorf("%+v, %v", lifted, err)
	}
	status, err := c.Status(ctx)
	if err != nil || len(status.IncidentsOpen) != 1 || status.IncidentsOpen[0].AckedBy != "ana@ops1" {
		t.Errorf("%+v, %v", status.IncidentsOpen, err)
	}
}

// TestIncidentClientIDs: what cannot be an ID is never sent.
func TestIncidentClientIDs(t *testing.T) {
	c := dial(t, "http://127.0.0.1:1", "")
	for _, id := range []string{"", "..", "../mode", "a/b", "a b", "a?b", "a#b", "é", "\n", "%2e"} {
		_, errShow := c.Incident(t.Context(), id)
		_, errAck := c.Ack(t.Context(), id, api.AckRequest{})
		_, errLift := c.Unsilence(t.Context(), id)
		for _, err := range []error{errShow, errAck, errLift} {
			var silence *api.UnreachableError
			if err == nil || errors.As(err, &silence) {
				t.Errorf("%q was sent: %v", id, err)
			}
		}
	}
}

// engineFixture is a fixture whose headgate watches, with a real engine.
type engineFixture struct {
	*fixture
	engine    *engine.Engine
	signals   *apitest.Signals
	incidents *apitest.IncidentStore
}

// newEngineFixture starts an engine that evaluates at the given interval.
func newEngineFixture(t *testing.T, every time.Duration) *engineFixture {
	t.Helper()
	r := &engineFixture{fixture: newFixture(t), signals: apitest.NewSignals(), incidents: apitest.NewIncidentStore()}
	log := slog.New(slog.NewTextHandler(r.log, nil))
	r.engine = apitest.StartEngine(t, every, r.signals, r.incidents, log)
	r.SetEngine(r.engine)
	r.serve(api.AdminConfig{Incidents: r.incidents})
	return r
}

// withEngine runs a test on a virtual clock.
func withEngine(t *testing.T, test func(t *testing.T, r *engineFixture)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newEngineFixture(t, time.Second)
		synctest.Wait()
		test(t, r)
	})
}

// setValue sets a value and lets it be evaluated and recorded.
func (r *engineFixture) setValue(rule, pool string, v float64) {
	r.signals.Set(rule, pool, v)
	time.Sleep(time.Second)
	synctest.Wait()
}

func (r *engineFixture) get(path string, v any) {
	r.Helper()
	r.reply(r.request(testRequest{method: http.MethodGet, path: path}), v)
}

func (r *engineFixture) post(path, body, actor string) *httptest.ResponseRecorder {
	r.Helper()
	return r.request(testRequest{method: http.MethodPost, path: path, body: body, header: http.Header{api.ActorHeader: {actor}}})
}

// openIncident makes trouble and returns its incident.
func (r *engineFixture) openIncident(rule, pool string, v float64) api.Incident {
	r.Helper()
	r.setValue(rule, pool, v)
	var list api.IncidentList
	r.get("/api/v1/incidents?open=true&rule="+rule+"&pool="+pool, &list)
	if len(list.Items) != 1 {
		r.Fatalf("open incidents of %s in %q: %+v", rule, pool, list.Items)
	}
	return list.Items[0]
}
