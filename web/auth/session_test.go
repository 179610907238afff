package auth_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"headgate/web/auth"
)

var start = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func TestSessionsEnd(t *testing.T) {
	for name, step := range map[string]struct {
		uses []time.Duration // after the start
		at   time.Duration
		want bool
	}{
		"at once":                  {nil, 0, true},
		"just before it is idle":   {nil, auth.IdleTimeout - time.Second, true},
		"idle":                     {nil, auth.IdleTimeout, false},
		"used meanwhile":           {[]time.Duration{3 * time.Hour}, auth.IdleTimeout + time.Hour, true},
		"idle since the last use":  {[]time.Duration{3 * time.Hour}, auth.IdleTimeout + 3*time.Hour, false},
		"used all day, and ending": {multiplesOf(time.Hour, 23), auth.MaxLifetime, false},
		"used all day":             {multiplesOf(time.Hour, 23), auth.MaxLifetime - time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			var s auth.Store
			secret, _ := s.Create(start, "ana")
			for _, u := range step.uses {
				if _, ok := s.Lookup(start.Add(u), secret, true); !ok {
					t.Fatalf("gone after %s already", u)
				}
			}
			if _, ok := s.Lookup(start.Add(step.at), secret, true); ok != step.want {
				t.Errorf("there after %s: %t, want %t", step.at, ok, step.want)
			}
		})
	}
}

func multiplesOf(d time.Duration, n int) []time.Duration {
	var all []time.Duration
	for i := range n {
		all = append(all, time.Duration(i+1)*d)
	}
	return all
}

// TestPeekDoesNotExtendSession: a page that refreshes itself does not hold a session open.
func TestPeekDoesNotExtendSession(t *testing.T) {
	var s auth.Store
	secret, _ := s.Create(start, "ana")
	for at := time.Minute; at < auth.IdleTimeout; at += time.Minute {
		if _, ok := s.Lookup(start.Add(at), secret, false); !ok {
			t.Fatalf("gone after %s", at)
		}
	}
	if _, ok := s.Lookup(start.Add(auth.IdleTimeout), secret, false); ok {
		t.Error("peeking has kept it open")
	}
}

func TestSessionsDiffer(t *testing.T) {
	var s auth.Store
	secret, opened := s.Create(start, "ana")
	other, second := s.Create(start, "ben")
	got, ok := s.Lookup(start, secret, true)
	if !ok || got != opened || got.Actor != "ana" {
		t.Errorf("got %+v, want %+v", got, opened)
	}
	if !got.ValidFormToken(opened.FormToken) || got.ValidFormToken(second.FormToken) || got.ValidFormToken("") || (auth.Session{}).ValidFormToken("") {
		t.Error("a form token is owned by its session alone")
	}
	s.Revoke(secret)
	if _, ok := s.Lookup(start, secret, true); ok {
		t.Error("there after it was closed")
	}
	if _, ok := s.Lookup(start, other, true); !ok {
		t.Error("closing one has ended another")
	}
	for _, wrong := range []string{"", "x", opened.FormToken} {
		if _, ok := s.Lookup(start, wrong, true); ok {
			t.Errorf("%q is a session", wrong)
		}
	}
}

func TestLinksWorkOnce(t *testing.T) {
	var s auth.Store
	code, until := s.CreateLink(start, "ana@ops1")
	if until != start.Add(auth.LinkLifetime) {
		t.Errorf("until %s", until)
	}
	if _, _, ok := s.RedeemLink(start, "something else"); ok {
		t.Error("any code is a way in")
	}
	secret, opened, ok := s.RedeemLink(start.Add(auth.LinkLifetime-time.Second), code)
	if !ok || opened.Actor != "ana@ops1" {
		t.Fatalf("entered %t as %+v", ok, opened)
	}
	if _, ok := s.Lookup(start.Add(auth.LinkLifetime), secret, true); !ok {
		t.Error("no session has begun")
	}
	if _, _, ok := s.RedeemLink(start.Add(auth.LinkLifetime-time.Second), code); ok {
		t.Error("a link has worked twice")
	}
	late, until := s.CreateLink(start, "ana")
	if _, _, ok := s.RedeemLink(until, late); ok {
		t.Error("a link has worked after its time")
	}
}

// TestBounds: neither sessions nor links grow without end; the newest ones stay.
func TestBounds(t *testing.T) {
	var s auth.Store
	var secrets, codes []string
	for i := range auth.MaxSessions + 10 {
		secret, _ := s.Create(start.Add(time.Duration(i)*time.Second), fmt.Sprint(i))
		secrets = append(secrets, secret)
	}
	for i := range auth.MaxLinks + 10 {
		code, _ := s.CreateLink(start.Add(time.Duration(i)*time.Second), fmt.Sprint(i))
		codes = append(codes, code)
	}
	now := start.Add(5 * time.Minute)
	there := 0
	for _, secret := range secrets {
		if _, ok := s.Lookup(now, secret, false); ok {
			there++
		}
	}
	if _, ok := s.Lookup(now, secrets[0], false); ok || there != auth.MaxSessions {
		t.Errorf("%d sessions, the oldest among them: %t", there, ok)
	}
	if _, _, ok := s.RedeemLink(now, codes[0]); ok {
		t.Error("the oldest link is still there")
	}
	if _, _, ok := s.RedeemLink(now, codes[len(codes)-1]); !ok {
		t.Error("the newest link is gone")
	}
}

// TestLinkRedeemedOnceConcurrently: of many who use a link at once, one gets in.
func TestLinkRedeemedOnceConcurrently(t *testing.T) {
	var s auth.Store
	code, _ := s.CreateLink(start, "ana")
	var all sync.WaitGroup
	entered := make(chan string, 50)
	for range 50 {
		all.Go(func() {
			if secret, _, ok := s.RedeemLink(start, code); ok {
				entered <- secret
			}
		})
	}
	all.Wait()
	if len(entered) != 1 {
		t.Errorf("%d have entered by one link", len(entered))
	}
}
