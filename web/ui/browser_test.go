package ui_test

import (
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"
)

// browser keeps cookies and follows no redirects.
type browser struct {
	*fixture
	client *http.Client
}

func (r *fixture) browser() *browser {
	r.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.Fatal(err)
	}
	// A connection that may wait for another request holds up the end of the test.
	c := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return &browser{r, c}
}

// signedIn is a browser with a session.
func (r *fixture) signedIn() *browser {
	r.Helper()
	b := r.browser()
	if got := b.post("/login", url.Values{"token": {token}, "name": {"ana"}}); got.status != http.StatusSeeOther {
		r.Fatalf("signing in: %d\n%s", got.status, got.text())
	}
	return b
}

// response is what came back, read.
type response struct {
	*testing.T
	status int
	header http.Header
	body   string
	doc    *html.Node
}

func (b *browser) do(req *http.Request) response {
	b.Helper()
	reply, err := b.client.Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	if err != nil {
		b.Fatal(err)
	}
	a := response{b.T, reply.StatusCode, reply.Header, string(text), nil}
	if a.doc, err = html.Parse(strings.NewReader(a.body)); err != nil {
		b.Fatal(err)
	}
	return a
}

func (b *browser) request(method, path string, body io.Reader) *http.Request {
	b.Helper()
	req, err := http.NewRequest(method, b.url+path, body)
	if err != nil {
		b.Fatal(err)
	}
	req.Header.Set("Accept", "text/html,application/xhtml+xml")
	return req
}

func (b *browser) get(path string) response { return b.do(b.request(http.MethodGet, path, nil)) }

func (b *browser) post(path string, form url.Values) response {
	req := b.request(http.MethodPost, path, strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return b.do(req)
}

// submit fills in the form of a page that goes to a path, and sends it.
func (b *browser) submit(a response, action string, fill url.Values) response {
	b.Helper()
	form := a.findNode(func(n *html.Node) bool {
		return n.Data == "form" && attr(n, "action") == action && attr(n, "method") == "post"
	})
	if form == nil {
		b.Fatalf("there is no form that goes to %s\n%s", action, a.text())
	}
	values := url.Values{}
	walk(form, func(n *html.Node) {
		if n.Data == "input" && attr(n, "type") == "hidden" {
			values.Set(attr(n, "name"), attr(n, "value"))
		}
	})
	for name, v := range fill {
		values[name] = v
	}
	return b.post(action, values)
}

// want checks the status, and that texts are there as text.
func (a response) want(status int, texts ...string) response {
	a.Helper()
	if a.status != status {
		a.Errorf("status %d, want %d\n%s", a.status, status, a.text())
	}
	for _, t := range texts {
		if !strings.Contains(a.text(), t) {
			a.Errorf("%q is not on the page:\n%s", t, a.text())
		}
	}
	return a
}

// wantWithout checks that texts are not there.
func (a response) wantWithout(texts ...string) response {
	a.Helper()
	for _, t := range texts {
		if strings.Contains(a.text(), t) {
			a.Errorf("%q is on the page", t)
		}
	}
	return a
}

// text is what can be read on the page, with single spaces.
func (a response) text() string {
	var b strings.Builder
	walk(a.doc, func(n *html.Node) {
		if n.Type == html.TextNode {
			b.WriteString(n.Data + " ")
		}
	})
	text := strings.Join(strings.Fields(b.String()), " ")
	return strings.NewReplacer(" .", ".", " ,", ",", " ;", ";").Replace(text)
}

func (a response) findNode(is func(*html.Node) bool) (found *html.Node) {
	walk(a.doc, func(n *html.Node) {
		if found == nil && n.Type == html.ElementNode && is(n) {
			found = n
		}
	})
	return found
}

func (a response) elements(tag string) (found []*html.Node) {
	walk(a.doc, func(n *html.Node) {
		if n.Type == html.ElementNode && n.Data == tag {
			found = append(found, n)
		}
	})
	return found
}

// links are all addresses that the page leads to.
func (a response) links() []string {
	var all []string
	for _, n := range a.elements("a") {
		all = append(all, attr(n, "href"))
	}
	return all
}

func walk(n *html.Node, f func(*html.Node)) {
	f(n)
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		walk(c, f)
	}
}

func attr(n *html.Node, name string) string {
	for _, a := range n.Attr {
		if a.Key == name {
			return a.Val
		}
	}
	return ""
}
