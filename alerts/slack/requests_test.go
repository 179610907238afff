package slack

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"headgate/internal/fakeslack"
)

// signed is a request as Slack makes it, before a test changes it.
func signed(path, body string, at time.Time) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(signing))
	fmt.Fprintf(mac, "v0:%s:%s", stamp, body)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Slack-Request-Timestamp", stamp)
	r.Header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
	return r
}

// line is the body of a command.
func line(trigger, text string) string {
	return url.Values{
		"team_id": {"T0FAKE"}, "user_id": {"U0ADA"}, "channel_id": {"C1"}, "command": {"/headgate"}, "text": {text}, "trigger_id": {trigger},
	}.Encode()
}

// requests returns a handler that began a while ago.
func (l *lobby) requests() *Requests {
	l.t.Helper()
	q, err := NewRequests(signing, l.reception, l.logs)
	if err != nil {
		l.t.Fatal(err)
	}
	q.started = time.Now().Add(-time.Hour)
	return q
}

func TestOnlyWhatSlackHasSignedIsRead(t *testing.T) {
	l := newLobby(t, fakeslack.Options{})
	q := l.requests()
	now := time.Now()
	tests := []struct {
		name, want string
		make       func() *http.Request
	}{
		{"not signed", "it is not signed", func() *http.Request {
			r := signed(CommandsPath, line("1", "rollback"), now)
			r.Header.Del("X-Slack-Signature")
			return r
		}},
		{"without a time", "it is not signed", func() *http.Request {
			r := signed(CommandsPath, line("2", "rollback"), now)
			r.Header.Del("X-Slack-Request-Timestamp")
			return r
		}},
		{"another time than was signed", "its signature is wrong", func() *http.Request {
			r := signed(CommandsPath, line("3", "rollback"), now)
			r.Header.Set("X-Slack-Request-Timestamp", strconv.FormatInt(now.Unix()-1, 10))
			return r
		}},
		{"another body than was signed", "its signature is wrong", func() *http.Request {
			r := signed(CommandsPath, line("4", "status"), now)
			r.Body = io.NopCloser(strings.NewReader(line("4", "rollback")))
			return r
		}},
		{"something added to the body", "its signature is wrong", func() *http.Request {
			body := line("5", "status")
			r := signed(CommandsPath, body, now)
			r.Body = io.NopCloser(strings.NewReader(body + "&text=rollback"))
			return r
		}},
		{"no signature at all", "its signature is wrong", func() *http.Request {
			r := signed(CommandsPath, line("6", "rollback"), now)
			r.Header.Set("X-Slack-Signature", "v0=00")
			return r
		}},
		{"of six minutes ago", "more than five minutes off", func() *http.Request {
			return signed(CommandsPath, line("7", "rollback"), now.Add(-6*time.Minute))
		}},
		{"of six minutes from now", "more than five minutes off", func() *http.Request {
			return signed(CommandsPath, line("8", "rollback"), now.Add(6*time.Minute))
		}},
	}
	for k, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			q.ServeHTTP(w, tt.make())
			if w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), signing) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			all := l.clerk.noted()
			if len(all) != k+1 || !all[k].Forged || all[k].Actor != "" || !strings.Contains(all[k].Reason, tt.want) || all[k].Inputs["path"] != CommandsPath {
				t.Errorf("entries %+v", all)
			}
		})
	}
	if l.turnedAway("signature") != float64(len(tests)) || len(l.clerk.asked()) != 0 {
		t.Errorf("%v counted, asked %+v", l.turnedAway("signature"), l.clerk.asked())
	}
}

// The edges of five minutes are Slack's, within seconds.
func TestSignaturesAreGoodForFiveMinutes(t *testing.T) {
	l := newLobby(t, fakeslack.Options{})
	q := l.requests()
	for n, off := range []time.Duration{0, -4 * time.Minute, 4 * time.Minute} {
		w := httptest.NewRecorder()
		q.ServeHTTP(w, signed(CommandsPath, line(fmt.Sprint(n), "status"), time.Now().Add(off)))
		if w.Code != http.StatusOK || w.Body.Len() != 0 {
			t.Errorf("%s off: %d %s", off, w.Code, w.Body)
		}
	}
	l.within("all are done", func() bool { return len(l.clerk.asked()) == 3 })
}

