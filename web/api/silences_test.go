package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"headgate/engine"
	"headgate/web/api"
)

func (r *engineFixture) silence(body, actor string) api.SilenceReply {
	r.Helper()
	var reply api.SilenceReply
	r.reply(r.post("/api/v1/silences", body, actor), &reply)
	return reply
}

func (r *engineFixture) silences(query string) api.SilenceList {
	r.Helper()
	var list api.SilenceList
	r.get("/api/v1/silences?"+query, &list)
	return list
}

func TestSilence(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		reply := r.silence(`{"rule":"queue_age","pool":"a","for":"1h","reason":"load test"}`, "ana")
		s := reply.Silence
		if !reply.Created || s.ID == "" || s.Rule != "queue_age" || s.Pool != "a" || s.By != "ana" || s.Reason != "load test" ||
			time.Until(s.Until).Round(time.Minute) != time.Hour {
			t.Errorf("reply %+v", reply)
		}
		again := r.silence(`{"rule":"queue_age","pool":"a","for":"1h","reason":"me too"}`, "ben")
		if again.Created || again.Silence != s {
			t.Errorf("the same wish again: %+v", again)
		}
		if i := r.openIncident("queue_age", "a", 30); !i.Silenced {
			t.Error("the incident of a silenced rule is not shown so")
		}
		if i := r.openIncident("queue_age", "b", 30); i.Silenced {
			t.Error("the silence of a pool covers another")
		}
		if list := r.silences(""); len(list.Items) != 1 || list.Items[0] != s || list.Next != "" {
			t.Errorf("list %+v", list)
		}
		time.Sleep(time.Hour + time.Second)
		if list := r.silences(""); list.Items == nil || len(list.Items) != 0 {
			t.Errorf("after its time: %+v", list)
		}
		if i := r.openIncident("queue_age", "a", 31); i.Silenced {
			t.Error("still silenced after its time")
		}
	})
}

func TestUnsilence(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		s := r.silence(`{"rule":"queue_age","for":"2d","reason":"why"}`, "ana").Silence
		path := "/api/v1/silences/" + s.ID
		var lifted engine.Silence
		r.reply(r.request(testRequest{method: http.MethodDelete, path: path}), &lifted)
		if lifted.ID != s.ID || !lifted.Until.Before(s.Until) {
			t.Errorf("lifted %+v", lifted)
		}
		if p := r.problem(r.request(testRequest{method: http.MethodDelete, path: path}), http.StatusNotFound); p.Type != api.TypeUnknownSilence {
			t.Errorf("lifted twice: %+v", p)
		}
		if list := r.silences(""); len(list.Items) != 0 {
			t.Errorf("list %+v", list)
		}
		for path, status := range map[string]int{
			"/api/v1/silences/%2e%2e":   http.StatusNotFound,
			"/api/v1/silences/a%2fb":    http.StatusNotFound,
			"/api/v1/silences/0198?x=1": http.StatusBadRequest,
		} {
			r.problem(r.request(testRequest{method: http.MethodDelete, path: path}), status)
		}
	})
}

func TestSilenceRefuses(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		long := strings.Repeat("x", 201)
		for body, want := range map[string]struct {
			status int
			detail string
		}{
			`{}`:                                {400, "rule must name a rule"},
			`{"rule":"queue_age","reason":"x"}`: {400, "for must be a span"},
			`{"rule":"queue_age","for":"1h"}`:   {400, "reason must say why"},
			`{"rule":"queue_age","for":"31d","reason":"x"}`:                               {400, "a silence lasts up to 720h0m0s"},
			`{"rule":"queue_age","for":"1h","reason":"a\nb"}`:                             {400, "reason must be one line"},
			`{"rule":"queue_age","for":"1h","reason":"\u202e"}`:                           {400, "reason must be one line"},
			`{"rule":"queue_age\u001b[2J","for":"1h","reason":"x"}`:                       {400, "rule must be one line"},
			`{"rule":"queue_age","for":"1h","reason":"` + strings.Repeat("é", 501) + `"}`: {400, "at most 500 characters"},
			`{"rule":"queue_age","for":"1h","reason":"` + strings.Repeat("木", 500) + `"}`: {400, "at most 1000 fit"},
			`{"rule":"` + long + `","for":"1h","reason":"x"}`:                             {400, "at most 200 bytes"},
			`{"rule":"queue_age","pool":"` + long + `","for":"1h","reason":"x"}`:          {400, "at most 200 bytes"},
			`{"rule":"queue_age","until":"1h","reason":"x"}`:                              {400, "not known: there are for, pool, reason, rule"},
			`{"rule":["queue_age"],"for":"1h","reason":"x"}`:                              {400, "a string"},
			`{"rule":"queue","for":"1h","reason":"x"}`:                                    {404, "there are journal, queue_age"},
			`{"rule":"queue_age","pool":"c","for":"1h","reason":"x"}`:                     {404, `in pool "c"`},
			`rule=queue_age`: {400, "must be a JSON object"},
		} {
			p := r.problem(r.post("/api/v1/silences", body, "ana"), want.status)
			if !strings.Contains(p.Detail, want.detail) || len(p.Detail) > 400 {
				t.Errorf("%.80s: detail %q, want %q", body, p.Detail, want.detail)
			}
		}
		if p := r.problem(r.post("/api/v1/silences", `{"rule":"x","for":"1h","reason":"x"}`, "a"), 404); p.Type != api.TypeUnknownRule {
			t.Errorf("unknown rule: %+v", p)
		}
		if list := r.silences(""); len(list.Items) != 0 {
			t.Errorf("silenced %+v", list)
		}
		for query, detail := range map[string]string{"after=%2f": "after must be", "limit=x": "limit must be", "pool=a": "not known"} {
			p := r.problem(r.request(testRequest{method: "GET", path: "/api/v1/silences?" + query}), http.StatusBadRequest)
			if !strings.Contains(p.Detail, detail) {
				t.Errorf("%s: %q", query, p.Detail)
			}
		}
	})
}

// TestSilencePages: there is a bound, and pages lead through all of them.
func TestSilencePages(t *testing.T) {
	withEngine(t, func(t *testing.T, r *engineFixture) {
		const most = 1000
		for n := range most {
			r.silence(fmt.Sprintf(`{"rule":"queue_age","for":"%dm","reason":"x"}`, 10+2*n), "ana")
		}
		w := r.post("/api/v1/silences", `{"rule":"queue_age","for":"700h","reason":"x"}`, "ana")
		if p := r.problem(w, http.StatusConflict); !strings.Contains(p.Detail, "remove some first") {
			t.Errorf("one too many: %+v", p)
		}
		seen := map[string]bool{}
		query := "limit=300"
		for range 4 {
			list := r.silences(query)
			for n, s := range list.Items {
				if n > 0 && s.ID >= list.Items[n-1].ID {
					t.Fatal("not newest first")
				}
				seen[s.ID] = true
			}
			query = "limit=300&after=" + list.Next
			if (list.Next == "") != (len(seen) == most) {
				t.Errorf("next %q after %d", list.Next, len(seen))
			}
		}
		if len(seen) != most {
			t.Errorf("%d of %d seen", len(seen), most)
		}
	})
}
