package slack

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"headgate/internal/fakeslack"
	"headgate/internal/testkit"
)

// signedRequest is a request as Slack makes it, before a test changes it.
func signedRequest(path, body string, at time.Time) *http.Request {
	r := httptest.NewRequest(http.MethodPost, path, strings.NewReader(body))
	stamp := strconv.FormatInt(at.Unix(), 10)
	mac := hmac.New(sha256.New, []byte(signing))
	fmt.Fprintf(mac, "v0:%s:%s", stamp, body)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.Header.Set("X-Slack-Request-Timestamp", stamp)
	r.Header.Set("X-Slack-Signature", "v0="+hex.EncodeToString(mac.Sum(nil)))
	return r
}

// commandBody is the body of a command.
func commandBody(trigger, text string) string {
	return url.Values{
		"team_id": {"T0FAKE"}, "user_id": {"U0ADA"}, "channel_id": {"C1"}, "command": {"/headgate"}, "text": {text}, "trigger_id": {trigger},
	}.Encode()
}

// requests returns a handler that began a while ago.
func (l *interactionFixture) requests() *requestHandler {
	l.t.Helper()
	q, err := newRequestHandler(signing, l.interactions)
	if err != nil {
		l.t.Fatal(err)
	}
	q.started = time.Now().Add(-time.Hour)
	return q
}

func TestSignatures(t *testing.T) {
	l := newInteractionFixture(t, fakeslack.Options{})
	q := l.requests()
	now := time.Now()
	tests := []struct {
		name, want string
		make       func() *http.Request
	}{
		{"not signed", "it is not signed", func() *http.Request {
			r := signedRequest(CommandsPath, commandBody("1", "rollback"), now)
			r.Header.Del("X-Slack-Signature")
			return r
		}},
		{"without a time", "it is not signed", func() *http.Request {
			r := signedRequest(CommandsPath, commandBody("2", "rollback"), now)
			r.Header.Del("X-Slack-Request-Timestamp")
			return r
		}},
		{"another time than was signed", "its signature is wrong", func() *http.Request {
			r := signedRequest(CommandsPath, commandBody("3", "rollback"), now)
			r.Header.Set("X-Slack-Request-Timestamp", strconv.FormatInt(now.Unix()-1, 10))
			return r
		}},
		{"another body than was signed", "its signature is wrong", func() *http.Request {
			r := signedRequest(CommandsPath, commandBody("4", "status"), now)
			r.Body = io.NopCloser(strings.NewReader(commandBody("4", "rollback")))
			return r
		}},
		{"something added to the body", "its signature is wrong", func() *http.Request {
			body := commandBody("5", "status")
			r := signedRequest(CommandsPath, body, now)
			r.Body = io.NopCloser(strings.NewReader(body + "&text=rollback"))
			return r
		}},
		{"no signature at all", "its signature is wrong", func() *http.Request {
			r := signedRequest(CommandsPath, commandBody("6", "rollback"), now)
			r.Header.Set("X-Slack-Signature", "v0=00")
			return r
		}},
		{"of six minutes ago", "more than five minutes off", func() *http.Request {
			return signedRequest(CommandsPath, commandBody("7", "rollback"), now.Add(-6*time.Minute))
		}},
		{"of six minutes from now", "more than five minutes off", func() *http.Request {
			return signedRequest(CommandsPath, commandBody("8", "rollback"), now.Add(6*time.Minute))
		}},
	}
	for k, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := httptest.NewRecorder()
			q.ServeHTTP(w, tt.make())
			if w.Code != http.StatusUnauthorized || strings.Contains(w.Body.String(), signing) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
			all := l.executor.audited()
			if len(all) != k+1 || !all[k].Forged || all[k].Actor != "" || !strings.Contains(all[k].Reason, tt.want) || all[k].Inputs["path"] != CommandsPath {
				t.Errorf("entries %+v", all)
			}
		})
	}
	if l.rejected("signature") != float64(len(tests)) || len(l.executor.executed()) != 0 {
		t.Errorf("%v counted, asked %+v", l.rejected("signature"), l.executor.executed())
	}
}

// The edges of five minutes are Slack's, within seconds.
func TestSignatureAge(t *testing.T) {
	l := newInteractionFixture(t, fakeslack.Options{})
	q := l.requests()
	for n, off := range []time.Duration{0, -4 * time.Minute, 4 * time.Minute} {
		w := httptest.NewRecorder()
		q.ServeHTTP(w, signedRequest(CommandsPath, commandBody(fmt.Sprint(n), "status"), time.Now().Add(off)))
		if w.Code != http.StatusOK || w.Body.Len() != 0 {
			t.Errorf("%s off: %d %s", off, w.Code, w.Body)
		}
	}
	l.waitFor("all are done", func() bool { return len(l.executor.executed()) == 3 })
}

