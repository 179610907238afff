package slack

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slack-go/slack"
	"golang.org/x/time/rate"
)

const (
	workers          = 4
	queueSize        = 64 // callbacks that were accepted and wait for a worker
	executeTimeout   = 30 * time.Second
	responseTimeout  = 10 * time.Second
	abortGrace       = time.Second // time that aborted work has to return
	shutdownTimeout  = time.Second // of requests in flight at a stop
	forgedPerMinute  = 30          // audit entries
	refusedPerMinute = 120         // audit entries
	maxResponseText  = 3000        // characters
	responseHost     = "hooks.slack.com"
)

// InteractionOptions configure Interactions.
type InteractionOptions struct {
	Bot           *Bot
	Allow         AllowList
	AppToken      string // xapp-…, for Socket Mode; empty: no socket. A secret that is never shown
	APIURL        string // for Socket Mode; ends in a slash; empty: Slack's
	Listen        string // address for signed requests, host:port; empty: none
	SigningSecret string // of signed requests; a secret that is never shown
	Registerer    prometheus.Registerer
	Log           *slog.Logger

	Now         func() time.Time // nil: the wall clock
	MaxBackoff  time.Duration    // between two attempts to connect the socket; 0: 30 s
	PingTimeout time.Duration    // a socket without a ping for so long is dead; 0: 30 s
}

// SettingError says which setting below slack is invalid.
type SettingError struct {
	Setting string // its path below slack, such as signing_secret or mention.page
	Err     error
}

// Error returns the text of Err.
func (e *SettingError) Error() string { return e.Err.Error() }

// Interactions receives button presses and slash commands over Socket Mode, signed requests or both, and has an
// Executor execute each once. Slack is answered at once; a few workers do the work afterwards. It is safe for
// concurrent use.
type Interactions struct {
	o            InteractionOptions
	appID        string
	executor     Executor  // set by Start
	socket       *socket   // nil: none
	listener     *listener // nil: none
	dedup        *deduper
	forgedLimit  *rateLimiter
	refusedLimit *rateLimiter
	metrics      *interactionMetrics
	allow        atomic.Pointer[AllowList]

	transports    sync.WaitGroup
	transportCtx  context.Context
	endTransports context.CancelFunc

	mu      sync.Mutex
	queue   chan callback
	closed  bool
	workers sync.WaitGroup
	workCtx context.Context
	abort   context.CancelFunc
}

// Errors that a transport answers with "unavailable".
var (
	errShuttingDown = errors.New("headgate is shutting down")
	errBusy         = errors.New("overloaded: too many requests at once")
)

