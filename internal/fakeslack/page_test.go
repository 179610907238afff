package fakeslack_test

import (
	"html"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"headgate/internal/fakeslack"
)

// browse asks for a page as a browser does. Fields make it a POST.
func browse(t *testing.T, srv *httptest.Server, path string, fields url.Values, site string) (*http.Response, string) {
	t.Helper()
	method, body := http.MethodGet, ""
	if fields != nil {
		method, body = http.MethodPost, fields.Encode()
	}
	req, err := http.NewRequestWithContext(t.Context(), method, srv.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Sec-Fetch-Site", site)
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := srv.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(raw)
}

var (
	forms  = regexp.MustCompile(`(?s)<form method="post" action="/press">.*?</form>`)
	inputs = regexp.MustCompile(`<(?:input|button)[^>]* name="([^"]*)" value="([^"]*)"`)
)

// fields are those of the form whose button says something.
func fields(t *testing.T, page, button string) url.Values {
	t.Helper()
	for _, f := range forms.FindAllString(page, -1) {
		if !strings.Contains(f, ">"+button+"</button>") {
			continue
		}
		v := make(url.Values)
		for _, m := range inputs.FindAllStringSubmatch(f, -1) {
			v.Set(m[1], html.UnescapeString(m[2]))
		}
		return v
	}
	t.Fatalf("no form has the button %s:\n%s", button, page)
	return nil
}

func TestPagePress(t *testing.T) {
	s, c, srv := newFixture(t, fakeslack.Options{})
	var app callbackServer
	receiveInteractions(t, s, &app)
	withButtons(t, c)
	_, page := browse(t, srv, "/channel?channel=C1&as=U0BEN", nil, "same-origin")
	for _, want := range []string{`href="https://e.example/runbook"`, `class="danger"`, `name="as" value="U0BEN"`} {
		if !strings.Contains(page, want) {
			t.Errorf("the page lacks %s", want)
		}
	}

	resp, after := browse(t, srv, "/press", fields(t, page, "Acknowledge"), "same-origin")
	if resp.Request.URL.Path != "/channel" || !strings.Contains(after, "Acknowledge") || len(app.received()) != 1 {
		t.Fatalf("after the press one is at %s, and the app was asked %d times", resp.Request.URL, len(app.received()))
	}

	_, ask := browse(t, srv, "/press", fields(t, page, "Roll back"), "same-origin")
	for _, want := range []string{"Roll back main?", "Nobody is &lt;refused&gt; then.", "Keep it"} {
		if !strings.Contains(ask, want) {
			t.Errorf("the confirmation lacks %q", want)
		}
	}
	if len(app.received()) != 1 || strings.Contains(ask, `http-equiv="refresh"`) {
		t.Error("a button that asks first did not wait for the answer")
	}
	browse(t, srv, "/press", fields(t, ask, "Roll it back"), "same-origin")
	if r := s.Receipts(); len(r) != 2 || r[1].Action != "rollback" || r[1].User != "U0BEN" || r[1].Error != "" {
		t.Errorf("receipts %+v", r)
	}
}

func TestPageCommand(t *testing.T) {
	s, _, srv := newFixture(t, fakeslack.Options{})
	app := callbackServer{answer: func(_ int, w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "all <b>is</b> well") }}
	receiveInteractions(t, s, &app)
	v := url.Values{"channel": {"C1"}, "as": {"U0EVE"}, "line": {"/headgate status"}}
	resp, _ := browse(t, srv, "/command", v, "same-origin")
	if resp.Request.URL.Path != "/" || resp.Request.URL.Query().Get("as") != "U0EVE" || resp.Request.URL.Query().Get("channel") != "C1" {
		t.Errorf("after the command one is at %s", resp.Request.URL)
	}
	_, eve := browse(t, srv, "/channel?channel=C1&as=U0EVE", nil, "same-origin")
	_, ada := browse(t, srv, "/channel?channel=C1&as=U0ADA", nil, "same-origin")
	if !strings.Contains(eve, "Only visible to you") || !strings.Contains(eve, "all &lt;b&gt;is&lt;/b&gt; well") || strings.Contains(ada, "well") {
		t.Errorf("eve sees %s\nada sees %s", eve, ada)
	}
	v.Set("line", "hello <i>")
	if resp, body := browse(t, srv, "/command", v, "same-origin"); resp.StatusCode != http.StatusConflict || !strings.Contains(body, "slash") {
		t.Errorf("what is no command: %s %s", resp.Status, body)
	}
}

func TestPageErrors(t *testing.T) {
	s, c, srv := newFixture(t, fakeslack.Options{})
	ts := withButtons(t, c)
	_, page := browse(t, srv, "/channel?channel=C1", nil, "same-origin")
	ack := fields(t, page, "Acknowledge")
	if _, after := browse(t, srv, "/press", ack, "same-origin"); !strings.Contains(after, "the app did not answer") {
		t.Errorf("without an app: %s", after)
	}
	s.Delete("C1", ts)
	if resp, body := browse(t, srv, "/press", ack, "same-origin"); resp.StatusCode != http.StatusConflict || !strings.Contains(body, "no such message") {
		t.Errorf("a message that is gone: %s %s", resp.Status, body)
	}
}

