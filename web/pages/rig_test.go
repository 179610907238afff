package pages_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/html"

	"headgate/engine"
	"headgate/engine/samples"
	"headgate/proxy/admit"
	"headgate/runbooks"
	"headgate/web"
	"headgate/web/pages"
	"headgate/web/webtest"
)

const token = "a-token-of-a-test-0123456789"

var errBroken = errors.New("the disk at /some/where is full")

// rig is a whole admin plane on a listener, over a fake record.
type rig struct {
	*testing.T
	url    string
	admin  *web.Admin
	record *record
	notes  *notebook
	board  *webtest.Board
	shelf  *webtest.Shelf
	engine *engine.Engine
	series *series
	acts   *acts
}

type rigOptions struct {
	drills    *web.Drills
	anonymous bool
	unwatched bool
	pools     []web.PoolStatus
}

func newRig(t *testing.T, o rigOptions) *rig {
	t.Helper()
	if o.pools == nil {
		o.pools = []web.PoolStatus{quietPool("default")}
	}
	r := &rig{T: t, record: &record{pools: o.pools}, notes: &notebook{}, board: webtest.NewBoard(), shelf: webtest.NewShelf(), series: &series{}, acts: &acts{}}
	log := slog.New(slog.DiscardHandler)
	c := web.AdminConfig{
		Drills: o.drills, Actions: r.acts,
		Token: token, Orders: r.record, Statuses: r.record, Audit: r.record, Log: log, AnonymousRead: o.anonymous, Notes: r.notes,
	}
	p := pages.Config{Facts: r.record, Log: log}
	if !o.unwatched {
		r.engine = webtest.Engine(t, 5*time.Millisecond, r.board, r.shelf, log)
		c.Incidents, c.Watch, p.Series = r.shelf, r.engine, r.series
	}
	var err error
	if r.admin, err = web.NewAdmin(c); err != nil {
		t.Fatal(err)
	}
	p.Admin = r.admin
	people, err := pages.New(p)
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(web.Handler(web.Ops{Metrics: prometheus.NewRegistry(), Ready: func() error { return nil }, Pages: people}, r.admin))
	t.Cleanup(s.Close)
	r.url = s.URL
	return r
}

// quietPool is a pool in enforce that serves a little.
func quietPool(name string) web.PoolStatus {
	recorded, p95, use := true, 41.2, 0.6
	return web.PoolStatus{
		Name: name, Mode: "enforce", ModeSince: time.Now().Add(-time.Hour), ModeBy: "settings", ModeReason: "first start", ModeRecorded: &recorded,
		Policy: "threshold", Workers: 4, InFlight: 3, QueueDepth: 2, QueueOldestAgeS: 4.2, P95TurnaroundS: &p95, SLOS: 60, EnvelopeUse: &use,
		Admitted1m: 12,
	}
}

// record is how pools stand, and what was done.
type record struct {
	mu     sync.Mutex
	pools  []web.PoolStatus
	orders []runbooks.Order
	page   web.ChangePage
	asked  web.ChangeQuery
	broken error
}

func (r *record) Status(time.Time) web.Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return web.Status{Version: "v1", Pools: slices.Clone(r.pools)}
}

func (r *record) Do(_ context.Context, now time.Time, o runbooks.Order) (runbooks.Result, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	result := runbooks.Result{Recorded: true}
	for i := range r.pools {
		p := &r.pools[i]
		if o.Pool != "" && o.Pool != p.Name {
			continue
		}
		if o.Expected != nil && o.Expected.String() != p.Mode {
			return runbooks.Result{}, runbooks.ErrUnexpected
		}
		from, err := admit.ParseMode(p.Mode)
		if err != nil {
			return runbooks.Result{}, err
		}
		to := o.Mode
		if o.Action == runbooks.Restore {
			to = admit.Enforce
		}
		p.Mode, p.ModeBy, p.ModeReason, p.ModeSince = to.String(), o.Actor, o.Reason, now
		result.Changes = append(result.Changes, runbooks.Change{ID: "x", Pool: p.Name, Action: o.Action, From: from, To: to, At: now, Actor: o.Actor})
	}
	if len(result.Changes) == 0 {
		return runbooks.Result{}, runbooks.ErrNoPool
	}
	r.orders = append(r.orders, o)
	return result, nil
}

func (r *record) Changes(_ context.Context, q web.ChangeQuery) (web.ChangePage, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = q
	return r.page, r.broken
}

func (r *record) Facts(context.Context, time.Time, string) (pages.PoolFacts, bool) {
	return pages.PoolFacts{
		MaxAge: 25 * time.Second, MaxDepth: 8, Objective: 0.95, Window: 30 * 24 * time.Hour, Good: 990, Bad: 10, Counted: true,
	}, true
}

func (r *record) given() []runbooks.Order {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.orders)
}

// set changes a pool behind everybody's back.
func (r *record) set(change func(*web.PoolStatus)) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change(&r.pools[0])
}

// acts takes pauses, and remembers them.
type acts struct {
	mu    sync.Mutex
	given []runbooks.Call
}

func (a *acts) Acts() []runbooks.Act { return []runbooks.Act{{Name: "pause"}, {Name: "resume"}} }

func (a *acts) Do(_ context.Context, _ time.Time, c runbooks.Call) (runbooks.Outcome, error) {
	if c.Name == "resume" && c.Pool == "b" {
		return runbooks.Outcome{}, runbooks.ErrNotPaused
	}
	if !c.DryRun {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.given = append(a.given, c)
	}
	return runbooks.Outcome{Words: "pool " + c.Pool + " would hand out no worker"}, nil
}

// notebook is an audit in memory.
type notebook struct {
	mu      sync.Mutex
	entries []runbooks.Entry
}

func (n *notebook) Note(e runbooks.Entry) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.entries = append(n.entries, e)
}

func (n *notebook) last() runbooks.Entry {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.entries) == 0 {
		return runbooks.Entry{}
	}
	return n.entries[len(n.entries)-1]
}

// series is samples: the same for every expression.
type series struct {
	mu     sync.Mutex
	lines  func(expr string, from, to time.Time, step time.Duration) []samples.Line
	broken error
	asked  []string
}

func (s *series) Between(_ context.Context, expr string, from, to time.Time, step time.Duration) ([]samples.Line, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, expr)
	if s.broken != nil || s.lines == nil {
		return nil, s.broken
	}
	return s.lines(expr, from, to, step), nil
}

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

// trouble opens an incident, and returns its ID.
func (r *rig) trouble(rule, pool string) string {
	r.Helper()
	r.board.Put(rule, pool, 15)
	for {
		for _, i := range r.engine.Incidents() {
			if i.Key.Rule == rule && i.Key.Pool == pool && i.Open() {
				return i.ID
			}
		}
		select {
		case <-r.Context().Done():
			r.Fatal("no incident has opened")
		case <-time.After(time.Millisecond):
		}
	}
}