// What was signed before the start may have been taken by the process before.
func TestSignedBeforeStart(t *testing.T) {
	l := newInteractionFixture(t, fakeslack.Options{})
	q := l.requests()
	q.started = time.Now().Truncate(time.Second)
	w := httptest.NewRecorder()
	q.ServeHTTP(w, signedRequest(CommandsPath, commandBody("1", "rollback"), q.started.Add(-time.Second)))
	if w.Code != http.StatusUnauthorized {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	w = httptest.NewRecorder()
	q.ServeHTTP(w, signedRequest(CommandsPath, commandBody("2", "rollback"), q.started))
	if w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	l.waitFor("one is done", func() bool { return len(l.executor.executed()) == 1 })
}

func TestInvalidRequests(t *testing.T) {
	l := newInteractionFixture(t, fakeslack.Options{})
	q := l.requests()
	now := time.Now()
	for name, tt := range map[string]struct {
		r    *http.Request
		want int
	}{
		"another path":                {signedRequest("/slack/else", commandBody("1", "rollback"), now), http.StatusNotFound},
		"the root":                    {signedRequest("/", commandBody("1", "rollback"), now), http.StatusNotFound},
		"another method":              {httptest.NewRequest(http.MethodGet, CommandsPath, nil), http.StatusMethodNotAllowed},
		"too long":                    {signedRequest(CommandsPath, commandBody("1", strings.Repeat("x", maxRequestBytes)), now), http.StatusRequestEntityTooLarge},
		"a press without payload":     {signedRequest(InteractivityPath, commandBody("1", "rollback"), now), http.StatusBadRequest},
		"a command on the other path": {signedRequest(CommandsPath, "payload={}", now), http.StatusBadRequest},
		"no JSON":                     {signedRequest(InteractivityPath, "payload=%7B", now), http.StatusBadRequest},
		"no form":                     {signedRequest(CommandsPath, "%zz", now), http.StatusBadRequest},
		"no user":                     {signedRequest(CommandsPath, "command=%2Fheadgate&team_id=T0FAKE&trigger_id=1", now), http.StatusBadRequest},
		"certificate check by Slack":  {signedRequest(CommandsPath, "ssl_check=1&token=x", now), http.StatusOK},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			q.ServeHTTP(w, tt.r)
			if w.Code != tt.want {
				t.Errorf("%d %s, want %d", w.Code, w.Body, tt.want)
			}
		})
	}
	if asked := l.executor.executed(); len(asked) != 0 {
		t.Errorf("asked %+v", asked)
	}
}

// A request that was not taken may come again.
func TestRejectedRequestMayBeRepeated(t *testing.T) {
	l := newInteractionFixture(t, fakeslack.Options{})
	q := l.requests()
	body, now := commandBody("1", "status"), time.Now()
	l.interactions.mu.Lock()
	l.interactions.closed = true
	l.interactions.mu.Unlock()
	w := httptest.NewRecorder()
	q.ServeHTTP(w, signedRequest(CommandsPath, body, now))
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "shutting down") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	l.interactions.mu.Lock()
	l.interactions.closed = false
	l.interactions.mu.Unlock()
	w = httptest.NewRecorder()
	q.ServeHTTP(w, signedRequest(CommandsPath, body, now))
	if w.Code != http.StatusOK {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	l.waitFor("it is done", func() bool { return len(l.executor.executed()) == 1 })
}

// Slack sends again what was not answered in time: signed anew, with a number. The
// press is the same, and has one effect.
func TestSlackRetries(t *testing.T) {
	l := newInteractionFixture(t, fakeslack.Options{})
	q := l.requests()
	body := commandBody("1.2", "rollback")
	for n := range 3 {
		r := signedRequest(CommandsPath, body, time.Now().Add(time.Duration(n)*time.Second))
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
	l.waitFor("all are noted", func() bool { return len(l.executor.audited()) == 3 })
	if n := len(l.executor.executed()); n != 1 || l.rejected("repeated") != 2 {
		t.Errorf("done %d times, %v repeated", n, l.rejected("repeated"))
	}
	retries := 0
	for _, e := range l.executor.audited() {
		if strings.HasSuffix(e.Inputs["retry"], " http_timeout") {
			retries++
		}
	}
	if retries != 2 {
		t.Errorf("entries %+v", l.executor.audited())
	}
}

// TestListenerReopens: a listener that ends by itself is opened again at the same address, and the metric shows it.
func TestListenerReopens(t *testing.T) {
	reg := prometheus.NewRegistry()
	l, err := newListener(http.NotFoundHandler(), InteractionOptions{Registerer: reg, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l.minDelay = 20 * time.Millisecond
	if err := l.open("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	address, done := l.addr(), make(chan struct{})
	go func() {
		defer close(done)
		l.serve(t.Context())
	}()
	t.Cleanup(func() {
		if err := l.shutdown(context.Background()); err != nil {
			t.Error(err)
		}
		<-done
	})
	listening := func(want float64) {
		t.Helper()
		for end := time.Now().Add(testkit.Timeout(10 * time.Second)); ; time.Sleep(time.Millisecond) {
			families, err := reg.Gather()
			if err != nil {
				t.Fatal(err)
			}
			if families[0].GetMetric()[0].GetGauge().GetValue() == want {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("the metric is not %v", want)
			}
		}
	}
	answers := func() {
		t.Helper()
		client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
		resp, err := client.Get("http://" + address)
		if err != nil {
			t.Fatal(err)
		}
		resp.Body.Close()
	}
	listening(1)
	answers()
	var other net.Listener
	for err = net.ErrClosed; err != nil; other, err = net.Listen("tcp", address) { // until it is faster than the listener
		listening(1)
		l.mu.Lock()
		if l.current != nil {
			_ = l.current.Close()
		}
		l.mu.Unlock()
	}
	listening(0)
	other.Close()
	listening(1)
	answers()
}