// What was signed before the start may have been taken by the process before.
func TestRequestsOfBeforeTheStartAreNotTaken(t *testing.T) {
	l := newLobby(t, fakeslack.Options{})
	q := l.requests()
	q.started = time.Now().Truncate(time.Second)
	w := httptest.NewRecorder()
	q.ServeHTTP(w, signed(CommandsPath, line("1", "rollback"), q.started.Add(-time.Second)))
	if w.Code != http.StatusUnauthorized {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	q.ServeHTTP(w, signed(CommandsPath, line("2", "rollback"), q.started))
	if w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	l.within("one is done", func() bool { return len(l.clerk.asked()) == 1 })
}

func TestRequestsThatMakeNoSense(t *testing.T) {
	l := newLobby(t, fakeslack.Options{})
	q := l.requests()
	now := time.Now()
	for name, tt := range map[string]struct {
		r    *http.Request
		want int
	}{
		"another path":                {signed("/slack/else", line("1", "rollback"), now), http.StatusNotFound},
		"the root":                    {signed("/", line("1", "rollback"), now), http.StatusNotFound},
		"another method":              {httptest.NewRequest(http.MethodGet, CommandsPath, nil), http.StatusMethodNotAllowed},
		"too long":                    {signed(CommandsPath, line("1", strings.Repeat("x", maxRequest)), now), http.StatusRequestEntityTooLarge},
		"a press without payload":     {signed(InteractivityPath, line("1", "rollback"), now), http.StatusBadRequest},
		"a command on the other path": {signed(CommandsPath, "payload={}", now), http.StatusBadRequest},
		"no JSON":                     {signed(InteractivityPath, "payload=%7B", now), http.StatusBadRequest},
		"no form":                     {signed(CommandsPath, "%zz", now), http.StatusBadRequest},
		"nobody":                      {signed(CommandsPath, "command=%2Fheadgate&team_id=T0FAKE&trigger_id=1", now), http.StatusBadRequest},
		"Slack looks whether we live": {signed(CommandsPath, "ssl_check=1&token=x", now), http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			q.ServeHTTP(w, tt.r)
			if w.Code != tt.want {
				t.Errorf("%d %s, want %d", w.Code, w.Body, tt.want)
			}
		})
	}
	if asked := l.clerk.asked(); len(asked) != 0 {
		t.Errorf("asked %+v", asked)
	}
}

// A request that was not taken may come again.
func TestARequestThatWasNotTakenMayComeAgain(t *testing.T) {
	l := newLobby(t, fakeslack.Options{})
	q := l.requests()
	body, now := line("1", "status"), time.Now()
	l.reception.mu.Lock()
	l.reception.closed = true
	l.reception.mu.Unlock()
	w := httptest.NewRecorder()
	q.ServeHTTP(w, signed(CommandsPath, body, now))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "going down") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	l.reception.mu.Lock()
	l.reception.closed = false
	l.reception.mu.Unlock()
	w = httptest.NewRecorder()
	q.ServeHTTP(w, signed(CommandsPath, body, now))
	if w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	l.within("it is done", func() bool { return len(l.clerk.asked()) == 1 })
}

// Slack sends again what was not answered in time: signed anew, with a number. The
// press is the same, and has one effect.
func TestSlackTriesAgain(t *testing.T) {
	l := newLobby(t, fakeslack.Options{})
	q := l.requests()
	body := line("1.2", "rollback")
	for n := range 3 {
		r := signed(CommandsPath, body, time.Now().Add(time.Duration(n)*time.Second))
		if n > 0 {
			r.Header.Set("X-Slack-Retry-Num", strconv.Itoa(n))
			r.Header.Set("X-Slack-Retry-Reason", "http_timeout")
		}
		w := httptest.NewRecorder()
		q.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Errorf("attempt %d: %d %s", n, w.Code, w.Body)
		}
	}
	l.within("all are noted", func() bool { return len(l.clerk.noted()) == 3 })
	if n := len(l.clerk.asked()); n != 1 || l.turnedAway("repeated") != 2 {
		t.Errorf("done %d times, %v repeated", n, l.turnedAway("repeated"))
	}
	retries := 0
	for _, e := range l.clerk.noted() {
		if strings.HasSuffix(e.Inputs["retry"], " http_timeout") {
			retries++
		}
	}
	if retries != 2 {
		t.Errorf("entries %+v", l.clerk.noted())
	}
}
