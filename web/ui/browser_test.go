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
	*rig
	client *http.Client
}

func (r *rig) browser() *browser {
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

// signedIn is a browser of somebody who has signed in.
func (r *rig) signedIn() *browser {
	r.Helper()
	b := r.browser()
	if got := b.post("/login", url.Values{"token": {token}, "name": {"ana"}}); got.status != http.StatusSeeOther {
		r.Fatalf("signing in: %d\n%s", got.status, got.text())
	}
	return b
}

// answer is what came back, read.
type answer struct {
	*testing.T
	status int
	header http.Header
	body   string
	doc    *html.Node
}

func (b *browser) do(req *http.Request) answer {
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
	a := answer{b.T, reply.StatusCode, reply.Header, string(text), nil}
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

func (b *browser) get(path string) answer { return b.do(b.request(http.MethodGet, path, nil)) }

func (b *browser) post(path string, form url.Values) answer {
	req := b.request(http.MethodPost, path, strings.NewReader(form.Encode()))
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return b.do(req)
}

// send fills in the form of a page that goes to a path, and sends it.
func (b *browser) send(a answer, action string, fill url.Values) answer {
	b.Helper()
	form := a.find(func(n *html.Node) bool {
		return n.Data == "form" && attr(n, "action") == action && attr(n, "method") == "post"
	})
	if form == nil {
		b.Fatalf("there is no form that goes to %s\n%s", action, a.text())
	}
	values := url.Values{}
	each(form, func(n *html.Node) {
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
func (a answer) want(status int, texts ...string) answer {
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

// without checks that texts are not there.
func (a answer) without(texts ...string) answer {
	a.Helper()
	for _, t := range texts {
		if strings.Contains(a.text(), t) {
			a.Errorf("%q is on the page", t)
		}
	}
	return a
}

// text is what can be read on the page, with single spaces.
func (a answer) text() string {
	var b strings.Builder
	each(a.doc, func(n *html.Node) {
		if n.Type == html.TextNode {
			b.WriteString(n.Data + " ")
		}
	})
	text := strings.Join(strings.Fields(b.String()), " ")
	return strings.NewReplacer(" .", ".", " ,", ",", " ;", ";").Replace(text)
}

func (a answer) find(is func(*html.Node) bool) (found *html.Node) {
	each(a.doc, func(n *html.Node) {
		if found == nil && n.Type == html.ElementNode && is(n) {
			found = n
		}
	})
	return found
}

func (a answer) all(tag string) (found []*html.Node) {
	each(a.doc, func(n *html.Node) {
		if n.Type == html.ElementNode && n.Data == tag {
			found = append(found, n)
		}
	})
	return found
}

// links are all addresses that the page leads to.
func (a answer) links() []string {
	var all []string
	for _, n := range a.all("a") {
		all = append(all, attr(n, "href"))
	}
	return all
}

func each(n *html.Node, f func(*html.Node)) {
	f(n)
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		each(c, f)
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
