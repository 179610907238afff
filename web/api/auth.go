package api

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"log/slog"
	"maps"
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

	"golang.org/x/time/rate"

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
	limiter       *attemptLimiter
	crossOrigin   *http.CrossOriginProtection
	sessions      auth.Store
	anonymousRead bool
	auditLog      control.AuditSink // nil: none
	log           *slog.Logger
}

func newAuth(c AdminConfig) *Auth {
	return &Auth{
		token: sha256.Sum256([]byte(c.Token)), limiter: newAttemptLimiter(), crossOrigin: http.NewCrossOriginProtection(),
		anonymousRead: c.AnonymousRead, auditLog: c.AuditLog, log: c.Log,
	}
}

// AnonymousRead says whether clients may read without signing in.
func (a *Auth) AnonymousRead() bool { return a.anonymousRead }

// Session returns the session of a request, if it has one. A request that only
// refreshes what a page shows does not keep it from going idle.
func (a *Auth) Session(r *http.Request, refresh bool) (auth.Session, bool) {
	if secret, ok := readCookie(r); ok {
		return a.sessions.Lookup(time.Now(), secret, !refresh)
	}
	return auth.Session{}, false
}

// SignIn begins a session for a client with the token, and sets its cookie. After too
// many wrong tokens it returns how long to wait; the right one is taken all the same.
func (a *Auth) SignIn(w http.ResponseWriter, r *http.Request, token, actor string) (ok bool, wait time.Duration) {
	if !a.token.matches(token) {
		return false, a.reject(r, "login", "a wrong token")
	}
	secret, opened := a.sessions.Create(time.Now(), cmp.Or(actor, "page"))
	a.startSession(w, r, secret, opened, "with the token")
	return true, 0
}

// RedeemLink begins a session for a client with the code of a link, and sets its cookie.
// The code is used up. After too many wrong ones it returns how long to wait.
func (a *Auth) RedeemLink(w http.ResponseWriter, r *http.Request, code string) (ok bool, wait time.Duration) {
	secret, opened, ok := a.sessions.RedeemLink(time.Now(), code)
	if !ok {
		return false, a.reject(r, "login", "a login link that is used up, over or none")
	}
	a.startSession(w, r, secret, opened, "with a link")
	return true, 0
}

func (a *Auth) startSession(w http.ResponseWriter, r *http.Request, secret string, opened auth.Session, how string) {
	writeCookie(w, r, secret, int(auth.MaxLifetime/time.Second))
	a.log.Info("signed in", "actor", opened.Actor, "remote", r.RemoteAddr)
	a.appendAudit(r, control.AuditEntry{Action: "login", Result: control.Done, Actor: opened.Actor, Reason: how})
}

// SignOut ends the session of a request, and takes its cookie away.
func (a *Auth) SignOut(w http.ResponseWriter, r *http.Request) {
	secret, ok := readCookie(r)
	if ok {
		if s, there := a.sessions.Lookup(time.Now(), secret, false); there {
			a.appendAudit(r, control.AuditEntry{Action: "logout", Result: control.Done, Actor: s.Actor})
		}
		a.sessions.Revoke(secret)
	}
	writeCookie(w, r, "", -1)
}

// CreateLink returns the code of a one-time login link, and how long it is valid.
func (a *Auth) CreateLink(actor string) (code string, until time.Time) {
	return a.sessions.CreateLink(time.Now(), actor)
}

// CheckOrigin returns an error if a write comes from a page of another site, and records
// that it was refused.
func (a *Auth) CheckOrigin(r *http.Request) error {
	err := a.crossOrigin.Check(r)
	if err != nil {
		a.reject(r, "write", "a request from another site")
	}
	return err
}

// RejectCSRF records that a write was refused for its form token.
func (a *Auth) RejectCSRF(r *http.Request) {
	a.reject(r, "write", "a form token that is not the session's")
}

// reject counts an attempt, and returns how long to wait if there were too many.
// Only those within the limit are logged and recorded: a client that makes many of them
// must not fill the record.
func (a *Auth) reject(r *http.Request, action, what string) (wait time.Duration) {
	wait, withheld := a.limiter.take(time.Now(), r.RemoteAddr)
	if wait > 0 {
		return wait
	}
	a.log.Warn(what+" was refused", "method", r.Method, "path", truncateForLog(r.URL.Path), "origin", truncateForLog(r.Header.Get("Origin")),
		"site", truncateForLog(r.Header.Get("Sec-Fetch-Site")), "remote", r.RemoteAddr, "withheld", withheld)
	a.appendAudit(r, control.AuditEntry{
		Action: action, Result: control.Refused, Actor: "unknown", Reason: what,
		Inputs: map[string]string{"method": r.Method, "path": replaceUnprintable(truncateForLog(r.URL.Path)), "remote": r.RemoteAddr, "withheld": strconv.Itoa(withheld)},
	})
	return 0
}

func (a *Auth) appendAudit(r *http.Request, e control.AuditEntry) {
	if a.auditLog == nil {
		return
	}
	e.At, e.Kind, e.Via = time.Now(), control.KindAccess, control.ViaPage
	if strings.HasPrefix(r.URL.Path, "/api/") {
		e.Via = control.ViaAPI
	}
	a.auditLog.Append(e)
}

