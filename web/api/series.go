package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"headgate/engine/tsdb"
	"headgate/internal/format"
	"headgate/runbooks/control"
)

// Bounds of what one may ask of samples.
const (
	MaxSeriesPoints      = 2000               // of one series
	maxSeriesSpan        = 8 * 24 * time.Hour // samples are kept for less
	seriesTimeout        = 3 * time.Second
	maxConcurrentQueries = 2 // queries; those who evaluate rules need the machine too
	minStep              = time.Second
	defaultPoints        = 240 // without a step
)

// SampleReader reads samples. *tsdb.DB does. It obeys its context, and bounds points,
// series and what a query may hold by itself.
type SampleReader interface {
	QueryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]tsdb.Series, error)
}

// SeriesReply is the reply to GET /api/v1/series.
type SeriesReply struct {
	From  string   `json:"from"`
	To    string   `json:"to"`
	StepS float64  `json:"step_s"`
	Items []Series `json:"items"` // ordered by their labels
}

// Series is one series: its points may have gaps.
type Series struct {
	Labels map[string]string `json:"labels"`
	Points []SeriesPoint     `json:"points"` // oldest first
}

// SeriesPoint is a finite value at a time.
type SeriesPoint struct {
	At string  `json:"at"`
	V  float64 `json:"v"`
}

// seriesQuery is what is asked of samples.
type seriesQuery struct {
	expr     string
	from, to time.Time
	step     time.Duration
}

func (a *Admin) series(w http.ResponseWriter, r *http.Request, values url.Values) (any, error) {
	if a.config.Samples == nil {
		return nil, notFound(TypeMonitoringDisabled, "Monitoring is disabled: there are no samples.")
	}
	q, err := parseSeriesQuery(values, time.Now())
	if err != nil {
		return nil, invalid(err)
	}
	select {
	case a.querySlots <- struct{}{}:
		defer func() { <-a.querySlots }()
	default:
		w.Header().Set("Retry-After", "1")
		return nil, &Problem{Status: http.StatusTooManyRequests, Detail: "Other queries are being answered: try again in a moment."}
	}
	ctx, cancel := context.WithTimeout(r.Context(), seriesTimeout)
	defer cancel()
	lines, err := a.config.Samples.QueryRange(ctx, q.expr, q.from, q.to, q.step)
	switch {
	case errors.Is(err, tsdb.ErrQuery):
		return nil, badRequest(http.StatusBadRequest, truncateDetail(format.Sentence(err.Error()))+".")
	case err != nil:
		a.config.Log.Error("samples cannot be read", "error", err)
		return nil, &Problem{Status: http.StatusServiceUnavailable, Detail: "The samples cannot be read just now; the log says why."}
	}
	return q.reply(lines), nil
}

func (q seriesQuery) reply(lines []tsdb.Series) SeriesReply {
	reply := SeriesReply{From: formatTime(q.from), To: formatTime(q.to), StepS: control.Seconds(q.step), Items: []Series{}}
	for _, l := range lines {
		s := Series{Labels: l.Labels, Points: make([]SeriesPoint, 0, len(l.Points))}
		if s.Labels == nil {
			s.Labels = map[string]string{}
		}
		for _, p := range l.Points {
			s.Points = append(s.Points, SeriesPoint{At: formatTime(p.At), V: p.V})
		}
		reply.Items = append(reply.Items, s)
	}
	slices.SortFunc(reply.Items, func(a, b Series) int { return strings.Compare(fmt.Sprint(a.Labels), fmt.Sprint(b.Labels)) })
	return reply
}

func parseSeriesQuery(values url.Values, now time.Time) (seriesQuery, error) {
	q := seriesQuery{expr: values.Get("query"), to: now.UTC()}
	if q.expr == "" {
		return q, errors.New("query must be an expression in PromQL, such as headgate_queue_depth")
	}
	if err := parseTimes(values, now, map[string]*time.Time{"to": &q.to}); err != nil {
		return q, err
	}
	q.from = q.to.Add(-time.Hour)
	if err := parseTimes(values, now, map[string]*time.Time{"from": &q.from}); err != nil {
		return q, err
	}
	span := q.to.Sub(q.from)
	if span < 0 || span > maxSeriesSpan {
		return q, fmt.Errorf("from must be before to, by at most %d days", maxSeriesSpan/(24*time.Hour))
	}
	q.step = max((span / defaultPoints).Round(time.Second), minStep)
	if s := values.Get("step"); s != "" {
		var err error
		if q.step, err = ParseDuration(s); err != nil {
			return q, fmt.Errorf("step %w", err)
		}
	}
	switch {
	case q.step < minStep:
		return q, fmt.Errorf("step must be at least %s", minStep)
	case span/q.step >= MaxSeriesPoints:
		return q, fmt.Errorf("there may be at most %d points: take a step of at least %s, or a shorter time", MaxSeriesPoints,
			(span/MaxSeriesPoints + time.Second).Truncate(time.Second))
	}
	return q, nil
}