// NewInteractions returns Interactions that accept nothing before Start. It opens nothing.
func NewInteractions(o InteractionOptions) (*Interactions, error) {
	if o.Bot == nil || o.Log == nil || o.Registerer == nil {
		return nil, errors.New("interactions need a bot, a log and metrics")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	metrics, err := newInteractionMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	i := &Interactions{
		o: o, appID: appIDOfToken(o.AppToken), dedup: newDeduper(), metrics: metrics, queue: make(chan callback, queueSize),
		forgedLimit: newRateLimiter(forgedPerMinute), refusedLimit: newRateLimiter(refusedPerMinute),
	}
	i.transportCtx, i.endTransports = context.WithCancel(context.Background())
	i.workCtx, i.abort = context.WithCancel(context.Background())
	if err := i.SetAllow(o.Allow); err != nil {
		return nil, &SettingError{"allow", err}
	}
	if o.AppToken != "" {
		if i.socket, err = newSocket(i); err != nil {
			return nil, &SettingError{"app_token", err}
		}
	}
	if o.Listen != "" {
		h, err := newRequestHandler(o.SigningSecret, i)
		if err != nil {
			return nil, &SettingError{"signing_secret", err}
		}
		if i.listener, err = newListener(h, o); err != nil {
			return nil, &SettingError{"listen", err}
		}
	}
	return i, nil
}

// appIDOfToken returns the ID of the app that an app-level token belongs to; empty: not known.
func appIDOfToken(token string) string {
	parts := strings.Split(token, "-")
	if len(parts) < 4 || parts[0] != "xapp" || !appIDPattern.MatchString(parts[2]) {
		return ""
	}
	return parts[2]
}

// SetAllow replaces the allow lists, for callbacks that are not checked yet.
func (i *Interactions) SetAllow(a AllowList) error {
	if err := a.Validate(); err != nil {
		return err
	}
	i.allow.Store(&a)
	return nil
}

// Start begins to accept interactions, which the executor executes. It is called once; Stop is due after an error too.
func (i *Interactions) Start(e Executor) error {
	i.executor = e
	for range workers {
		i.workers.Go(func() {
			for c := range i.queue {
				i.handle(c)
			}
		})
	}
	if i.listener != nil {
		if err := i.listener.open(i.o.Listen); err != nil {
			return err
		}
		i.transports.Go(func() { i.listener.serve(i.transportCtx) })
	}
	if i.socket != nil {
		i.transports.Go(func() { i.socket.run(i.transportCtx) })
	}
	return nil
}

// Addr returns the address for signed requests; empty: none. Call it after Start.
func (i *Interactions) Addr() string {
	if i.listener == nil {
		return ""
	}
	return i.listener.addr()
}

// Connected says whether the socket is connected.
func (i *Interactions) Connected() bool { return i.socket != nil && i.socket.connected.Load() }

// Stop ends the transports, then works off what was accepted until ctx ends; the rest is aborted. It may be called more
// than once.
func (i *Interactions) Stop(ctx context.Context) error {
	i.endTransports()
	var err error
	if i.listener != nil {
		err = i.listener.shutdown(ctx)
	}
	i.transports.Wait()
	i.mu.Lock()
	if !i.closed {
		i.closed = true
		close(i.queue)
	}
	i.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		i.workers.Wait()
	}()
	defer i.abort()
	select {
	case <-done:
		return err
	case <-ctx.Done():
	}
	i.abort()
	select {
	case <-done:
	case <-time.After(abortGrace):
	}
	return errors.Join(err, fmt.Errorf("slack interactions aborted: %w", ctx.Err()))
}

