package api_test

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"headgate/engine/tsdb"
	"headgate/web/api"
)

// fakeSamples answers every query alike, and remembers what was asked.
type fakeSamples struct {
	lines    []tsdb.Series
	err      error
	hold     chan struct{} // nil: answer at once
	began    chan struct{}
	expr     string
	from, to time.Time
	step     time.Duration
}

func (s *fakeSamples) QueryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]tsdb.Series, error) {
	if s.hold != nil {
		s.began <- struct{}{}
		select {
		case <-s.hold:
		case <-ctx.Done():
		}
		return nil, nil
	}
	s.expr, s.from, s.to, s.step = expr, from, to, step
	return s.lines, s.err
}

func withSamples(t *testing.T, s api.SampleReader) *fixture {
	t.Helper()
	r := newFixture(t)
	r.serve(api.AdminConfig{Samples: s})
	return r
}

func seriesPath(name, value string, more ...string) string {
	v := url.Values{name: {value}}
	for i := 0; i+1 < len(more); i += 2 {
		v.Set(more[i], more[i+1])
	}
	return "/api/v1/series?" + v.Encode()
}

func TestSeriesAreShown(t *testing.T) {
	at := time.Date(2026, 1, 31, 11, 0, 0, 0, time.UTC)
	s := &fakeSamples{lines: []tsdb.Series{
		{Labels: map[string]string{"pool": "b"}}, {Labels: map[string]string{"pool": "a"}, Points: []tsdb.Point{{At: at, V: 1.5}, {At: at.Add(time.Minute), V: 2}}},
	}}
	r := withSamples(t, s)
	var reply api.SeriesReply
	r.reply(r.request(testRequest{method: http.MethodGet, path: seriesPath("query", "headgate_queue_depth", "from", "2026-01-31T11:00:00Z", "to", "2026-01-31T12:00:00Z", "step", "1m")}), &reply)
	want := api.SeriesReply{From: "2026-01-31T11:00:00.000Z", To: "2026-01-31T12:00:00.000Z", StepS: 60, Items: []api.Series{
		{Labels: map[string]string{"pool": "a"}, Points: []api.SeriesPoint{{At: "2026-01-31T11:00:00.000Z", V: 1.5}, {At: "2026-01-31T11:01:00.000Z", V: 2}}},
		{Labels: map[string]string{"pool": "b"}, Points: []api.SeriesPoint{}},
	}}
	if fmt.Sprint(reply) != fmt.Sprint(want) {
		t.Errorf("got  %+v\nwant %+v", reply, want)
	}
	if s.expr != "headgate_queue_depth" || s.step != time.Minute || !s.from.Equal(at) || !s.to.Equal(at.Add(time.Hour)) {
		t.Errorf("asked for %q from %s to %s every %s", s.expr, s.from, s.to, s.step)
	}
	r.request(testRequest{method: http.MethodGet, path: seriesPath("query", "1")})
	if span := s.to.Sub(s.from); span != time.Hour || s.step != 15*time.Second || time.Since(s.to) > time.Minute {
		t.Errorf("by default %s every %s", span, s.step)
	}
	r.request(testRequest{method: http.MethodGet, path: seriesPath("query", "1", "from", "7d")})
	if span := s.to.Sub(s.from); span != 7*24*time.Hour || span/s.step > api.MaxSeriesPoints {
		t.Errorf("of a week: %s every %s", span, s.step)
	}
}

// TestSeriesAreBounded: what costs too much is refused before it is asked.
func TestSeriesAreBounded(t *testing.T) {
	s := &fakeSamples{}
	r := withSamples(t, s)
	for path, want := range map[string]string{
		"/api/v1/series":                                                           "query must be an expression",
		seriesPath("query", "1", "from", "30d"):                                    "by at most 8 days",
		seriesPath("query", "1", "from", "1h", "to", "2h"):                         "from must be before to",
		seriesPath("query", "1", "from", "7d", "step", "1s"):                       "at most 2000 points: take a step of at least 303s",
		seriesPath("query", "1", "step", "10ms"):                                   "step must be at least 1s",
		seriesPath("query", "1", "step", "-1m"):                                    "step must be a span",
		seriesPath("query", "1", "from", "yesterday"):                              "from must be a span",
		seriesPath("query", "1", "to", "tomorrow"):                                 "to must be a span",
		seriesPath("query", "1", "limit", "5"):                                     "is not known",
		seriesPath("query", "1") + "&query=2":                                      "must be given once",
		seriesPath("query", "1", "from", "0001-01-01T00:00:00Z", "step", "36500d"): "by at most 8 days",
	} {
		w := r.request(testRequest{method: http.MethodGet, path: path})
		if p := r.problem(w, http.StatusBadRequest); !strings.Contains(strings.ReplaceAll(p.Detail, "5m3s", "303s"), want) {
			t.Errorf("%s: %q, want %q in it", path, p.Detail, want)
		}
	}
	if s.expr != "" {
		t.Errorf("it was asked all the same: %q", s.expr)
	}
}

func TestSeriesErrors(t *testing.T) {
	s := &fakeSamples{err: fmt.Errorf("%w: unclosed left parenthesis", tsdb.ErrQuery)}
	r := withSamples(t, s)
	get := testRequest{method: http.MethodGet, path: seriesPath("query", "(")}
	if p := r.problem(r.request(get), http.StatusBadRequest); p.Detail != "The query cannot be answered: unclosed left parenthesis." {
		t.Errorf("%q", p.Detail)
	}
	s.err = errDisk
	if p := r.problem(r.request(get), http.StatusServiceUnavailable); strings.Contains(p.Detail, "/some/where") || !strings.Contains(r.log.String(), "/some/where") {
		t.Errorf("%q; log: %s", p.Detail, r.log)
	}
	if p := newFixture(t).problem(newFixture(t).request(get), http.StatusNotFound); p.Type != api.TypeMonitoringDisabled {
		t.Errorf("without samples: %+v", p)
	}
	if w := r.request(testRequest{method: http.MethodGet, path: get.path, header: http.Header{"Authorization": {}}}); w.Code != http.StatusUnauthorized {
		t.Errorf("without the token: %d", w.Code)
	}
}

// TestFewQueriesAtOnce: rules need the machine too.
func TestFewQueriesAtOnce(t *testing.T) {
	s := &fakeSamples{hold: make(chan struct{}), began: make(chan struct{})}
	r := withSamples(t, s)
	get := testRequest{method: http.MethodGet, path: seriesPath("query", "1")}
	done := make(chan int)
	for range 2 {
		go func() { done <- r.request(get).Code }()
		<-s.began
	}
	w := r.request(get)
	if p := r.problem(w, http.StatusTooManyRequests); w.Header().Get("Retry-After") != "1" || !strings.Contains(p.Detail, "try again") {
		t.Errorf("%v %q", w.Header(), p.Detail)
	}
	close(s.hold)
	for range 2 {
		if code := <-done; code != http.StatusOK {
			t.Errorf("a query that was in time: %d", code)
		}
	}
}
