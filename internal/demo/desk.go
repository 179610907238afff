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
	askTime  = 2 * time.Second // for one question, on the wall clock
	maxReply = 4 << 20
)

// desk is where one asks about incidents and modes: the admin API of the gated
// side.
type desk struct {
	url, token string
	client     *http.Client
}

func newDesk(address, token string) *desk {
	return &desk{
		url: "http://" + address + "/api/v1", token: token,
		client: &http.Client{Timeout: askTime, Transport: &http.Transport{MaxIdleConnsPerHost: 1}},
	}
}

// incident is what the demo looks at in one.
type incident struct {
	ID         string     `json:"id"`
	Rule       string     `json:"rule"`
	Level      string     `json:"level"`
	Ended      *time.Time `json:"ended_at"` // nil: it is open
	Events     []event    `json:"events"`   // not in lists
	Deliveries []delivery `json:"deliveries"`
}

type event struct {
	At    time.Time `json:"at"`
	Kind  string    `json:"kind"`
	Level string    `json:"level"`
}

type delivery struct {
	State string `json:"state"`
}

// pending says whether something about an incident has still to be sent.
func (i incident) pending() bool {
	return slices.ContainsFunc(i.Deliveries, func(d delivery) bool {
		return d.State != "sent" && d.State != "dropped" && d.State != "dead"
	})
}

// list returns the incidents so far, oldest first, without their events.
func (d *desk) list(ctx context.Context) ([]incident, error) {
	var reply struct {
		Items []incident `json:"items"`
	}
	err := d.ask(ctx, "/incidents", &reply)
	slices.Reverse(reply.Items)
	return reply.Items, err
}

// all returns the incidents so far with all that is known of them, oldest first.
func (d *desk) all(ctx context.Context) ([]incident, error) {
	list, err := d.list(ctx)
	if err != nil {
		return nil, err
	}
	for i := range list {
		if err := d.ask(ctx, "/incidents/"+url.PathEscape(list[i].ID), &list[i]); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// standing is the gate's mode, and who set it.
type standing struct {
	Mode string `json:"mode"`
	By   string `json:"mode_by"`
}

// stands asks how the gate stands.
func (d *desk) stands(ctx context.Context) (standing, error) {
	var reply struct {
		Pools []standing `json:"pools"`
	}
	if err := d.ask(ctx, "/status", &reply); err != nil {
		return standing{}, err
	}
	if len(reply.Pools) == 0 {
		return standing{}, errors.New("the admin API knows no pool")
	}
	return reply.Pools[0], nil
}

// change is one of the gate's mode.
type change struct {
	Kind   string `json:"kind"`
	Action string `json:"action"`
	Actor  string `json:"actor"`
	Via    string `json:"via"`
}

// changes returns those of the gate's mode that somebody made, oldest first.
func (d *desk) changes(ctx context.Context) ([]change, error) {
	var reply struct {
		Items []change `json:"items"`
	}
	err := d.ask(ctx, "/audit", &reply)
	slices.Reverse(reply.Items)
	return slices.DeleteFunc(reply.Items, func(c change) bool { return c.Kind != "mode" || c.Via == "settings" }), err
}

// quiet says whether all incidents are over, and people have been told.
func (d *desk) quiet(ctx context.Context) bool {
	all, err := d.all(ctx)
	return err == nil && !slices.ContainsFunc(all, func(i incident) bool { return i.Ended == nil || i.pending() })
}

func (d *desk) ask(ctx context.Context, path string, reply any) error {
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
	return json.NewDecoder(io.LimitReader(resp.Body, maxReply)).Decode(reply)
}

func (d *desk) close() { d.client.CloseIdleConnections() }