// enqueue hands a callback to the workers unless it was there before. It does not block. Without an error the callback
// is acknowledged to Slack.
func (i *Interactions) enqueue(c callback) error {
	if c.dedupKey == "" {
		return errors.New("it has no ID")
	}
	switch i.dedup.add(i.o.Now(), c.dedupKey) {
	case dedupDuplicate:
		i.audit(AuditEntry{Result: Refused, Actor: Actor(c.user), Reason: "repeated callback", Inputs: auditInputs(c)}, "repeated")
		return nil
	case dedupFull:
		return errBusy
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.closed {
		i.dedup.forget(c.dedupKey)
		return errShuttingDown
	}
	select {
	case i.queue <- c:
		return nil
	default:
		i.dedup.forget(c.dedupKey)
		i.metrics.rejected.WithLabelValues("busy").Inc()
		return errBusy
	}
}

// reject records what is not from Slack, was received before, or is invalid.
func (i *Interactions) reject(why, reason string, in map[string]string) {
	i.audit(AuditEntry{Forged: true, Result: Refused, Reason: reason, Inputs: in}, why)
}

// handle executes a callback and responds to the user.
func (i *Interactions) handle(c callback) {
	ctx, cancel := context.WithTimeout(i.workCtx, executeTimeout)
	defer cancel()
	cmd, a := i.execute(ctx, c)
	i.metrics.handled.WithLabelValues(string(cmd.Action), string(a.Result)).Inc()
	if c.actionID != "" || cmd.Action.NeedsPermission() || a.Result != Done {
		i.audit(AuditEntry{
			Action: cmd.Action, Result: a.Result, Incident: cmd.Incident, Pool: cmd.Pool, Actor: Actor(c.user), Reason: a.Text,
			Inputs: auditInputs(c),
		}, "")
	}
	if a.Text != "" {
		i.respond(c, a.Text)
	}
}

func auditInputs(c callback) map[string]string {
	in := map[string]string{"channel": c.channel, "team": c.team}
	if c.actionID != "" {
		in["button"] = c.actionID
	} else {
		in["command"] = plainText(c.commandText, 200)
	}
	if c.retry != "" {
		in["retry"] = plainText(c.retry, 100)
	}
	return in
}

// audit appends an entry; a reason counts it as rejected. Rejected entries are rate-limited, because any user can
// cause them.
func (i *Interactions) audit(e AuditEntry, why string) {
	if why != "" {
		i.metrics.rejected.WithLabelValues(why).Inc()
	}
	limit := i.refusedLimit
	if e.Forged {
		limit = i.forgedLimit
	}
	if e.Result == Refused {
		suppressed, ok := limit.allow(i.o.Now())
		if !ok {
			return
		}
		if suppressed > 0 {
			e.Reason += fmt.Sprintf(" (and %d more before, not kept)", suppressed)
		}
	}
	i.o.Log.Info("slack interaction handled", "action", e.Action, "result", e.Result, "actor", e.Actor, "incident", e.Incident,
		"pool", e.Pool, "forged", e.Forged, "reason", plainText(e.Reason, 300))
	i.executor.AppendAudit(context.WithoutCancel(i.workCtx), e)
}

// execute checks a callback's origin and the user's permission, and executes it.
func (i *Interactions) execute(ctx context.Context, c callback) (cmd Command, a Response) {
	defer func() {
		if p := recover(); p != nil {
			i.o.Log.Error("slack command panicked", "action", cmd.Action, "panic", fmt.Sprint(p))
			a = Response{Result: Failed, Text: "Something went wrong inside headgate; see its log."}
		}
	}()
	refused := func(reason, hint string) Response {
		return Response{Result: Refused, Text: "Not executed: " + reason + "." + hint}
	}
	cmd, err := c.command()
	cmd.Actor, cmd.At = Actor(c.user), i.o.Now()
	if why := i.originMismatch(ctx, c); why != "" {
		return cmd, refused(why, "")
	}
	switch {
	case err != nil && c.actionID != "":
		return cmd, refused(err.Error(), " Use the latest message, or type /headgate help.")
	case err != nil:
		return cmd, refused(err.Error(), "\n"+Usage)
	}
	if why := i.allow.Load().denialReason(c.user, cmd.Action); why != "" {
		return cmd, refused(why, " CLI equivalent: "+cmd.shellCommand())
	}
	if cmd.Action == Help {
		return cmd, Response{Result: Done, Text: Usage}
	}
	return cmd, i.executor.Execute(ctx, cmd)
}

// originMismatch returns why a callback is not for this headgate; empty: it is.
func (i *Interactions) originMismatch(ctx context.Context, c callback) string {
	team, err := i.o.Bot.workspaceID(ctx)
	switch {
	case err != nil:
		return "the workspace cannot be verified at the moment"
	case c.team != team, c.userTeam != "" && c.userTeam != team:
		return "you belong to another workspace than this headgate"
	case i.appID != "" && c.app != "" && c.app != i.appID:
		return "it came from another app than this headgate's"
	case c.actionID != "" && !i.o.Bot.ownsChannel(c.channel):
		return "this headgate does not post in this channel"
	default:
		return ""
	}
}

// respond shows a text to the user only: through the URL that Slack gave, else in the channel. It has its
// own time limit, so that work which took all of its time can be answered.
func (i *Interactions) respond(c callback, text string) {
	ctx, cancel := context.WithTimeout(i.workCtx, responseTimeout)
	defer cancel()
	bot, text := i.o.Bot, formatResponse(text)
	err := bot.postToURL(ctx, c.responseURL, text)
	if err != nil && c.channel != "" {
		_, err = bot.api.PostEphemeralContext(ctx, c.channel, c.user, slack.MsgOptionText(text, false))
	}
	if err != nil {
		i.o.Log.Warn("slack response failed", "user", c.user, "error", redactedError(err, bot.token))
	}
}

var actorPattern = regexp.MustCompile(`\bslack:([UW][A-Z0-9]{2,20})\b`)

// formatResponse escapes the plain text of a response.
func formatResponse(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		lines = append(lines, escapeTo(strings.TrimRight(line, "\n"), maxResponseText))
	}
	return actorPattern.ReplaceAllString(truncateMarkup(strings.Join(lines, "\n"), maxResponseText), "<@$1>")
}

var errResponseURL = errors.New("the response URL is not Slack's")

// postToURL posts to a response_url. That comes from outside, so only Slack and the host of the API are accepted.
func (b *Bot) postToURL(ctx context.Context, to, text string) error {
	if !b.trustsResponseURL(to) {
		return errResponseURL
	}
	msg := &slack.WebhookMessage{ResponseType: slack.ResponseTypeEphemeral, Text: text}
	if err := slack.PostWebhookCustomHTTPContext(ctx, to, b.http, msg); err != nil {
		return errors.New(redactedError(err, to)) // the URL is a secret
	}
	return nil
}

