package api_test

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"headgate/web/api"
)

func slogDiscard() *slog.Logger { return slog.New(slog.DiscardHandler) }

// TestAck: the first has it, the second is told who was first, and when it has
// expired somebody else may have it.
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
		told := map[int]int{}
		for range n {
			told[<-codes]++
		}
		if told[http.StatusOK] != 1 || told[http.StatusConflict] != n-1 {
			t.Errorf("answers %v", told)
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

// TestStoppedEngine: what does not run takes no orders, and says so; what stood is
// still shown.
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