func TestPageCrossOrigin(t *testing.T) {
	s, c, srv := newFixture(t, fakeslack.Options{})
	var app callbackServer
	receiveInteractions(t, s, &app)
	withButtons(t, c)
	_, page := browse(t, srv, "/channel?channel=C1", nil, "same-origin")
	ack := fields(t, page, "Acknowledge")
	command := url.Values{"channel": {"C1"}, "as": {"U0ADA"}, "line": {"/headgate rollback"}}
	for path, v := range map[string]url.Values{"/press": ack, "/command": command} {
		if resp, _ := browse(t, srv, path, v, "cross-site"); resp.StatusCode != http.StatusForbidden {
			t.Errorf("%s from another site: %s", path, resp.Status)
		}
		if resp, _ := browse(t, srv, path+"?"+v.Encode(), nil, "cross-site"); resp.StatusCode == http.StatusOK {
			t.Errorf("%s by a link: %s", path, resp.Status)
		}
	}
	if len(app.received()) != 0 {
		t.Error("the app received an interaction")
	}
}

func TestPageSafety(t *testing.T) {
	s, _, srv := newFixture(t, fakeslack.Options{Users: []fakeslack.User{{ID: "U1", Name: "<b>ada</b>"}}})
	s.SetChannel(fakeslack.Channel{ID: `C"><b>`, Name: `<i>`, Member: true})
	for _, path := range []string{"/", "/channel", "/channel?pause=1", `/?channel=%22%3E%3Cb%3E&as=%3Cb%3E`} {
		resp, body := browse(t, srv, path, nil, "none")
		csp := resp.Header.Get("Content-Security-Policy")
		if !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") || strings.Contains(csp, "script-src") {
			t.Errorf("%s: policy %q", path, csp)
		}
		for _, bad := range []string{"<script", "<style", " style=", "<b>", "<i>", " onclick"} {
			if strings.Contains(body, bad) {
				t.Errorf("%s has %s", path, bad)
			}
		}
		if !strings.Contains(body, `href="/style.css"`) {
			t.Errorf("%s has no style", path)
		}
	}
	_, shell := browse(t, srv, "/?channel=C1", nil, "none")
	for _, want := range []string{"(archived)", "#&lt;i&gt;", `src="/channel?as=U1&amp;channel=C1"`, "&lt;b&gt;ada&lt;/b&gt; (U1)", `action="/command"`} {
		if !strings.Contains(shell, want) {
			t.Errorf("the page lacks %s:\n%s", want, shell)
		}
	}
	resp, css := browse(t, srv, "/style.css", nil, "same-origin")
	if !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/css") || !strings.Contains(css, "prefers-color-scheme: dark") {
		t.Errorf("style: %s", resp.Header.Get("Content-Type"))
	}
}

func TestPressOnOutdatedPage(t *testing.T) {
	s, c, srv := newFixture(t, fakeslack.Options{})
	var app callbackServer
	receiveInteractions(t, s, &app)
	ts := withButtons(t, c)
	_, page := browse(t, srv, "/channel?channel=C1", nil, "same-origin")
	_, ask := browse(t, srv, "/press", fields(t, page, "Roll back"), "same-origin")
	if _, _, _, err := c.UpdateMessageContext(t.Context(), "C1", ts, text("over, thanks to <@U0ADA>")); err != nil {
		t.Fatal(err)
	}
	browse(t, srv, "/press", fields(t, ask, "Roll it back"), "same-origin")
	h := app.received()
	if len(h) != 1 {
		t.Fatalf("the app received %d interactions, want 1", len(h))
	}
	form, _ := url.ParseQuery(h[0].body)
	if p := form.Get("payload"); !strings.Contains(p, `\"pool\":\"main\"`) || !strings.Contains(p, `"text":"trouble"`) {
		t.Errorf("the app received another version: %s", p)
	}
	if _, page := browse(t, srv, "/channel?channel=C1", nil, "same-origin"); !strings.Contains(page, "thanks to <mark>@ada</mark>") {
		t.Error("a user is not shown by name")
	}
}

func TestPageHost(t *testing.T) {
	s := fakeslack.New(fakeslack.Options{})
	for host, want := range map[string]int{
		"127.0.0.1:80": 200, "localhost:8080": 200, "localhost": 200, "[::1]:80": 200, "[::1]": 200,
		"evil.example": 421, "evil.example:80": 421, "127.0.0.1.evil.example": 421, "": 421,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Host = host
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("as %q: %d, want %d", host, w.Code, want)
		}
	}
}
