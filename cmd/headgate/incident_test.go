package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"headgate/engine"
	"headgate/internal/cli"
	"headgate/web/api"
	"headgate/web/api/apitest"
)

const watchToken = "a-token-of-a-test-0123456789"

// serveIncidents starts an admin API with a rules engine and these pools, and points commands to it.
func (g *testEnv) serveIncidents(pools ...string) *apitest.Server {
	g.Helper()
	s := apitest.NewServer(g.T, watchToken, pools...)
	g.vars["HEADGATE_ADMIN"], g.vars["HEADGATE_TOKEN"] = s.URL, watchToken
	return s
}

// fields returns a line with single spaces between its fields.
func fields(line string) string { return strings.Join(strings.Fields(line), " ") }

func TestIncidentList(t *testing.T) {
	g := newTestEnv(t)
	s := g.serveIncidents()
	g.runBare("incident", "list").want(t, 0, "no incidents\n")
	g.runBare("incident", "list", "--open", "--json").want(t, 0, "{\n  \"items\": [],\n  \"next\": \"\"\n}\n")
	over := s.SetValue(t, "queue_age", "b", 30)
	s.SetValue(t, "queue_age", "b", 3)
	open := s.SetValue(t, "queue_age", "a", 27.4)
	whole := s.SetValue(t, "journal", "", 17)
	r := g.runBare("incident", "list")
	lines := strings.Split(r.out, "\n")
	if r.code != 0 || len(lines) != 5 || fields(lines[0]) != "ID LEVEL RULE POOL VALUE OPENED STATE" {
		t.Fatalf("exit %d, stdout\n%s", r.code, r.out)
	}
	for n, want := range []string{whole + " warn journal - 17 ", open + " PAGE queue_age a 27.4s ",
		over + " page queue_age b 3s "} {
		if got := fields(lines[n+1]); !strings.HasPrefix(got, want) {
			t.Errorf("line %q, want %q", got, want)
		}
	}
	if !strings.HasSuffix(lines[2], " open") || !strings.Contains(lines[3], "recovered after 0") {
		t.Errorf("stdout\n%s", r.out)
	}
	for args, n := range map[string]int{"--open": 2, "--pool a": 1, "--rule queue_age": 2, "--open --rule queue_age": 1,
		"--since 2099-01-01T00:00:00Z": 2, "--since 2099-01-01T00:00:00Z --open": 0} {
		var list api.IncidentList
		r := g.runBare(append([]string{"incident", "list", "--json"}, strings.Fields(args)...)...)
		dec := json.NewDecoder(strings.NewReader(r.out))
		dec.DisallowUnknownFields()
		if err := dec.Decode(&list); err != nil || len(list.Items) != n {
			t.Errorf("%s: %d incidents, want %d, %v", args, len(list.Items), n, err)
		}
	}
	g.runBare("incident", "list", "--since", "yesterday").want(t, cli.ExitUsage, "", "--since must be a span")
	g.runBare("incident", "list", "x").want(t, cli.ExitUsage, "", "--help")
}

