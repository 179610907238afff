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
	"reflect"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"headgate/engine"
	"headgate/runbooks/control"
	"headgate/runbooks/drill"
)

// How long a client waits: short, since there is another way.
const (
	connectTimeout = time.Second
	pingTimeout    = time.Second     // for any reply at all
	callTimeout    = 5 * time.Second // for a whole call; a change waits up to 2 s for its record
	maxReply       = 8 << 20
	maxPool        = 63
)

// ClientConfig is what a Client is made of.
type ClientConfig struct {
	URL   string // of the admin listener, such as http://127.0.0.1:8485
	Token string // empty: none is sent
	Actor string // who sends the requests; empty: "api"
}

// UnreachableError is the error of a client that got no answer.
type UnreachableError struct {
	// Sent is false if the request cannot have reached headgate. If it is true, the
	// request may have been carried out or not.
	Sent bool
	Err  error
}

// Error says what came instead of an answer.
func (s *UnreachableError) Error() string { return "no answer from the admin plane: " + s.Err.Error() }

// Unwrap returns what came instead of an answer.
func (s *UnreachableError) Unwrap() error { return s.Err }

// Client is a client of the admin API. Every call returns a *Problem for an error that
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
		// A server that redirects is not headgate, and must not get the token.
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

// Close closes idle connections.
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

// CheckPool refuses what cannot be the name of a pool, and as a part of a URL
// might mean something else.
func CheckPool(name string) error {
	if name == "" || len(name) > maxPool || strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-") != "" {
		return fmt.Errorf("%s cannot be a pool: a name has 1 to %d of a-z, 0-9 and -", quoteName(name), maxPool)
	}
	return nil
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
	var content io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return nil, err
		}
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

// decodeReply distinguishes a reply of the admin API from that of another program.
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

// call sends a request and reads the reply. With an error of a check of its path it sends nothing.
func call[T any](ctx context.Context, c *Client, method string, query url.Values, body any, invalid error, path ...string) (out T, err error) {
	if invalid != nil {
		return out, invalid
	}
	u := c.base.JoinPath("api/v1").JoinPath(path...)
	u.RawQuery = query.Encode()
	err = c.do(ctx, method, u, body, &out)
	return out, err
}

// params returns parameters but for those that are zero.
func params(all map[string]any) url.Values {
	values := url.Values{}
	for name, v := range all {
		if t, ok := v.(time.Time); ok && !t.IsZero() {
			v = t.UTC().Format(time.RFC3339Nano)
		}
		if !reflect.ValueOf(v).IsZero() {
			values.Set(name, fmt.Sprint(v))
		}
	}
	return values
}

// Status returns the status of headgate.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return call[Status](ctx, c, http.MethodGet, nil, nil, nil, "status")
}

// SetMode requests a mode for a pool, for all pools if the name is empty.
func (c *Client) SetMode(ctx context.Context, pool string, m ModeRequest) (ModeReply, error) {
	if pool == "" {
		return call[ModeReply](ctx, c, http.MethodPut, nil, m, nil, "mode")
	}
	return call[ModeReply](ctx, c, http.MethodPut, nil, m, CheckPool(pool), "pools", pool, "mode")
}

// Audit asks for a page of what is recorded.
func (c *Client) Audit(ctx context.Context, q control.AuditQuery) (control.AuditPage, error) {
	return call[control.AuditPage](ctx, c, http.MethodGet, params(map[string]any{
		"since": q.Since, "pool": q.Pool, "kind": q.Kind, "after": q.After, "limit": q.Limit,
	}), nil, nil, "audit")
}

// DoAction requests an action.
func (c *Client) DoAction(ctx context.Context, name string, m ActionRequest) (ActionReply, error) {
	return call[ActionReply](ctx, c, http.MethodPost, nil, m, nil, "actions", name)
}

// Incidents asks for a page of incidents.
func (c *Client) Incidents(ctx context.Context, q IncidentQuery) (IncidentList, error) {
	return call[IncidentList](ctx, c, http.MethodGet, params(map[string]any{
		"open": q.Open, "since": q.Since, "pool": q.Pool, "rule": q.Rule, "after": q.After, "limit": q.Limit,
	}), nil, nil, "incidents")
}

