package api_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"headgate/proxy/admission"
	"headgate/web/api"
	"headgate/web/auth"
)

func TestTokens(t *testing.T) {
	tests := []struct {
		name  string
		given []string
	}{
		{"none", nil},
		{"empty", []string{""}},
		{"only the scheme", []string{"Bearer"}},
		{"empty bearer", []string{"Bearer "}},
		{"wrong", []string{"Bearer a-token-of-a-test-9876543210"}},
		{"a prefix", []string{"Bearer " + token[:len(token)-1]}},
		{"more", []string{"Bearer " + token + "x"}},
		{"two spaces", []string{"Bearer  " + token}},
		{"other scheme", []string{"Basic " + token}},
		{"no scheme", []string{token}},
		{"huge", []string{"Bearer " + strings.Repeat("x", 60<<10)}},
		{"right and wrong", []string{"Bearer " + token, "Bearer wrong-wrong-wrong"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newFixture(t)
			for _, c := range []testRequest{
				{method: "GET", path: "/api/v1/status"}, {method: "GET", path: "/api/v1/audit"}, {method: "GET", path: "/api/v1/none"},
				{method: "PUT", path: "/api/v1/mode", body: `{"mode":"passthrough"}`}, {method: "GET", path: "/api"},
			} {
				c.header = http.Header{"Authorization": tt.given}
				w := r.request(c)
				p := r.problem(w, http.StatusUnauthorized)
				if p.Type != api.TypeBadToken || !strings.HasPrefix(w.Header().Get("WWW-Authenticate"), "Bearer") {
					t.Errorf("%s: problem %+v, header %v", c.path, p, w.Header())
				}
			}
			if r.Mode("a") != admission.Enforce {
				t.Error("an order without the token was carried out")
			}
			if strings.Contains(r.log.String(), token) || strings.Contains(r.log.String(), "xxxx") {
				t.Error("a token is in the log")
			}
		})
	}
}

func TestBearerSyntax(t *testing.T) {
	r := newFixture(t)
	for _, scheme := range []string{"Bearer", "bearer", "BEARER"} {
		w := r.request(testRequest{method: "GET", path: "/api/v1/status", header: http.Header{"Authorization": {scheme + " " + token}}})
		if w.Code != http.StatusOK {
			t.Errorf("%s: status %d", scheme, w.Code)
		}
	}
}

var wrong = http.Header{"Authorization": {"Bearer wrong-wrong-wrong-wrong"}}

// TestAttemptsAreLimited: after a burst wrong tokens get 429, for as long as it
// says, and the log has one line for each that was answered 401. The right token
// works all the while, from the same address.
func TestAttemptsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		guess := func() *httptest.ResponseRecorder {
			return r.request(testRequest{method: "GET", path: "/api/v1/status", header: wrong, remote: "192.0.2.7:1"})
		}
		for i := range 10 {
			if w := guess(); w.Code != http.StatusUnauthorized {
				t.Fatalf("attempt %d: status %d", i, w.Code)
			}
		}
		var wait int
		for range 1000 {
			w := guess()
			r.problem(w, http.StatusTooManyRequests)
			var err error
			if wait, err = strconv.Atoi(w.Header().Get("Retry-After")); err != nil || wait < 1 {
				t.Fatalf("Retry-After %q", w.Header().Get("Retry-After"))
			}
			if w.Header().Get("Connection") != "close" {
				t.Fatal("the connection is kept")
			}
		}
		if n := strings.Count(r.log.String(), "wrong token"); n != 10 {
			t.Errorf("%d lines in the log, want 10", n)
		}
		if w := r.request(testRequest{method: "PUT", path: "/api/v1/mode", body: `{"mode":"passthrough"}`, remote: "192.0.2.7:2"}); w.Code != http.StatusOK {
			t.Errorf("the right token was locked out: %d", w.Code)
		}
		if w := r.request(testRequest{method: "GET", path: "/api/v1/status", header: wrong, remote: "192.0.2.8:1"}); w.Code != http.StatusUnauthorized {
			t.Errorf("another address: status %d", w.Code)
		}
		time.Sleep(time.Duration(wait) * time.Second)
		if w := guess(); w.Code != http.StatusUnauthorized {
			t.Errorf("after the wait: status %d", w.Code)
		}
		if !strings.Contains(r.log.String(), "withheld=1000") {
			t.Errorf("the log does not say how many were withheld: %s", r.log)
		}
	})
}

// TestAttemptsFromEverywhere: many addresses together are limited too, and what
// is remembered of them is bounded.
func TestAttemptsFromEverywhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newFixture(t)
		told := map[int]int{}
		for i := range 5000 {
			remote := fmt.Sprintf("[2001:db8:%x::1]:9", i)
			told[r.request(testRequest{method: "GET", path: "/api/v1/status", header: wrong, remote: remote}).Code]++
		}
		if told[http.StatusUnauthorized] != 100 || told[http.StatusTooManyRequests] != 4900 {
			t.Errorf("answers %v, want 100 times 401", told)
		}
		if w := r.request(testRequest{method: "GET", path: "/api/v1/status", remote: "[2001:db8::1]:9"}); w.Code != http.StatusOK {
			t.Errorf("the right token was locked out: %d", w.Code)
		}
	})
}

func TestCheckToken(t *testing.T) {
	for _, bad := range []string{"", "short", strings.Repeat("x", 513), "with a space in the middle", "with-a-line-end-x\n", "caféeeeeeeeeeeeeee"} {
		err := auth.CheckToken(bad)
		if err == nil || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("token %q: %v", bad, err)
		}
		if _, err := api.NewAdmin(api.AdminConfig{Token: bad}); err == nil {
			t.Errorf("an admin API with the token %q", bad)
		}
	}
	for _, good := range []string{token, strings.Repeat("x", 16), strings.Repeat("~", 512)} {
		if err := auth.CheckToken(good); err != nil {
			t.Errorf("token %q: %v", good, err)
		}
	}
	if _, err := api.NewAdmin(api.AdminConfig{Token: token}); err == nil {
		t.Error("an admin API without anything behind it")
	}
}
