package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
	"headgate/web/api"
)

func TestAudit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t) // two first changes
		time.Sleep(48 * time.Hour)
		for _, mode := range []string{"observe", "passthrough", "restore", "enforce"} {
			time.Sleep(time.Hour)
			r.put("/api/v1/pools/a/mode", `{"mode":"`+mode+`","reason":"to `+mode+`"}`)
		}
		get := func(query string) control.AuditPage {
			var page control.AuditPage
			r.reply(r.request(testRequest{method: "GET", path: "/api/v1/audit?" + query}), &page)
			return page
		}
		tests := []struct {
			query string
			want  string // reasons, newest first
			next  bool
		}{
			{"", "to enforce, to restore, to passthrough, to observe, first start, first start", false},
			{"pool=b", "first start", false},
			{"pool=none", "", false},
			{"since=1d", "to enforce, to restore, to passthrough, to observe", false},
			{"since=30m", "to enforce", false},
			{"since=" + url.QueryEscape(time.Now().Add(-time.Hour).Format(time.RFC3339)), "to enforce, to restore", false},
			{"limit=2", "to enforce, to restore", true},
			{"limit=1000", "to enforce, to restore, to passthrough, to observe, first start, first start", false},
		}
		for _, tt := range tests {
			page := get(tt.query)
			if got := reasons(page); got != tt.want || (page.Next != "") != tt.next {
				t.Errorf("%s: %s, next %q", tt.query, got, page.Next)
			}
		}
		first := get("limit=4")
		second := get("limit=4&after=" + first.Next)
		if reasons(second) != "first start, first start" || second.Next != "" {
			t.Errorf("second page %+v", second)
		}
		if c := first.Items[2].Change; c.To != admission.PassThrough || c.RestoreMode != admission.Observe || c.Via != "api" || c.Writer != "w" || c.Action != "rollback" {
			t.Errorf("the rollback reads %+v", c)
		}
	})
}

// TestAuditEntries: entries stand among the changes, newest first, and either is
// found by its kind.
func TestAuditEntries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		time.Sleep(time.Hour)
		r.Record.Append(control.AuditEntry{
			ID: "01", At: time.Now(), Kind: control.KindDecision, Action: "rollback", Result: control.Withheld, Pool: "a", Subject: "i-1",
			Actor: "engine", Via: control.ViaEngine, Reason: "held", Inputs: map[string]string{"value": "3"}, Writer: "w",
		})
		time.Sleep(time.Hour)
		r.put("/api/v1/pools/a/mode", `{"mode":"observe","reason":"to observe"}`)
		var page, decisions, modes control.AuditPage
		w := r.request(testRequest{method: "GET", path: "/api/v1/audit?pool=a"})
		if !strings.Contains(w.Body.String(), `"kind":"mode"`) {
			t.Errorf("a change has no kind: %s", w.Body)
		}
		r.reply(w, &page)
		r.reply(r.request(testRequest{method: "GET", path: "/api/v1/audit?kind=decision"}), &decisions)
		r.reply(r.request(testRequest{method: "GET", path: "/api/v1/audit?kind=mode"}), &modes)
		if reasons(page) != "to observe, held, first start" || reasons(decisions) != "held" || reasons(modes) != "to observe, first start, first start" {
			t.Errorf("%q, %q, %q", reasons(page), reasons(decisions), reasons(modes))
		}
		if e := page.Items[1].Entry; e == nil || e.Result != "withheld" || e.Inputs["value"] != "3" || e.Subject != "i-1" || e.Via != "engine" {
			t.Errorf("the entry reads %+v", e)
		}
	})
}

func reasons(p control.AuditPage) string {
	var all []string
	for _, i := range p.Items {
		if i.Entry != nil {
			all = append(all, i.Entry.Reason)
			continue
		}
		all = append(all, i.Change.Reason)
	}
	return strings.Join(all, ", ")
}

func TestAuditRefuses(t *testing.T) {
	r := newFixture(t)
	for query, detail := range map[string]string{
		"since=yesterday":                   "since must be a span such as 7d",
		"since=-1d":                         "since must be a span",
		"since=9999999d":                    "since must be a span",
		"since=1e999h":                      "since must be a span",
		"limit=0":                           "limit must be a number from 1 to 1000",
		"limit=1001":                        "limit must be",
		"limit=x":                           "limit must be",
		"after=nonsense":                    "after must be the next",
		"offset=3":                          `"offset" is not known: there are since, pool, kind, after, limit`,
		"kind=gossip":                       "kind must be one of mode, press, decision, action, access, drill",
		"pool=a&pool=b":                     "must be given once",
		"a=%zz":                             "malformed",
		"after=" + strings.Repeat("x", 201): "at most 200 characters",
	} {
		p := r.problem(r.request(testRequest{method: "GET", path: "/api/v1/audit?" + query}), http.StatusBadRequest)
		if !strings.Contains(p.Detail, detail) {
			t.Errorf("%s: detail %q, want %q", query, p.Detail, detail)
		}
	}
}

func TestAuditBroken(t *testing.T) {
	r := newFixture(t)
	r.Record.SetError(errDisk)
	w := r.request(testRequest{method: "GET", path: "/api/v1/audit"})
	r.problem(w, http.StatusServiceUnavailable)
	if strings.Contains(w.Body.String(), "/some/where") {
		t.Errorf("the answer shows the inside: %s", w.Body)
	}
	if !strings.Contains(r.log.String(), "/some/where") {
		t.Error("the log does not say why")
	}
}

func FuzzParseSince(f *testing.F) {
	for _, s := range []string{"7d", "1h30m", "2026-01-02T03:04:05Z", "-1d", "99999999999999999999d", "", "d", "NaNs", "1e9h"} {
		f.Add(s)
	}
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	f.Fuzz(func(t *testing.T, s string) {
		at, err := api.ParseSince(s, now)
		if err != nil {
			return
		}
		if _, isTime := time.Parse(time.RFC3339, s); isTime != nil && (at.After(now) || now.Year()-at.Year() > 101) {
			t.Errorf("%q is %s", s, at)
		}
	})
}
