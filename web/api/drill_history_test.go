package api_test

import (
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"headgate/runbooks/drill"
	"headgate/web/api"
)

// TestDrillHistory: sums by day, and how each drill stands.
func TestDrillHistory(t *testing.T) {
	r := newDrillFixture(t)
	broken := endedRun(30, drill.Failed)
	broken.Hypotheses = nil
	r.drills.AddRuns(endedRun(1, drill.Passed), endedRun(2, drill.Failed), endedRun(3, drill.Passed), broken)
	span := "since=2026-02-01T00:00:00Z&until=2026-04-01T00:00:00Z"
	var h api.DrillHistory
	r.get("/api/v1/drills/history?"+span, &h)
	if len(h.Days) != 2 || h.Days[0].Day != "2026-03-01" || h.Days[0].Verdicts["passed"] != 2 || h.Days[0].Verdicts["failed"] != 1 || h.Days[0].Evaluated != 3 {
		t.Fatalf("%+v", h.Days)
	}
	if d := h.Days[0]; *d.MarginMean != 0.3125 || *d.MarginMin != 0.3125 || h.Days[1].MarginMean != nil || h.Days[1].Day != "2026-03-02" {
		t.Errorf("%+v", h.Days)
	}
	if l := h.Latest; len(l) != 1 || l[0].Verdict != "failed" || l[0].Run != broken.ID || *l[0].PassedRun != endedRun(3, "").ID || !l[0].PassedAt.Equal(endedRun(3, "").Started) {
		t.Errorf("%+v", l)
	}
	r.get("/api/v1/drills/history?drill=odd&"+span, &h)
	if len(h.Days) != 0 || h.Days == nil || len(h.Latest) != 0 {
		t.Errorf("%+v", h)
	}
	for query, detail := range map[string]string{
		"since=soon": "since must be", "until=soon": "until must be", "since=1d&until=2d": "until must not be before since", "since=900d": "at most 800 days apart",
		"day=1": "is not known", "drill=" + strings.Repeat("x", 300): "drill must have",
	} {
		if p := r.problem(r.request(testRequest{method: "GET", path: "/api/v1/drills/history?" + query}), 400); !strings.Contains(p.Detail, detail) {
			t.Errorf("%s: %q, want %q", query, p.Detail, detail)
		}
	}
	s := httptest.NewServer(r.handler)
	defer s.Close()
	c := dial(t, s.URL, "ana")
	if got, err := c.DrillHistory(t.Context(), drill.HistoryQuery{Drill: "burst", Since: noon.AddDate(0, -1, 0), Until: noon.AddDate(0, 1, 0)}); err != nil || len(got.Days) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := c.DrillHistory(t.Context(), drill.HistoryQuery{Drill: url.QueryEscape("a b"), Since: time.Now()}); err != nil {
		t.Error(err)
	}
	r.drills.SetError(errDisk)
	if p := r.problem(r.request(testRequest{method: "GET", path: "/api/v1/drills/history"}), 503); p.Type != api.TypeRecordUnavailable {
		t.Errorf("%+v", p)
	}
}
