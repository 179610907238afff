package api

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode"

	"headgate/runbooks/control"
	"headgate/web/auth"
)

// FormHeader carries the form token of a session, in writes to the API that rest
// on its cookie.
const FormHeader = "Headgate-Form-Token"

// Auth authenticates people and programs, and limits rejected attempts. It may
// be used by any number of requests at once.
type Auth struct {
	token         tokenHash
	limiter       attemptLimiter
	crossOrigin   *http.CrossOriginProtection
	sessions      auth.Store
	anonymousRead bool
	auditLog      control.AuditSink // nil: none
	log           *slog.Logger
}

func newAuth(c AdminConfig) *Auth {
	return &Auth{
		token: newTokenHash(c.Token), crossOrigin: http.NewCrossOriginProtection(), anonymousRead: c.AnonymousRead, auditLog: c.AuditLog, log: c.Log,
	}
}

// AnonymousRead says whether clients may read without signing in.
func (d *Auth) AnonymousRead() bool { return d.anonymousRead }

// Session returns the session of a request, if it has one. A request that only
// refreshes what a page shows does not keep it from going idle.
func (d *Auth) Session(r *http.Request, refresh bool) (auth.Session, bool) {
	secret, ok := readCookie(r)
	switch {
	case !ok:
		return auth.Session{}, false
	case refresh:
		return d.sessions.Peek(time.Now(), secret)
	default:
		return d.sessions.Touch(time.Now(), secret)
	}
}

// SignIn begins a session for a client with the token, and sets its cookie. After too
// many wrong tokens it returns how long to wait; the right one is taken all the same.
func (d *Auth) SignIn(w http.ResponseWriter, r *http.Request, token, actor string) (ok bool, wait time.Duration) {
	if !d.token.matches(token) {
		return false, d.reject(r, "login", "a wrong token")
	}
	secret, opened := d.sessions.Create(time.Now(), cmp.Or(actor, "page"))
	d.startSession(w, r, secret, opened, "with the token")
	return true, 0
}

// RedeemLink begins a session for a client with the code of a link, and sets its cookie.
// The code is used up. After too many wrong ones it returns how long to wait.
func (d *Auth) RedeemLink(w http.ResponseWriter, r *http.Request, code string) (ok bool, wait time.Duration) {
	secret, opened, ok := d.sessions.RedeemLink(time.Now(), code)
	if !ok {
		return false, d.reject(r, "login", "a login link that is used up, over or none")
	}
	d.startSession(w, r, secret, opened, "with a link")
	return true, 0
}

func (d *Auth) startSession(w http.ResponseWriter, r *http.Request, secret string, opened auth.Session, how string) {
	writeCookie(w, r, secret, int(auth.MaxLifetime/time.Second))
	d.log.Info("signed in", "actor", opened.Actor, "remote", r.RemoteAddr)
	d.appendAudit(r, control.AuditEntry{Action: "login", Result: control.Done, Actor: opened.Actor, Reason: how})
}

// SignOut ends the session of a request, and takes its cookie away.
func (d *Auth) SignOut(w http.ResponseWriter, r *http.Request) {
	secret, ok := readCookie(r)
	if ok {
		if s, there := d.sessions.Peek(time.Now(), secret); there {
			d.appendAudit(r, control.AuditEntry{Action: "logout", Result: control.Done, Actor: s.Actor})
		}
		d.sessions.Revoke(secret)
	}
	writeCookie(w, r, "", -1)
}

// CreateLink returns the code of a one-time login link, and how long it is valid.
func (d *Auth) CreateLink(actor string) (code string, until time.Time) {
	return d.sessions.CreateLink(time.Now(), actor)
}

// CheckOrigin returns an error if a write comes from a page of another site, and records
// that it was refused.
func (d *Auth) CheckOrigin(r *http.Request) error {
	err := d.crossOrigin.Check(r)
	if err != nil {
		d.reject(r, "write", "a request from another site")
	}
	return err
}

// RejectCSRF records that a write was refused for its form token.
func (d *Auth) RejectCSRF(r *http.Request) {
	d.reject(r, "write", "a form token that is not the session's")
}

// reject counts an attempt, and returns how long to wait if there were too many.
// Only those within the limit are logged and recorded: whoever makes many of them
// must not fill the record.
func (d *Auth) reject(r *http.Request, action, what string) (wait time.Duration) {
	wait, withheld := d.limiter.take(time.Now(), r.RemoteAddr)
	if wait > 0 {
		return wait
	}
	d.log.Warn(what+" was refused", "method", r.Method, "path", truncateForLog(r.URL.Path), "origin", truncateForLog(r.Header.Get("Origin")),
		"site", truncateForLog(r.Header.Get("Sec-Fetch-Site")), "remote", r.RemoteAddr, "withheld", withheld)
	d.appendAudit(r, control.AuditEntry{
		Action: action, Result: control.Refused, Actor: "unknown", Reason: what,
		Inputs: map[string]string{"method": r.Method, "path": replaceUnprintable(truncateForLog(r.URL.Path)), "remote": r.RemoteAddr, "withheld": strconv.Itoa(withheld)},
	})
	return 0
}

