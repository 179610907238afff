package adversarial

import (
	"strings"
	"testing"

	"headgate/e2e/harness"
)

// Only the right token is accepted, also after any number of wrong ones.
func TestTokens(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	const host = "Host: localhost"
	right := "Authorization: Bearer " + g.token
	for _, c := range []struct {
		name    string
		headers []string
		want    []int
	}{
		{"none", nil, []int{401}},
		{"empty", []string{"Authorization:"}, []int{401}},
		{"empty bearer", []string{"Authorization: Bearer "}, []int{401, 429}},
		{"wrong", []string{"Authorization: Bearer " + strings.Repeat("x", len(g.token))}, []int{401, 429}},
		{"its beginning", []string{right[:len(right)-1]}, []int{401, 429}},
		{"and more", []string{right + "x"}, []int{401, 429}},
		{"as basic", []string{"Authorization: Basic " + g.token}, []int{401, 429}},
		{"twice", []string{right, right}, []int{401, 429}},
		{"in a cookie", []string{"Cookie: token=" + g.token}, []int{401}},
		{"huge", []string{"Authorization: Bearer " + strings.Repeat("x", 1<<20)}, []int{431}},
		{"long", []string{"Authorization: Bearer " + strings.Repeat("x", 32<<10)}, []int{401, 429}},
	} {
		for range 10 {
			status, header, body := g.sendRaw(t, g.rawModeRequest("PUT", append(c.headers, host)...))
			ok := false
			for _, want := range c.want {
				ok = ok || status == want
			}
			if !ok || strings.Contains(body, g.token) {
				t.Errorf("%s: status %d, want %v: %s", c.name, status, c.want, body)
			}
			if status == 429 && header.Get("Retry-After") == "" {
				t.Errorf("%s: 429 without Retry-After", c.name)
			}
		}
	}
	g.checkServes(t)
	lines := strings.Count(g.Stderr(), "wrong token")
	if lines == 0 || lines > 15 {
		t.Errorf("the log reports wrong tokens %d times, want some and not all of 70", lines)
	}
	if strings.Contains(g.Stderr(), g.token) {
		t.Error("the token is in the log")
	}
}

// Foreign host names are rejected on both listeners, with the right token too.
func TestForeignHost(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	right := "Authorization: Bearer " + g.token
	for _, host := range []string{"evil.example", "evil.example:8485", "localhost.evil.example", "127.0.0.1.nip.example", "", "xn--lcalhost-l0a"} {
		if status, _, body := g.sendRaw(t, g.rawModeRequest("PUT", right, "Host: "+host)); status != 421 {
			t.Errorf("admin, host %q: status %d, want 421: %s", host, status, body)
		}
		data := g
		gate := *g.Gate
		gate.Admin = g.URL
		data.Gate = &gate
		if status, _, body := data.sendRaw(t, "POST /v1/chat/completions HTTP/1.1\r\nConnection: close\r\nContent-Length: 2\r\nHost: "+host+"\r\n\r\n{}"); status != 421 ||
			!strings.Contains(body, `"error"`) {
			t.Errorf("data, host %q: status %d, want 421: %s", host, status, body)
		}
	}
	g.checkServes(t)
}

// Cross-site requests are rejected, even with the token.
func TestCrossSite(t *testing.T) {
	t.Parallel()
	g := newTarget(t)
	right := "Authorization: Bearer " + g.token
	for _, headers := range [][]string{
		{"Sec-Fetch-Site: cross-site"}, {"Sec-Fetch-Site: same-site"}, {"Origin: http://evil.example"}, {"Origin: null"},
		{"Sec-Fetch-Site: cross-site", "Origin: http://localhost"},
	} {
		for _, method := range []string{"PUT", "POST", "DELETE"} {
			if status, _, body := g.sendRaw(t, g.rawModeRequest(method, append(headers, right, "Host: localhost")...)); status != 403 {
				t.Errorf("%s with %v: status %d, want 403: %s", method, headers, status, body)
			}
		}
	}
	// A preflight promises nothing.
	if status, header, _ := g.sendRaw(t, g.rawModeRequest("OPTIONS", "Host: localhost", "Origin: http://evil.example", "Access-Control-Request-Method: PUT")); status < 400 ||
		header.Get("Access-Control-Allow-Origin") != "" {
		t.Errorf("preflight: status %d, %v", status, header)
	}
	g.checkServes(t)
	harness.Eventually(t, "the log reports it", func() bool { return strings.Contains(g.Stderr(), "from another site was refused") })
}
