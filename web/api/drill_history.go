package api

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"headgate/runbooks/drill"
)

// defaultHistory is how far back a history goes unless it is asked to.
const defaultHistory = 365 * 24 * time.Hour

// DrillHistory is the reply to GET /api/v1/drills/history.
type DrillHistory struct {
	Days   []DrillDay    `json:"days"`   // with runs, in order
	Latest []DrillLatest `json:"latest"` // how each drill stands that was ever seen
}

// DrillDay is what the runs of a drill came to that began on one day.
type DrillDay struct {
	Day        string         `json:"day"` // of UTC, such as 2026-01-31
	Drill      string         `json:"drill"`
	Verdicts   map[string]int `json:"verdicts"`     // runs by verdict; those without runs are left out
	Evaluated  int            `json:"judged"`       // runs with a margin
	MarginMean *float64       `json:"margin_mean"`  // of the tightest margin of each; null unless judged
	MarginMin  *float64       `json:"margin_least"` // of all
}

// DrillLatest is how a drill stands.
type DrillLatest struct {
	Drill     string  `json:"drill"`
	Name      string  `json:"name"` // when it ran last
	Run       string  `json:"run"`  // the latest that ended
	Verdict   string  `json:"verdict"`
	At        string  `json:"at"`
	PassedRun *string `json:"passed_run"` // the latest that passed; null: none
	PassedAt  *string `json:"passed_at"`
}

func (a *Admin) drillHistory(w http.ResponseWriter, r *http.Request) {
	values, p := parseQuery(r, "drill", "since", "until")
	if p != nil {
		WriteProblem(w, *p)
		return
	}
	q, err := parseHistoryQuery(values, time.Now())
	if err != nil {
		WriteProblem(w, *badRequest(http.StatusBadRequest, err.Error()+"."))
		return
	}
	h, err := a.DrillHistory(r.Context(), q)
	a.reply(w, h, err)
}

// DrillHistory sums up runs by drill and day.
func (a *Admin) DrillHistory(ctx context.Context, q drill.HistoryQuery) (DrillHistory, error) {
	if a.drills == nil {
		return DrillHistory{}, noDrills()
	}
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	h, err := a.drills.Runs.History(ctx, q)
	if err != nil {
		return DrillHistory{}, a.drillProblem("read the history of drills", err)
	}
	return drillHistoryOf(h), nil
}

func parseHistoryQuery(values url.Values, now time.Time) (drill.HistoryQuery, error) {
	q := drill.HistoryQuery{Drill: values.Get("drill"), Since: now.Add(-defaultHistory), Until: now}
	if len(q.Drill) > maxParam {
		return q, fmt.Errorf("drill must have at most %d characters", maxParam)
	}
	for name, into := range map[string]*time.Time{"since": &q.Since, "until": &q.Until} {
		if text := values.Get(name); text != "" {
			at, err := ParseSince(text, now)
			if err != nil {
				return q, fmt.Errorf("%s %w", name, err)
			}
			*into = at
		}
	}
	switch {
	case q.Until.Before(q.Since):
		return q, errors.New("until must not be before since")
	case q.Until.Sub(q.Since) > drill.MaxDays*24*time.Hour:
		return q, fmt.Errorf("since and until must be at most %d days apart", drill.MaxDays)
	}
	return q, nil
}

func drillHistoryOf(h drill.History) DrillHistory {
	shown := DrillHistory{Days: []DrillDay{}, Latest: []DrillLatest{}}
	for _, d := range h.Days {
		day := DrillDay{Day: d.Day.UTC().Format(time.DateOnly), Drill: d.Drill, Verdicts: map[string]int{}, Evaluated: d.WithMargin}
		for v, n := range d.Verdicts {
			day.Verdicts[string(v)] = n
		}
		if d.WithMargin > 0 {
			day.MarginMean, day.MarginMin = finiteOrNull(d.MarginSum/float64(d.WithMargin)), finiteOrNull(d.Tightest)
		}
		shown.Days = append(shown.Days, day)
	}
	for _, l := range h.Latest {
		s := DrillLatest{Drill: l.Drill, Name: l.Name, Run: l.Run, Verdict: string(l.Verdict), At: formatTime(l.At), PassedAt: timeOrNull(l.PassedAt)}
		if l.PassedRun != "" {
			s.PassedRun = &l.PassedRun
		}
		shown.Latest = append(shown.Latest, s)
	}
	return shown
}

// DrillHistory asks for sums of what drills came to.
func (c *Client) DrillHistory(ctx context.Context, q drill.HistoryQuery) (DrillHistory, error) {
	v := url.Values{}
	for name, text := range map[string]string{"drill": q.Drill, "since": rfc3339(q.Since), "until": rfc3339(q.Until)} {
		if text != "" {
			v.Set(name, text)
		}
	}
	u := c.base.JoinPath("api/v1/drills/history")
	u.RawQuery = v.Encode()
	var h DrillHistory
	return h, c.do(ctx, http.MethodGet, u, nil, &h)
}