func TestIncidentShow(t *testing.T) {
	g := newTestEnv(t)
	s := g.serveIncidents()
	id := s.SetValue(t, "queue_age", "a", 27.4)
	at := time.Date(2026, 1, 31, 11, 29, 0, 0, time.UTC)
	s.Incidents.SetDeliveries(id,
		api.Delivery{ID: "1", Seq: 1, Kind: "post", Destination: "page", State: "dead", Attempts: 3, Created: at, Tried: at,
			Reason: "the channel is archived"},
		api.Delivery{ID: "2", Seq: 1, Kind: "post", Destination: "fallback", State: "retry", Attempts: 1, Created: at,
			Tried: at, NextAttempt: at.Add(time.Minute)})
	g.run("incident", "ack", id[:8])
	for s.Incidents.Stored(id).AckedBy == "" { // it is recorded a moment later
		select {
		case <-t.Context().Done():
			t.Fatal("the acknowledgement was not recorded")
		case <-time.After(time.Millisecond):
		}
	}
	r := g.run("incident", "show", strings.ToUpper(id[:23]))
	for _, part := range []string{
		"PAGE queue_age in a open, acknowledged by ana@host until ", "what The queue is old.", "impact Answers come late.",
		"value 27.4s, page at 25s",
		"runbook queue_age", "id " + id, "# AT EVENT LEVEL VALUE BY NOTE", "opened page 27.4s - -",
		"acknowledged page 27.4s ana@host -",
		"1 post page DEAD 3 2026-01-31T11:29:00Z - the channel is archived",
		"1 post fallback retry 1 2026-01-31T11:29:00Z 2026-01-31T11:30:00Z -",
	} {
		if !strings.Contains(fields(r.out), part) {
			t.Errorf("%q is not in\n%s", part, r.out)
		}
	}
	if r.code != 0 || strings.Contains(r.out, "acknowledge:") {
		t.Errorf("exit %d, stdout\n%s", r.code, r.out)
	}
	var report api.IncidentReport
	dec := json.NewDecoder(strings.NewReader(g.run("incident", "show", id, "--json").out))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&report); err != nil || report.ID != id || len(report.Deliveries) != 2 {
		t.Errorf("%+v, %v", report, err)
	}
	g.runBare("incident", "show", "ffff").want(t, cli.ExitFailed, "", "no incident has an ID that begins with ffff")
	g.runBare("incident", "show", "../mode").want(t, cli.ExitUsage, "", "cannot be an ID")
	g.runBare("incident", "show", strings.Repeat("0", 36)).want(t, cli.ExitFailed, "", "There is no such incident")
	g.runBare("incident", "show").want(t, cli.ExitUsage, "", "--help")
	other := s.SetValue(t, "queue_age", "b", 30)
	g.runBare("incident", "show", "0").want(t, cli.ExitUsage, "", "2 incidents have IDs that begin with 0", id, other,
		"give more of it")
}

// TestIncidentShowUnrecorded: what is wrong is shown though the record is broken,
// and what is not known is said.
func TestIncidentShowUnrecorded(t *testing.T) {
	g := newTestEnv(t)
	s := g.serveIncidents()
	id := s.SetValue(t, "queue_age", "a", 27.4)
	s.Incidents.SetError(errors.New("the disk is full"))
	r := g.run("incident", "show", id)
	if r.code != 0 || !strings.Contains(r.out, "timeline and messages are unavailable") ||
		strings.Contains(r.out, "no messages") ||
		!strings.Contains(r.out, "acknowledge: headgate incident ack "+id+" --data-dir "+g.dataDir+"\n") {
		t.Errorf("exit %d, stdout\n%s", r.code, r.out)
	}
	if r := g.run("incident", "list", "--open"); r.code != 0 || !strings.Contains(r.out, id) {
		t.Errorf("exit %d, stdout\n%s", r.code, r.out)
	}
	if r := g.run("incident", "ack", id[:12]); r.code != 0 {
		t.Errorf("exit %d, stderr %s", r.code, r.err)
	}
}

func TestIncidentAck(t *testing.T) {
	g := newTestEnv(t)
	s := g.serveIncidents()
	id := s.SetValue(t, "queue_age", "a", 30)
	r := g.runBare("incident", "ack", id[:13], "--for", "30m")
	if r.code != 0 || !strings.HasPrefix(r.out, "queue_age in a: acknowledged by ana@host until ") || r.err != "" {
		t.Errorf("exit %d, %s%s", r.code, r.out, r.err)
	}
	again := g.runBare("incident", "ack", id)
	if again.code != 0 || again.out != strings.Replace(r.out, "acknowledged", "already acknowledged", 1) {
		t.Errorf("the same person again: exit %d, %s%s", again.code, again.out, again.err)
	}
	var reply api.AckReply
	if err := json.Unmarshal([]byte(g.runBare("incident", "ack", id, "--json").out), &reply); err != nil ||
		reply.By != "ana@host" || reply.Incident.ID != id {
		t.Errorf("%+v, %v", reply, err)
	}
	g.env.Actor = func() string { return "ben@host" }
	g.runBare("incident", "ack", id).want(t, cli.ExitFailed, "", "acknowledged by ana@host until", "Nothing was changed")
	g.runBare("incident", "ack", id, "--for", "soon").want(t, cli.ExitUsage, "", "--for must be a span")
	g.runBare("incident", "ack", id, "--for", "").want(t, cli.ExitUsage, "", "--for must be a span")
	g.runBare("incident", "ack", id, "--for", "3d").want(t, cli.ExitFailed, "", "up to 24h0m0s")
	s.SetValue(t, "queue_age", "a", 1)
	g.runBare("incident", "ack", id[:13]).want(t, cli.ExitFailed, "", "no open incident has an ID that begins with")
	g.runBare("incident", "ack", id).want(t, cli.ExitFailed, "", "may have been resolved")
}

