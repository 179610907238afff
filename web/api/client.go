package api

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"headgate/engine"
	"headgate/runbooks/control"
)

// How long a client waits: short, since there is another way.
const (
	connectTimeout = time.Second
	pingTimeout    = time.Second     // for any reply at all
	callTimeout    = 5 * time.Second // for a whole call; an order waits up to 2 s for its record
	maxReply       = 8 << 20
	maxPool        = 63
)

// ClientConfig is what a Client is made of.
type ClientConfig struct {
	URL   string // of the admin listener, such as http://127.0.0.1:8485
	Token string // empty: none is sent
	Actor string // who gives orders; empty: "api"
}

// UnreachableError is the error of a client that got no answer.
type UnreachableError struct {
	// Sent is false if the order cannot have reached headgate. If it is true, the
	// order may have been carried out or not.
	Sent bool
	Err  error
}

// Error says what came instead of an answer.
func (s *UnreachableError) Error() string { return "no answer from the admin plane: " + s.Err.Error() }

// Unwrap returns what came instead of an answer.
func (s *UnreachableError) Unwrap() error { return s.Err }

// Client speaks to the admin API. Every call returns a *Problem for an error that
// the API answered with, and a *UnreachableError if there was no answer. It may be used by
// several goroutines.
type Client struct {
	base  *url.URL
	token string
	actor string
	http  *http.Client
}

// NewClient returns a client, or an error if the URL is none that a token may be
// sent to.
func NewClient(c ClientConfig) (*Client, error) {
	base, err := ParseAdminURL(c.URL)
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(c.Token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the token must consist of printable ASCII characters without spaces")
	}
	transport := &http.Transport{
		Proxy: proxyUnlessLocal, DialContext: (&net.Dialer{Timeout: connectTimeout}).DialContext,
		TLSHandshakeTimeout: 2 * connectTimeout, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 64 << 10,
	}
	return &Client{base: base, token: c.Token, actor: c.Actor, http: &http.Client{
		Transport: transport,
		// Whoever redirects is not headgate, and must not get the token.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// ParseAdminURL reads the URL of an admin listener. Plain HTTP is for this machine
// only: anywhere else the token could be read on the way.
func ParseAdminURL(s string) (*url.URL, error) {
	u, err := url.Parse(s)
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "":
		return nil, errors.New("the admin URL must be like http://127.0.0.1:8485")
	case u.User != nil || u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the admin URL must have no user, query or fragment")
	case u.Scheme == "http" && !IsLocal(u):
		return nil, fmt.Errorf("the token is not sent over plain http to %s, where it could be read on the way: "+
			"use https, run the command on that host, or tunnel with ssh -L 8485:127.0.0.1:8485 %s and leave the URL out", u.Host, u.Hostname())
	}
	return u, nil
}

// IsLocal says whether a URL means this machine, so that what is sent there never
// leaves it.
func IsLocal(u *url.URL) bool {
	host := strings.ToLower(u.Hostname())
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return host == "localhost"
	}
	return addr.Unmap().IsLoopback() || isOwnAddress(addr.Unmap().WithZone(""))
}

func isOwnAddress(addr netip.Addr) bool {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return false
	}
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		p, err := netip.ParsePrefix(a.String())
		return err == nil && p.Addr().Unmap().WithZone("") == addr
	})
}

// proxyUnlessLocal is the environment's proxy, but never for this machine.
func proxyUnlessLocal(r *http.Request) (*url.URL, error) {
	if IsLocal(r.URL) {
		return nil, nil
	}
	return http.ProxyFromEnvironment(r)
}

// Close gives back the connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Ping returns a *UnreachableError unless something replies quickly.
func (c *Client) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base.JoinPath("healthz").String(), nil)
	if err != nil {
		return err
	}
	reply, err := c.http.Do(r)
	if err != nil {
		return &UnreachableError{Err: unwrapURLError(err)}
	}
	defer reply.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(reply.Body, 1<<10)) // so that the connection can serve again
	return nil
}

// Status asks how headgate stands.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var s Status
	return s, c.do(ctx, http.MethodGet, c.base.JoinPath("api/v1/status"), nil, &s)
}

// CheckPool refuses what cannot be the name of a pool, and as a part of a URL
// might mean something else.
func CheckPool(name string) error {
	if name == "" || len(name) > maxPool || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("%s cannot be a pool: a name has 1 to %d of a-z, 0-9 and -", quoteName(name), maxPool)
	}
	return nil
}

// SetMode orders a mode for a pool, for all if the name is empty.
func (c *Client) SetMode(ctx context.Context, pool string, m ModeRequest) (ModeReply, error) {
	u := c.base.JoinPath("api/v1/mode")
	var reply ModeReply
	if pool != "" {
		if err := CheckPool(pool); err != nil {
			return reply, err
		}
		u = c.base.JoinPath("api/v1/pools", pool, "mode")
	}
	return reply, c.do(ctx, http.MethodPut, u, m, &reply)
}

