package api

import (
	"context"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"headgate/engine"
)

// IncidentReader asks for a page of incidents.
func (c *Client) Incidents(ctx context.Context, q IncidentQuery) (IncidentList, error) {
	v := pageParams(q.After, q.Limit)
	if q.Open {
		v.Set("open", "true")
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	for name, value := range map[string]string{"pool": q.Pool, "rule": q.Rule} {
		if value != "" {
			v.Set(name, value)
		}
	}
	u := c.base.JoinPath("api/v1/incidents")
	u.RawQuery = v.Encode()
	var list IncidentList
	return list, c.do(ctx, http.MethodGet, u, nil, &list)
}

func pageParams(after string, limit int) url.Values {
	v := url.Values{}
	if after != "" {
		v.Set("after", after)
	}
	if limit > 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
	return v
}

// Incident asks for all that is known of one incident.
func (c *Client) Incident(ctx context.Context, id string) (IncidentReport, error) {
	var report IncidentReport
	if err := CheckID(id); err != nil {
		return report, err
	}
	return report, c.do(ctx, http.MethodGet, c.base.JoinPath("api/v1/incidents", id), nil, &report)
}

// Ack takes an open incident on. A *Problem with Acked says who was first.
func (c *Client) Ack(ctx context.Context, id string, a AckRequest) (AckReply, error) {
	var reply AckReply
	if err := CheckID(id); err != nil {
		return reply, err
	}
	return reply, c.do(ctx, http.MethodPost, c.base.JoinPath("api/v1/incidents", id, "ack"), a, &reply)
}

// Silences asks for a page of the silences of rules that are not over.
func (c *Client) Silences(ctx context.Context, after string, limit int) (SilenceList, error) {
	u := c.base.JoinPath("api/v1/silences")
	u.RawQuery = pageParams(after, limit).Encode()
	var list SilenceList
	return list, c.do(ctx, http.MethodGet, u, nil, &list)
}

// Silence silences a rule.
func (c *Client) Silence(ctx context.Context, m SilenceRequest) (SilenceReply, error) {
	var reply SilenceReply
	return reply, c.do(ctx, http.MethodPost, c.base.JoinPath("api/v1/silences"), m, &reply)
}

// Unsilence ends a silence of a rule early.
func (c *Client) Unsilence(ctx context.Context, id string) (engine.Silence, error) {
	var m engine.Silence
	if err := CheckID(id); err != nil {
		return m, err
	}
	return m, c.do(ctx, http.MethodDelete, c.base.JoinPath("api/v1/silences", id), nil, &m)
}