func TestIncidentSilence(t *testing.T) {
	g := newTestEnv(t)
	s := g.serveIncidents()
	g.runBare("incident", "silence", "--list").want(t, 0, "no silences\n")
	r := g.run("incident", "silence", "queue_age", "--pool", "a", "--for", "1h", "--reason", "  load\ntest ")
	lines := strings.Split(r.out, "\n")
	if r.code != 0 || len(lines) != 3 || !strings.HasPrefix(lines[0], "queue_age in a: silenced until ") ||
		!strings.HasSuffix(lines[0], " by ana@host: load test") {
		t.Fatalf("exit %d, %s%s", r.code, r.out, r.err)
	}
	if r := g.run("incident", "silence", "queue_age", "--pool", "a", "--for", "1h", "--reason", "me too"); r.code != 0 ||
		!strings.Contains(r.out, "already silenced until") {
		t.Errorf("exit %d, %s%s", r.code, r.out, r.err)
	}
	s.SetValue(t, "queue_age", "a", 30)
	if r := g.run("incident", "list"); !strings.Contains(r.out, "open, silenced") {
		t.Errorf("stdout\n%s", r.out)
	}
	list := g.run("incident", "silence", "--list")
	if got := fields(list.out); !strings.HasPrefix(got, "ID RULE POOL UNTIL BY REASON ") ||
		!strings.HasSuffix(got, "ana@host load test") {
		t.Errorf("stdout\n%s", list.out)
	}
	undo, ok := strings.CutPrefix(lines[1], "undo: headgate ")
	if !ok {
		t.Fatalf("stdout\n%s", r.out)
	}
	g.runBare(strings.Fields(undo)...).want(t, 0, "queue_age in a: no longer silenced; the current state is sent\n")
	g.runBare(strings.Fields(undo)...).want(t, cli.ExitFailed, "", "There is no such silence")
	r = g.run("incident", "silence", "journal", "--for", "2d", "--reason", "why", "--json")
	id := r.decodeJSON(t)["silence"].(map[string]any)["id"].(string)
	if got := g.run("incident", "silence", "--list", "--json").decodeJSON(t); len(got["items"].([]any)) != 1 {
		t.Errorf("list %v", got)
	}
	if r := g.run("incident", "silence", "--list"); !strings.Contains(fields(r.out), id+" journal all ") {
		t.Errorf("stdout\n%s", r.out)
	}
	if got := g.run("incident", "silence", "--lift", id[:20], "--json").decodeJSON(t); got["id"] != id {
		t.Errorf("lifted %v", got)
	}
	g.run("incident", "silence", "--lift", "ffff").want(t, cli.ExitFailed, "",
		"no silence has an ID that begins with ffff")
}

func TestIncidentSilenceRefuses(t *testing.T) {
	g := newTestEnv(t)
	g.serveIncidents()
	for args, want := range map[string]struct {
		code    int
		message string
	}{
		"":                                     {cli.ExitUsage, "RULE is missing"},
		"queue_age":                            {cli.ExitUsage, "--reason must say why"},
		"queue_age --reason x":                 {cli.ExitUsage, "--for must be a span"},
		"queue_age --reason x --for -1h":       {cli.ExitUsage, "--for must be a span"},
		"queue_age --list":                     {cli.ExitUsage, "or --list, or --lift ID"},
		"--list --lift 01":                     {cli.ExitUsage, "or --list, or --lift ID"},
		"--lift 01 --for 1h":                   {cli.ExitUsage, "or --list, or --lift ID"},
		"--lift a/b":                           {cli.ExitUsage, "cannot be an ID"},
		"a b --for 1h --reason x":              {cli.ExitUsage, "--help"},
		"queue --for 1h --reason x":            {cli.ExitFailed, "there are journal, queue_age"},
		"queue_age --for 99d --reason x":       {cli.ExitFailed, "up to 720h0m0s"},
		"journal --pool a --for 1h --reason x": {cli.ExitFailed, `"journal" in pool "a"`},
	} {
		g.runBare(append([]string{"incident", "silence"}, strings.Fields(args)...)...).want(t, want.code, "", want.message)
	}
}