func (d *Auth) appendAudit(r *http.Request, e control.AuditEntry) {
	if d.auditLog == nil {
		return
	}
	e.At, e.Kind, e.Via = time.Now(), control.KindAccess, control.ViaPage
	if strings.HasPrefix(r.URL.Path, "/api/") {
		e.Via = control.ViaAPI
	}
	d.auditLog.Append(e)
}

// isSafe says whether a method changes nothing.
func isSafe(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// The names of the cookie of a session. Browsers take the first one over TLS only,
// and from this host alone. The other one ends with the port: cookies do not tell
// ports apart, and two headgates on one machine would sign each other's people out.
const (
	secureCookie   = "__Host-headgate"
	plainCookie    = "headgate-"
	maxCookieValue = 100
)

// isTLS says whether a request came over TLS, here or to a proxy in front. What a
// client claims in the header concerns its own cookie only.
func isTLS(r *http.Request) bool {
	return r.TLS != nil || strings.EqualFold(r.Header.Get("X-Forwarded-Proto"), "https")
}

func cookieName(r *http.Request) string {
	if isTLS(r) {
		return secureCookie
	}
	_, port, err := net.SplitHostPort(r.Host)
	if err != nil || strings.Trim(port, "0123456789") != "" {
		port = ""
	}
	return plainCookie + port
}

func readCookie(r *http.Request) (secret string, ok bool) {
	all := r.CookiesNamed(cookieName(r))
	if len(all) != 1 || all[0].Value == "" || len(all[0].Value) > maxCookieValue {
		return "", false
	}
	return all[0].Value, true
}

// writeCookie sets the cookie for some seconds, or takes it away.
func writeCookie(w http.ResponseWriter, r *http.Request, secret string, seconds int) {
	http.SetCookie(w, &http.Cookie{
		Name: cookieName(r), Value: secret, Path: "/", MaxAge: seconds,
		Secure: isTLS(r), HttpOnly: true, SameSite: http.SameSiteStrictMode,
	})
}

// replaceUnprintable makes a stranger's text fit to be recorded.
func replaceUnprintable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == unicode.ReplacementChar || !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, s)
}

// LoginLink is the reply to POST /api/v1/login-links.
type LoginLink struct {
	Path  string    `json:"path"`  // of the link, below the URL of the admin listener; it works once
	Until time.Time `json:"until"` // when it stops working
}

// LoginLinkPath returns the path of a link with a code.
func LoginLinkPath(code string) string { return "/login?" + url.Values{"code": {code}}.Encode() }

func (a *Admin) createLoginLink(r *http.Request, _ url.Values) (any, error) {
	by, err := actorOf(r)
	if err != nil {
		return nil, err
	}
	code, until := a.auth.CreateLink(by.Name)
	return LoginLink{Path: LoginLinkPath(code), Until: until.UTC().Truncate(time.Millisecond)}, nil
}

// tokenHash knows a token by its sum.
type tokenHash [sha256.Size]byte

func newTokenHash(token string) tokenHash { return sha256.Sum256([]byte(token)) }

// authorizes says whether a request carries the token. What cannot be a token is not even
// summed up.
func (g *tokenHash) authorizes(r *http.Request) bool {
	token, ok := bearer(r)
	return ok && g.matches(token)
}

// matches compares a token. It takes the same time whatever was sent.
func (g *tokenHash) matches(token string) bool {
	if len(token) < auth.MinToken || len(token) > auth.MaxToken {
		return false
	}
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], g[:]) == 1
}

