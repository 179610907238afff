package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"headgate/web/api"
	"headgate/web/api/apitest"
)

// fuzzServer is an admin API that watches, for requests that mean no good.
func fuzzServer(f *testing.F) (*apitest.Server, http.Handler) {
	f.Helper()
	s := apitest.NewServer(f, token)
	c := apitest.NewControl(f, slogDiscard())
	c.SetEngine(s.Engine)
	admin, err := api.NewAdmin(api.AdminConfig{Token: token, Control: c.Service, Status: c, Audit: c.Record, Incidents: s.Incidents, Log: slogDiscard()})
	if err != nil {
		f.Fatal(err)
	}
	return s, admin
}

// wantAnswer checks what holds for every answer: a bounded body of JSON that says
// its status, and nothing that is our fault.
func wantAnswer(t *testing.T, h http.Handler, method, path, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(method, "/api/v1/incidents", strings.NewReader(body))
	r.URL.Path, r.URL.RawPath = path, ""
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	switch {
	case w.Code >= 300 && w.Code < 400: // the mux cleans paths; the handler in front refuses those
	case w.Code >= 500 || !json.Valid(w.Body.Bytes()) || w.Code >= 400 && w.Body.Len() > 4096:
		t.Errorf("%s %q with %q: status %d, %.200q", method, path, body, w.Code, w.Body)
	}
	return w
}

func FuzzSilenceBody(f *testing.F) {
	for _, s := range []string{
		`{"rule":"queue_age","for":"1h","reason":"x"}`, `{"rule":"queue_age","pool":"a","for":"30d","reason":"\u0000"}`,
		`{"rule":"journal","for":"1ns","reason":"x"}`, `{"for":"9999999h"}`, `[]`, `{"rule":"x","rule":"y"}`, `{"reason":"\ud800"}`,
	} {
		f.Add(s)
	}
	s, h := fuzzServer(f)
	f.Fuzz(func(t *testing.T, body string) {
		if w := wantAnswer(t, h, http.MethodPost, "/api/v1/silences", body); w.Code != http.StatusOK {
			return
		}
		for _, m := range s.Engine.Silences() {
			if m.Reason == "" || strings.ContainsAny(m.Reason, "\n\x00\x1b") || time.Until(m.Until) > 30*24*time.Hour {
				t.Errorf("%q made %+v", body, m)
			}
			if _, err := s.Engine.Unsilence(t.Context(), m.ID, "test"); err != nil {
				t.Error(err)
			}
		}
	})
}

func FuzzIncidentPath(f *testing.F) {
	for _, s := range []string{"0198", "..", "a/b", "", "\x00", "é", "0198/ack", strings.Repeat("x", 100), "%2e%2e"} {
		f.Add(s)
	}
	s, h := fuzzServer(f)
	s.SetValue(f, "queue_age", "a", 30)
	f.Fuzz(func(t *testing.T, id string) {
		wantAnswer(t, h, http.MethodGet, "/api/v1/incidents/"+id, "")
		wantAnswer(t, h, http.MethodPost, "/api/v1/incidents/"+id+"/ack", "{}")
		wantAnswer(t, h, http.MethodDelete, "/api/v1/silences/"+id, "")
	})
}