// isSafe says whether a method changes nothing.
func isSafe(method string) bool { return method == http.MethodGet || method == http.MethodHead }

// The names of the cookie of a session. Browsers take the first one over TLS only,
// and from this host alone. The other one ends with the port: cookies apply
// to all ports of a host, and two headgates on one machine would sign out each other's users.
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

func (a *Admin) createLoginLink(r *http.Request) (any, error) {
	by, err := actorOf(r)
	if err != nil {
		return nil, err
	}
	code, until := a.auth.CreateLink(by.Name)
	return LoginLink{Path: LoginLinkPath(code), Until: until.UTC().Truncate(time.Millisecond)}, nil
}

// tokenHash is the SHA-256 of a token.
type tokenHash [sha256.Size]byte

// authorizes says whether a request carries the token.
func (g *tokenHash) authorizes(r *http.Request) bool {
	given := r.Header.Values("Authorization")
	if len(given) != 1 {
		return false
	}
	scheme, token, _ := strings.Cut(given[0], " ")
	return strings.EqualFold(scheme, "bearer") && g.matches(token)
}

// matches compares a token, in a time that does not depend on it. A text that is too short or too long for a token is not
// hashed.
func (g *tokenHash) matches(token string) bool {
	if len(token) < auth.MinToken || len(token) > auth.MaxToken {
		return false
	}
	sum := sha256.Sum256([]byte(token))
	return subtle.ConstantTimeCompare(sum[:], g[:]) == 1
}

// How many rejected attempts are answered and logged one by one: a burst, then a few per second.
const (
	addressBurst, addressPerSecond = 10, rate.Limit(1.0 / 6)
	globalBurst, globalPerSecond   = 100, rate.Limit(1)
	maxAddresses                   = 1024 // whose attempts are counted separately
)

// attemptLimiter limits what rejected attempts may cost. It never applies to the right token: a client that could exhaust
// it from an address that on-call shares with others (a proxy, a jump host) would lock on-call out.
type attemptLimiter struct {
	mu         sync.Mutex
	global     *rate.Limiter
	addresses  map[netip.Prefix]*rate.Limiter
	suppressed int // attempts over the limit since the last one within it
}

func newAttemptLimiter() *attemptLimiter {
	return &attemptLimiter{global: rate.NewLimiter(globalPerSecond, globalBurst), addresses: map[netip.Prefix]*rate.Limiter{}}
}

// take counts an attempt. It returns the time to wait when there were too many, else how many were suppressed since the
// last one within the limit. A suppressed attempt uses no token.
func (a *attemptLimiter) take(now time.Time, remote string) (wait time.Duration, suppressed int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	address := a.addressLocked(now, clientPrefix(remote))
	for _, l := range []*rate.Limiter{a.global, address} {
		missing := (1 - l.TokensAt(now)) / float64(l.Limit()) // seconds
		wait = max(wait, time.Duration(missing*float64(time.Second)))
	}
	if wait > 0 {
		a.suppressed++
		return wait, 0
	}
	a.global.AllowN(now, 1)
	address.AllowN(now, 1)
	suppressed, a.suppressed = a.suppressed, 0
	return 0, suppressed
}

// addressLocked returns the limiter of a network. While the map is full of networks that have recently made attempts, a
// further network gets a limiter that is not kept, so that only the global one counts.
func (a *attemptLimiter) addressLocked(now time.Time, from netip.Prefix) *rate.Limiter {
	if l, ok := a.addresses[from]; ok {
		return l
	}
	if len(a.addresses) >= maxAddresses {
		maps.DeleteFunc(a.addresses, func(_ netip.Prefix, l *rate.Limiter) bool { return l.TokensAt(now) >= addressBurst })
	}
	l := rate.NewLimiter(addressPerSecond, addressBurst)
	if len(a.addresses) < maxAddresses {
		a.addresses[from] = l
	}
	return l
}

// clientPrefix is what counts as one address: in IPv6 a whole /64, which one client
// usually has. What cannot be read counts as one address too.
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

// HostGuard passes only requests whose Host is one of the server's names, so that a web page cannot reach a listener by
// the page's own name (DNS rebinding). Names are in lower case.
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

// RejectHost refuses a request to the admin listener for an unknown host, and audits that: a page elsewhere may be using
// the browser of a signed-in user.
func (a *Auth) RejectHost(w http.ResponseWriter, r *http.Request) {
	a.reject(r, "request", "a request for the host "+strconv.QuoteToASCII(truncateForLog(r.Host)))
	WriteProblem(w, Problem{
		Status: http.StatusMisdirectedRequest,
		Detail: "Unknown host name " + strconv.QuoteToASCII(truncateForLog(r.Host)) +
			". If it is a name of this server, add it to hosts in the settings.",
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
	return slices.ContainsFunc(known, func(name string) bool {
		below, wildcard := strings.CutPrefix(name, "*")
		return name == host || wildcard && strings.HasSuffix(host, below) && len(host) > len(below)
	})
}
