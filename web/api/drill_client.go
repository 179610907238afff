package api

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"headgate/runbooks/drill"
)

// DrillPorts asks which drills there are.
func (c *Client) Drills(ctx context.Context) (DrillList, error) {
	var list DrillList
	return list, c.do(ctx, http.MethodGet, c.base.JoinPath("api/v1/drills"), nil, &list)
}

// RunDrill begins a run, or asks what one would do.
func (c *Client) RunDrill(ctx context.Context, name string, r DrillRunRequest) (DrillRunReply, error) {
	var reply DrillRunReply
	if err := CheckDrill(name); err != nil {
		return reply, err
	}
	return reply, c.do(ctx, http.MethodPost, c.base.JoinPath("api/v1/drills", url.PathEscape(name), "run"), r, &reply)
}

// Runs asks for a page of runs.
func (c *Client) Runs(ctx context.Context, q drill.Query) (DrillRunList, error) {
	u := c.base.JoinPath("api/v1/runs")
	u.RawQuery = RunParams(q).Encode()
	var list DrillRunList
	return list, c.do(ctx, http.MethodGet, u, nil, &list)
}

// RunParams writes the filters of runs as RunQuery reads them.
func RunParams(q drill.Query) url.Values {
	v := pageParams(q.After, q.Limit)
	for name, text := range map[string]string{
		"drill": q.Drill, "verdict": join(q.Verdicts, ","), "trigger": join(q.Triggers, ","), "since": rfc3339(q.Since), "until": rfc3339(q.Until),
	} {
		if text != "" {
			v.Set(name, text)
		}
	}
	if q.Running {
		v.Set("running", "true")
	}
	return v
}

func rfc3339(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// The parts of a run's series that Client.Run asks for.
const (
	FullSeries = ""
	LastPoint  = "last"
	NoSeries   = "none"
)

// Run asks for one run.
func (c *Client) Run(ctx context.Context, id, series string) (drill.Run, error) {
	var report drill.Run
	if err := CheckID(id); err != nil {
		return report, err
	}
	u := c.base.JoinPath("api/v1/runs", id)
	if series != FullSeries {
		u.RawQuery = url.Values{"series": {series}}.Encode()
	}
	return report, c.do(ctx, http.MethodGet, u, nil, &report)
}

// Abort stops a run.
func (c *Client) Abort(ctx context.Context, id, reason string) (drill.Run, error) {
	var run drill.Run
	if err := CheckID(id); err != nil {
		return run, err
	}
	return run, c.do(ctx, http.MethodPost, c.base.JoinPath("api/v1/runs", id, "abort"), ReasonRequest{Reason: reason}, &run)
}

// Freeze stops drills and keeps them from running.
func (c *Client) Freeze(ctx context.Context, reason string) (DrillFreeze, error) {
	var f DrillFreeze
	return f, c.do(ctx, http.MethodPost, c.base.JoinPath("api/v1/drills/freeze"), ReasonRequest{Reason: reason}, &f)
}

// Unfreeze lets drills run again.
func (c *Client) Unfreeze(ctx context.Context, reason string) (DrillFreeze, error) {
	var f DrillFreeze
	return f, c.do(ctx, http.MethodPost, c.base.JoinPath("api/v1/drills/unfreeze"), ReasonRequest{Reason: reason}, &f)
}
