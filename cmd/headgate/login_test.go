package main

import (
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"
	"time"
)

// TestLoginMakesALink: it signs in once, as who runs the command.
func TestLoginMakesALink(t *testing.T) {
	g := newTestEnv(t)
	s := g.serve()
	r := g.run("login", "--json")
	var link loginLink
	if err := json.Unmarshal([]byte(r.out), &link); r.code != 0 || err != nil {
		t.Fatalf("exit %d: %s%s", r.code, r.out, r.err)
	}
	if until, err := time.Parse(time.RFC3339, link.Until); err != nil || time.Until(until) > 10*time.Minute {
		t.Errorf("until %s", link.Until)
	}
	u, err := url.Parse(link.URL)
	if err != nil || !strings.HasPrefix(link.URL, "http://"+s.AdminAddr()+"/login?code=") {
		t.Fatalf("the link is %s", link.URL)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	browser := &http.Client{Jar: jar}
	defer browser.CloseIdleConnections()
	for n, want := range []int{http.StatusOK, http.StatusForbidden} {
		reply, err := browser.PostForm("http://"+s.AdminAddr()+"/login", url.Values{"code": {u.Query().Get("code")}, "next": {"/"}})
		if err != nil {
			t.Fatal(err)
		}
		reply.Body.Close()
		if reply.StatusCode != want {
			t.Errorf("press %d of the button: %d, want %d", n+1, reply.StatusCode, want)
		}
	}
	if got := s.LoginPath("x"); !strings.HasPrefix(got, "/login?code=") {
		t.Errorf("the link of the service itself is %s", got)
	}
}

func TestLoginSaysWhere(t *testing.T) {
	g := newTestEnv(t)
	g.serve()
	r := g.run("login", "--url", "https://gate.example.com/")
	if r.code != 0 || !strings.HasPrefix(r.out, "https://gate.example.com/login?code=") || strings.Count(r.out, "\n") != 1 || !strings.Contains(r.err, "works once, until ") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
	for _, wrong := range []string{"gate.example.com", "http://gate.example.com", "https://a:b@gate.example.com"} {
		if r := g.run("login", "--url", wrong); r.code != exitUsage || r.out != "" {
			t.Errorf("--url %s: exit %d: %s%s", wrong, r.code, r.out, r.err)
		}
	}
}