// AuditReader asks for a page of what is recorded.
func (c *Client) Audit(ctx context.Context, q control.AuditQuery) (control.AuditPage, error) {
	v := url.Values{}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	for name, value := range map[string]string{"pool": q.Pool, "kind": string(q.Kind), "after": q.After} {
		if value != "" {
			v.Set(name, value)
		}
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	u := c.base.JoinPath("api/v1/audit")
	u.RawQuery = v.Encode()
	var page control.AuditPage
	return page, c.do(ctx, http.MethodGet, u, nil, &page)
}

// DoAction asks for an action.
func (c *Client) DoAction(ctx context.Context, name string, m ActionRequest) (ActionReply, error) {
	var reply ActionReply
	return reply, c.do(ctx, http.MethodPost, c.base.JoinPath("api/v1/actions", name), m, &reply)
}

// do sends a request and reads the answer into out.
func (c *Client) do(ctx context.Context, method string, u *url.URL, body, out any) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	r, err := c.newRequest(ctx, method, u, body)
	if err != nil {
		return err
	}
	reply, err := c.http.Do(r)
	if err != nil {
		return &UnreachableError{Sent: sent.Load(), Err: unwrapURLError(err)}
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(io.LimitReader(reply.Body, maxReply))
	if err != nil {
		return &UnreachableError{Sent: true, Err: unwrapURLError(err)}
	}
	return decodeReply(reply, text, out)
}

func (c *Client) newRequest(ctx context.Context, method string, u *url.URL, body any) (*http.Request, error) {
	text, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	var content io.Reader
	if body != nil {
		content = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, u.String(), content)
	if err != nil {
		return nil, err
	}
	if body != nil {
		r.Header.Set("Content-Type", "application/json")
	}
	if c.actor != "" {
		r.Header.Set(ActorHeader, c.actor)
	}
	if c.token != "" {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	return r, nil
}

// decodeReply tells an answer of the admin API from whatever else may listen
// there.
func decodeReply(reply *http.Response, text []byte, out any) error {
	media, _, _ := mime.ParseMediaType(reply.Header.Get("Content-Type")) // "" is none of ours
	switch {
	case reply.StatusCode == http.StatusOK && media == "application/json":
		if json.Unmarshal(text, out) == nil {
			return nil
		}
	case reply.StatusCode >= 400 && reply.StatusCode < 500 && media == "application/problem+json":
		p := new(Problem)
		if json.Unmarshal(text, p) == nil && p.Status == reply.StatusCode {
			return p
		}
	}
	return &UnreachableError{Sent: true, Err: fmt.Errorf("a reply that is not headgate's, or a broken one: status %d", reply.StatusCode)}
}

// unwrapURLError takes the URL off an error, which says it once too often.
func unwrapURLError(err error) error {
	var u *url.Error
	if !errors.As(err, &u) {
		return err
	}
	if u.Timeout() {
		return errors.New("it did not answer in time")
	}
	return u.Err
}

// IncidentReader asks for a page of incidents.
func (c *Client) Incidents(ctx context.Context, q IncidentQuery) (IncidentList, error) {
	v := pageParams(q.After, q.Limit)
	if q.Open {
		v.Set("open", "true")
	}
	if !q.Since.IsZero() {
		v.Set("since", q.Since.UTC().Format(time.RFC3339Nano))
	}
	for name, value := range map[string]string{"pool": q.Pool, "rule": q.Rule} {
		if value != "" {
			v.Set(name, value)
		}
	}
	u := c.base.JoinPath("api/v1/incidents")
	u.RawQuery = v.Encode()
	var list IncidentList
	return list, c.do(ctx, http.MethodGet, u, nil, &list)
}

func pageParams(after string, limit int) url.Values {
	v := url.Values{}
	if after != "" {
		v.Set("after", after)
	}
	if limit > 0 {
		v.Set("limit", strconv.Itoa(limit))
	}
	return v
}

// Incident asks for all that is known of one incident.
func (c *Client) Incident(ctx context.Context, id string) (IncidentReport, error) {
	var report IncidentReport
	if err := CheckID(id); err != nil {
		return report, err
	}
	return report, c.do(ctx, http.MethodGet, c.base.JoinPath("api/v1/incidents", id), nil, &report)
}

// Ack takes an open incident on. A *Problem with Acked says who was first.
func (c *Client) Ack(ctx context.Context, id string, a AckRequest) (AckReply, error) {
	var reply AckReply
	if err := CheckID(id); err != nil {
		return reply, err
	}
	return reply, c.do(ctx, http.MethodPost, c.base.JoinPath("api/v1/incidents", id, "ack"), a, &reply)
}

// Silences asks for a page of the silences of rules that are not over.
func (c *Client) Silences(ctx context.Context, after string, limit int) (SilenceList, error) {
	u := c.base.JoinPath("api/v1/silences")
	u.RawQuery = pageParams(after, limit).Encode()
	var list SilenceList
	return list, c.do(ctx, http.MethodGet, u, nil, &list)
}

// Silence silences a rule.
func (c *Client) Silence(ctx context.Context, m SilenceRequest) (SilenceReply, error) {
	var reply SilenceReply
	return reply, c.do(ctx, http.MethodPost, c.base.JoinPath("api/v1/silences"), m, &reply)
}

// Unsilence ends a silence of a rule early.
func (c *Client) Unsilence(ctx context.Context, id string) (engine.Silence, error) {
	var m engine.Silence
	if err := CheckID(id); err != nil {
		return m, err
	}
	return m, c.do(ctx, http.MethodDelete, c.base.JoinPath("api/v1/silences", id), nil, &m)
}

// CreateLoginLink asks for a link that signs the client's actor in, once.
func (c *Client) CreateLoginLink(ctx context.Context) (LoginLink, error) {
	var reply LoginLink
	return reply, c.do(ctx, http.MethodPost, c.base.JoinPath("api/v1/login-links"), nil, &reply)
}