func (b *Bot) trustsResponseURL(raw string) bool {
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.Opaque != "" {
		return false
	}
	if u.Scheme == "https" && (u.Host == responseHost || u.Host == responseHost+":443") {
		return true
	}
	return u.Scheme == b.apiURL.Scheme && u.Host == b.apiURL.Host
}

func (b *Bot) ownsChannel(channel string) bool {
	return slices.Contains(slices.Collect(maps.Values(b.channels)), channel)
}

// workspaceID returns the ID of the workspace. It is requested once.
func (b *Bot) workspaceID(ctx context.Context) (string, error) {
	b.mu.Lock()
	team := b.teamID
	b.mu.Unlock()
	if team != "" {
		return team, nil
	}
	a, err := b.api.AuthTestContext(ctx)
	if err != nil || a.TeamID == "" {
		return "", errors.New(b.failureReason(err))
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.teamID = a.TeamID
	return a.TeamID, nil
}

const (
	dedupWindow  = 10 * time.Minute // twice the validity of a signature
	maxDedupKeys = 10_000
)

type dedupResult uint8

const (
	dedupNew dedupResult = iota
	dedupDuplicate
	dedupFull // no room to remember it, so it must not be executed
)

// deduper remembers keys, so that nothing is accepted twice. It is used for callbacks and, by their body, for signed
// requests. It is safe for concurrent use.
type deduper struct {
	mu        sync.Mutex
	expires   map[[sha256.Size]byte]time.Time
	lastSweep time.Time
}

func newDeduper() *deduper { return &deduper{expires: make(map[[sha256.Size]byte]time.Time)} }

// add remembers a key, and says whether it was there.
func (d *deduper) add(now time.Time, key string) dedupResult {
	sum := sha256.Sum256([]byte(key))
	d.mu.Lock()
	defer d.mu.Unlock()
	if until, ok := d.expires[sum]; ok && now.Before(until) {
		return dedupDuplicate
	}
	if len(d.expires) >= maxDedupKeys || now.Sub(d.lastSweep) >= dedupWindow {
		d.lastSweep = now
		for sum, until := range d.expires {
			if !now.Before(until) {
				delete(d.expires, sum)
			}
		}
	}
	if len(d.expires) >= maxDedupKeys {
		return dedupFull
	}
	d.expires[sum] = now.Add(dedupWindow)
	return dedupNew
}

// forget allows a key again: what it stood for was not executed.
func (d *deduper) forget(key string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.expires, sha256.Sum256([]byte(key)))
}

// rateLimiter allows a number of events in each minute, and counts the others.
type rateLimiter struct {
	mu         sync.Mutex
	limiter    *rate.Limiter
	suppressed int // since the last one that was allowed
}

func newRateLimiter(perMinute int) *rateLimiter {
	return &rateLimiter{limiter: rate.NewLimiter(rate.Every(time.Minute/time.Duration(perMinute)), perMinute)}
}

// allow says whether one more is allowed, and how many were suppressed before it.
func (r *rateLimiter) allow(now time.Time) (suppressed int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.limiter.AllowN(now, 1) {
		r.suppressed++
		return 0, false
	}
	suppressed, r.suppressed = r.suppressed, 0
	return suppressed, true
}

type interactionMetrics struct {
	handled  *prometheus.CounterVec
	rejected *prometheus.CounterVec
}

func newInteractionMetrics(reg prometheus.Registerer) (*interactionMetrics, error) {
	m := &interactionMetrics{
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_slack_presses_total", Help: "Slack button presses and commands by action and result.",
		}, []string{"action", "ending"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_slack_turned_away_total", Help: "Rejected Slack callbacks by reason.",
		}, []string{"reason"}),
	}
	for _, a := range Actions() {
		for _, result := range []Result{Done, Refused, Failed} {
			m.handled.WithLabelValues(string(a), string(result))
		}
	}
	for _, why := range []string{"signature", "replayed", "repeated", "invalid", "busy"} {
		m.rejected.WithLabelValues(why)
	}
	return m, errors.Join(reg.Register(m.handled), reg.Register(m.rejected))
}