// TestIncidentUnreachable: without an answer these commands report that and exit with 3.
func TestIncidentUnreachable(t *testing.T) {
	g := newTestEnv(t)
	g.vars["HEADGATE_TOKEN"] = watchToken
	broken := foreignServer(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusBadGateway) })
	id := strings.Repeat("0", 36)
	for _, args := range []string{
		"list", "show " + id, "ack " + id, "silence x --for 1h --reason x", "silence --list", "silence --lift " + id,
	} {
		g.vars["HEADGATE_ADMIN"] = closedAddress(t)
		g.runBare(append([]string{"incident"}, strings.Fields(args)...)...).want(t, cli.ExitUnreachable, "",
			"no answer from the admin plane")
		g.vars["HEADGATE_ADMIN"] = broken
		r := g.runBare(append([]string{"incident"}, strings.Fields(args)...)...)
		r.want(t, cli.ExitUnreachable, "", "no answer from the admin plane")
		order := strings.HasPrefix(args, "ack") || strings.Contains(args, "--lift") || strings.Contains(args, "--for")
		if warned := strings.Contains(r.err, "it may have been applied"); warned != order {
			t.Errorf("%s: stderr %q", args, r.err)
		}
	}
}

// TestIncidentNotWatching: a service without rules reports it.
func TestIncidentNotWatching(t *testing.T) {
	g := newTestEnv(t)
	g.vars["HEADGATE_TOKEN"] = watchToken
	g.vars["HEADGATE_ADMIN"] = foreignServer(t, func(w http.ResponseWriter, _ *http.Request) {
		api.WriteProblem(w, api.Problem{Type: api.TypeMonitoringDisabled, Status: http.StatusNotFound,
			Detail: "This headgate is not watching."})
	})
	g.runBare("incident", "list").want(t, cli.ExitFailed, "", "This headgate is not watching.")
}

// TestIncidentsAreInert: whatever a service sends, it stays in its place on the
// terminal, and the end of pages is reached.
func TestIncidentsAreInert(t *testing.T) {
	t.Parallel()
	g := newTestEnv(t)
	g.vars["HEADGATE_TOKEN"] = watchToken
	const evil = "\x1b[2J\n\u202e"
	i := api.Incident{Incident: engine.Incident{ID: "0" + evil, Key: engine.Key{Rule: evil, Pool: evil}, Resolution: evil,
		Unit: evil, Summary: evil, Impact: evil, Runbook: evil, AckedBy: evil}}
	asked := 0
	g.vars["HEADGATE_ADMIN"] = foreignServer(t, func(w http.ResponseWriter, r *http.Request) {
		asked++
		w.Header().Set("Content-Type", "application/json")
		var reply any = api.IncidentReport{Incident: i, Recorded: true, Truncated: true,
			Events:     []api.Event{{Event: engine.Event{Kind: evil, By: evil}}},
			Deliveries: []api.Delivery{{Kind: evil, Destination: evil, State: evil, Reason: evil}}}
		switch {
		case strings.HasSuffix(r.URL.Path, "/incidents"):
			reply = api.IncidentList{Items: make([]api.Incident, api.MaxPage), Next: fmt.Sprint(asked)}
			if r.URL.Query().Get("open") == "true" {
				reply = api.IncidentList{Items: []api.Incident{i}}
			}
		case strings.HasSuffix(r.URL.Path, "/silences"):
			reply = api.SilenceList{Items: []engine.Silence{{ID: evil, Rule: evil, Pool: evil, By: evil, Reason: evil}}}
		}
		if err := json.NewEncoder(w).Encode(reply); err != nil {
			t.Error(err)
		}
	})
	r := g.runBare("incident", "list")
	if !strings.Contains(r.err, "more than 10000 incidents") || asked != 10_000/api.MaxPage+1 {
		t.Errorf("%d pages, stderr %s", asked, r.err)
	}
	for _, args := range []string{"list --open", "show " + strings.Repeat("0", 36), "silence --list", "show 0"} {
		r := g.runBare(append([]string{"incident"}, strings.Fields(args)...)...)
		if strings.ContainsAny(r.out+r.err, "\x1b\u202e") {
			t.Errorf("%s: %q %q", args, r.out, r.err)
		}
	}
}
