package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"time"
)

const (
	requestTimeout   = 2 * time.Second // for one question, on the wall clock
	maxResponseBytes = 4 << 20
)

// adminClient is where one asks about incidents and modes: the admin API of the gated
// side.
type adminClient struct {
	url, token string
	client     *http.Client
}

func newAdminClient(address, token string) *adminClient {
	return &adminClient{
		url: "http://" + address + "/api/v1", token: token,
		client: &http.Client{Timeout: requestTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 1}},
	}
}

// incident is what the demo looks at in one.
type incident struct {
	ID         string          `json:"id"`
	Rule       string          `json:"rule"`
	Level      string          `json:"level"`
	Ended      *time.Time      `json:"ended_at"` // nil: it is open
	Events     []event         `json:"events"`   // not in lists
	Deliveries []deliveryState `json:"deliveries"`
}

type event struct {
	At    time.Time `json:"at"`
	Kind  string    `json:"kind"`
	Level string    `json:"level"`
}

type deliveryState struct {
	State string `json:"state"`
}

// pending says whether something about an incident has still to be sent.
func (i incident) pending() bool {
	return slices.ContainsFunc(i.Deliveries, func(d deliveryState) bool {
		return d.State != "sent" && d.State != "dropped" && d.State != "dead"
	})
}

// incidents returns the incidents so far, oldest first, without their events.
func (d *adminClient) incidents(ctx context.Context) ([]incident, error) {
	var reply struct {
		Items []incident `json:"items"`
	}
	err := d.get(ctx, "/incidents", &reply)
	slices.Reverse(reply.Items)
	return reply.Items, err
}

// incidentDetails returns the incidents so far with all that is known of them, oldest first.
func (d *adminClient) incidentDetails(ctx context.Context) ([]incident, error) {
	list, err := d.incidents(ctx)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if err := d.get(ctx, "/incidents/"+url.PathEscape(list[i].ID), &list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// modeState is the gate's mode, and who set it.
type modeState struct {
	Mode string `json:"mode"`
	By   string `json:"mode_by"`
}

// poolMode asks how the gate stands.
func (d *adminClient) poolMode(ctx context.Context) (modeState, error) {
	var reply struct {
		Pools []modeState `json:"pools"`
	}
	if err := d.get(ctx, "/status", &reply); err != nil {
		return modeState{}, err
	}
	if len(reply.Pools) == 0 {
		return modeState{}, errors.New("the admin API knows no pool")
	}
	return reply.Pools[0], nil
}

// auditRecord is one of the gate's mode.
type auditRecord struct {
	Kind   string `json:"kind"`
	Action string `json:"action"`
	Actor  string `json:"actor"`
	Via    string `json:"via"`
}

// modeChanges returns those of the gate's mode that somebody made, oldest first.
func (d *adminClient) modeChanges(ctx context.Context) ([]auditRecord, error) {
	var reply struct {
		Items []auditRecord `json:"items"`
	}
	err := d.get(ctx, "/audit", &reply)
	slices.Reverse(reply.Items)
	return slices.DeleteFunc(reply.Items, func(c auditRecord) bool { return c.Kind != "mode" || c.Via == "settings" }), err
}

// allResolved says whether all incidents are over, and people have been told.
func (d *adminClient) allResolved(ctx context.Context) bool {
	all, err := d.incidentDetails(ctx)
	return err == nil && !slices.ContainsFunc(all, func(i incident) bool { return i.Ended == nil || i.pending() })
}

func (d *adminClient) get(ctx context.Context, path string, reply any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, d.url+path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Authorization", "Bearer "+d.token)
	resp, err := d.client.Do(r)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: the admin API answers %s", path, resp.Status)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, maxResponseBytes)).Decode(reply)
}

func (d *adminClient) close() { d.client.CloseIdleConnections() }