// bearer returns the token of a request, false if it has none that could be one.
func bearer(r *http.Request) (string, bool) {
	given := r.Header.Values("Authorization")
	if len(given) != 1 {
		return "", false
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	if !strings.EqualFold(scheme, "bearer") || len(token) < auth.MinToken || len(token) > auth.MaxToken {
		return "", false
	}
	return token, true
}

// How many attempts are answered and logged one by one: a burst, then a few.
const (
	addressBurst, addressPerSecond = 10, 1.0 / 6
	globalBurst, globalPerSecond   = 100, 1.0
	maxAddresses                   = 1024
)

// attemptLimiter limits what attempts may cost us. It never stands in the way of a
// right token: whoever could fill it from an address that on-call shares with
// others (a proxy, a jump host) would lock on-call out.
type attemptLimiter struct {
	mu         sync.Mutex
	global     bucket
	buckets    map[netip.Prefix]*bucket
	suppressed int // attempts over the limit since the last one within it
}

// bucket is a token bucket that starts full.
type bucket struct {
	used    float64
	updated time.Time
}

// refill fills the bucket up to now.
func (b *bucket) refill(now time.Time, perSecond float64) {
	if passed := now.Sub(b.updated).Seconds(); passed > 0 {
		b.used = max(0, b.used-passed*perSecond)
	}
	b.updated = now
}

// wait returns the time until the bucket has one, 0 if it has.
func (b *bucket) wait(burst int, perSecond float64) time.Duration {
	short := b.used + 1 - float64(burst)
	if short <= 0 {
		return 0
	}
	return time.Duration(short / perSecond * float64(time.Second))
}

// take counts one. It returns the time to wait when there were too many, or
// else how many were withheld since the last one that was within the limit.
func (a *attemptLimiter) take(now time.Time, remote string) (wait time.Duration, withheld int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.global.refill(now, globalPerSecond)
	wait = a.global.wait(globalBurst, globalPerSecond)
	one := a.bucketLocked(now, clientPrefix(remote))
	if one != nil {
		wait = max(wait, one.wait(addressBurst, addressPerSecond))
	}
	if wait > 0 {
		a.suppressed++
		return wait, 0
	}
	a.global.used++
	if one != nil {
		one.used++
	}
	withheld, a.suppressed = a.suppressed, 0
	return 0, withheld
}

// bucketLocked returns the bucket of a network. When there is no room for it,
// there is none: the global one counts alone.
func (a *attemptLimiter) bucketLocked(now time.Time, from netip.Prefix) *bucket {
	if b, ok := a.buckets[from]; ok {
		b.refill(now, addressPerSecond)
		return b
	}
	if len(a.buckets) >= maxAddresses {
		a.evictLocked(now)
	}
	if len(a.buckets) >= maxAddresses {
		return nil
	}
	if a.buckets == nil {
		a.buckets = map[netip.Prefix]*bucket{}
	}
	b := &bucket{updated: now}
	a.buckets[from] = b
	return b
}

// evictLocked removes the buckets that are full again.
func (a *attemptLimiter) evictLocked(now time.Time) {
	for from, b := range a.buckets {
		if b.refill(now, addressPerSecond); b.used == 0 {
			delete(a.buckets, from)
		}
	}
}

// clientPrefix is what counts as one address: in IPv6 a whole /64, since anybody has
// one. What cannot be read counts as one address too.
func clientPrefix(remote string) netip.Prefix {
	at, err := netip.ParseAddrPort(remote)
	if err != nil {
		return netip.Prefix{}
	}
	addr := at.Addr().Unmap().WithZone("")
	bits := addr.BitLen()
	if addr.Is6() {
		bits = 64
	}
	p, err := addr.Prefix(bits)
	if err != nil { // the numbers of bits above fit
		return netip.Prefix{}
	}
	return p
}

// HostGuard passes only requests on whose Host is one of the server's names, so that a web page cannot reach a listener by
// a name of its own (DNS rebinding). Names are in lower case.
func HostGuard(next http.Handler, names func() []string, reject http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// A request of HTTP/1.0 may name no host, as the checks of some load balancers do. No browser sends such, so
		// there is no page behind it.
		withoutHost := r.Host == "" && !r.ProtoAtLeast(1, 1)
		if !withoutHost && !isAllowedHost(r.Host, names()) {
			// net/http reads on for what the client has announced, but not for ever.
			_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(bodyTimeout)) // not every writer has one
			reject(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// RejectHost refuses a request to the admin listener for an unknown host, and audits that: a page somewhere may be using
// the browser of somebody who has signed in.
func (d *Auth) RejectHost(w http.ResponseWriter, r *http.Request) {
	d.reject(r, "request", "a request for the host "+strconv.QuoteToASCII(truncateForLog(r.Host)))
	WriteProblem(w, Problem{
		Status: http.StatusMisdirectedRequest, Detail: "Unknown host name. If it is a name of this server, add it to hosts in the settings.",
	})
}

// isAllowedHost accepts known names and IP addresses: a page that was loaded from an address cannot be another's.
func isAllowedHost(hostport string, known []string) bool {
	host := hostport
	if h, _, err := net.SplitHostPort(hostport); err == nil {
		host = h
	}
	host = strings.TrimSuffix(strings.ToLower(strings.Trim(host, "[]")), ".")
	if _, err := netip.ParseAddr(host); err == nil {
		return true
	}
	return slices.Contains(known, host)
}