// Incident asks for all that is known of one incident.
func (c *Client) Incident(ctx context.Context, id string) (IncidentReport, error) {
	return call[IncidentReport](ctx, c, http.MethodGet, nil, nil, CheckID(id), "incidents", id)
}

// Ack acknowledges an open incident. A *Problem with Acked says who was first.
func (c *Client) Ack(ctx context.Context, id string, a AckRequest) (AckReply, error) {
	return call[AckReply](ctx, c, http.MethodPost, nil, a, CheckID(id), "incidents", id, "ack")
}

// Silences asks for a page of the silences of rules that are not over.
func (c *Client) Silences(ctx context.Context, after string, limit int) (SilenceList, error) {
	return call[SilenceList](ctx, c, http.MethodGet, params(map[string]any{"after": after, "limit": limit}), nil, nil, "silences")
}

// Silence silences a rule.
func (c *Client) Silence(ctx context.Context, m SilenceRequest) (SilenceReply, error) {
	return call[SilenceReply](ctx, c, http.MethodPost, nil, m, nil, "silences")
}

// Unsilence ends a silence of a rule early.
func (c *Client) Unsilence(ctx context.Context, id string) (engine.Silence, error) {
	return call[engine.Silence](ctx, c, http.MethodDelete, nil, nil, CheckID(id), "silences", id)
}

// CreateLoginLink asks for a link that signs the client's actor in, once.
func (c *Client) CreateLoginLink(ctx context.Context) (LoginLink, error) {
	return call[LoginLink](ctx, c, http.MethodPost, nil, nil, nil, "login-links")
}

// Drills asks which drills there are.
func (c *Client) Drills(ctx context.Context) (DrillList, error) {
	return call[DrillList](ctx, c, http.MethodGet, nil, nil, nil, "drills")
}

// DrillHistory requests sums of the runs of drills.
func (c *Client) DrillHistory(ctx context.Context, q drill.HistoryQuery) (DrillHistory, error) {
	query := params(map[string]any{"drill": q.Drill, "since": q.Since, "until": q.Until})
	return call[DrillHistory](ctx, c, http.MethodGet, query, nil, nil, "drills/history")
}

// RunDrill begins a run, or asks what one would do.
func (c *Client) RunDrill(ctx context.Context, name string, r DrillRunRequest) (DrillRunReply, error) {
	return call[DrillRunReply](ctx, c, http.MethodPost, nil, r, CheckDrill(name), "drills", url.PathEscape(name), "run")
}

// Runs asks for a page of runs.
func (c *Client) Runs(ctx context.Context, q drill.Query) (DrillRunList, error) {
	return call[DrillRunList](ctx, c, http.MethodGet, RunParams(q), nil, nil, "runs")
}

// RunParams writes the filters of runs as RunQuery reads them.
func RunParams(q drill.Query) url.Values {
	return params(map[string]any{
		"drill": q.Drill, "verdict": join(q.Verdicts, ","), "trigger": join(q.Triggers, ","), "since": q.Since, "until": q.Until,
		"running": q.Running, "after": q.After, "limit": q.Limit,
	})
}

// The parts of a run's series that Client.Run asks for.
const (
	FullSeries = ""
	LastPoint  = "last"
	NoSeries   = "none"
)

// Run asks for one run.
func (c *Client) Run(ctx context.Context, id, series string) (drill.Run, error) {
	return call[drill.Run](ctx, c, http.MethodGet, params(map[string]any{"series": series}), nil, CheckID(id), "runs", id)
}

// Abort stops a run.
func (c *Client) Abort(ctx context.Context, id, reason string) (drill.Run, error) {
	return call[drill.Run](ctx, c, http.MethodPost, nil, ReasonRequest{Reason: reason}, CheckID(id), "runs", id, "abort")
}

// Freeze stops drills and keeps them from running.
func (c *Client) Freeze(ctx context.Context, reason string) (DrillFreeze, error) {
	return call[DrillFreeze](ctx, c, http.MethodPost, nil, ReasonRequest{Reason: reason}, nil, "drills/freeze")
}

// Unfreeze lets drills run again.
func (c *Client) Unfreeze(ctx context.Context, reason string) (DrillFreeze, error) {
	return call[DrillFreeze](ctx, c, http.MethodPost, nil, ReasonRequest{Reason: reason}, nil, "drills/unfreeze")
}
