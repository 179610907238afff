package slack

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/slack-go/slack"
)

const (
	workers          = 4
	queueSize        = 64 // callbacks that are taken and not worked on yet
	handleTimeout    = 30 * time.Second
	abortGrace       = time.Second // that work has to end in which is broken off
	forgedPerMinute  = 30          // entries of forged requests in a minute
	refusedPerMinute = 120         // entries of refused presses in a minute
)

// InteractionOptions are those of a InteractionHandler.
type InteractionOptions struct {
	Bot        *Bot
	Executor   Executor
	Allow      AllowList
	AppToken   string // to know the app by; empty: any
	Registerer prometheus.Registerer
	Log        *slog.Logger
	Now        func() time.Time // nil: the wall clock
}

// InteractionHandler takes presses and commands, from whichever transport, and has the Executor
// carry them out, each once. Slack is answered at once; the work is done after, by
// a few workers. It is safe for concurrent use.
type InteractionHandler struct {
	o            InteractionOptions
	appID        string
	dedup        *deduper
	forgedLimit  *rateLimiter
	refusedLimit *rateLimiter
	metrics      *interactionMetrics
	responder    responder
	allow        atomic.Pointer[AllowList]

	mu      sync.Mutex
	queue   chan callback
	closed  bool
	wg      sync.WaitGroup
	cancel  context.CancelFunc
	workCtx context.Context
}

// Errors that a transport answers with "not now".
var (
	errShuttingDown = errors.New("headgate is going down")
	errBusy         = errors.New("too much at once")
)

// NewInteractionHandler returns a InteractionHandler that works from Start on.
func NewInteractionHandler(o InteractionOptions) (*InteractionHandler, error) {
	if o.Bot == nil || o.Executor == nil || o.Log == nil || o.Registerer == nil {
		return nil, errors.New("a reception needs a bot, a desk, a log and metrics")
	}
	if err := o.Allow.Validate(); err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	metrics, err := newInteractionMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	r := &InteractionHandler{
		o: o, appID: appIDOfToken(o.AppToken), dedup: newDeduper(), forgedLimit: &rateLimiter{perMinute: forgedPerMinute}, refusedLimit: &rateLimiter{perMinute: refusedPerMinute},
		metrics: metrics, responder: responder{bot: o.Bot, log: o.Log}, queue: make(chan callback, queueSize),
	}
	r.allow.Store(&o.Allow)
	r.workCtx, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// appIDOfToken returns the ID of the app that an app-level token is of, or nothing.
func appIDOfToken(token string) string {
	parts := strings.Split(token, "-")
	if len(parts) < 4 || parts[0] != "xapp" || !appIDPattern.MatchString(parts[2]) {
		return ""
	}
	return parts[2]
}

// SetAllow replaces the lists of who may do what, for what is not judged yet.
func (r *InteractionHandler) SetAllow(a AllowList) error {
	if err := a.Validate(); err != nil {
		return err
	}
	r.allow.Store(&a)
	return nil
}

// Start begins to work. It is called once.
func (r *InteractionHandler) Start() {
	for range workers {
		r.wg.Go(func() {
			for c := range r.queue {
				r.handle(c)
			}
		})
	}
}

// Stop takes nothing more, and works off what was taken until ctx ends; the rest
// is broken off. It may be called more than once.
func (r *InteractionHandler) Stop(ctx context.Context) error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.queue)
	}
	r.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.wg.Wait()
	}()
	select {
	case <-done:
		r.cancel()
		return nil
	case <-ctx.Done():
	}
	r.cancel()
	last := time.NewTimer(abortGrace)
	defer last.Stop()
	select {
	case <-done:
	case <-last.C:
	}
	return fmt.Errorf("presses in Slack were broken off: %w", ctx.Err())
}

// enqueue hands a callback over to the workers, if it is there for the first time. It
// does not block. Without an error Slack is told that all is well.
func (r *InteractionHandler) enqueue(c callback) error {
	if c.dedupKey == "" {
		return errors.New("it does not say which it is")
	}
	switch r.dedup.add(r.o.Now(), c.dedupKey) {
	case dedupDuplicate:
		r.audit(AuditEntry{Result: Refused, Actor: Actor(c.user), Reason: "the same callback once more", Inputs: auditInputs(c)}, "repeated")
		return nil
	case dedupFull:
		return errBusy
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		r.dedup.forget(c.dedupKey)
		return errShuttingDown
	}
	select {
	case r.queue <- c:
		return nil
	default:
		r.dedup.forget(c.dedupKey)
		r.metrics.rejected.WithLabelValues("busy").Inc()
		return errBusy
	}
}

// reject notes what did not come from Slack, or not for the first time, or makes
// no sense.
func (r *InteractionHandler) reject(why, reason string, in map[string]string) {
	r.audit(AuditEntry{Forged: true, Result: Refused, Reason: reason, Inputs: in}, why)
}

// handle does what a callback asks for, and tells who asked.
func (r *InteractionHandler) handle(c callback) {
	ctx, cancel := context.WithTimeout(r.workCtx, handleTimeout)
	defer cancel()
	w, a := r.execute(ctx, c)
	r.metrics.handled.WithLabelValues(string(w.Action), string(a.Result)).Inc()
	if c.actionID != "" || w.Action.NeedsPermission() || a.Result != Done {
		r.audit(AuditEntry{
			Action: w.Action, Result: a.Result, Incident: w.Incident, Pool: w.Pool, Actor: Actor(c.user), Reason: a.Text, Inputs: auditInputs(c),
		}, "")
	}
	if a.Text != "" {
		r.responder.send(r.workCtx, c, a) // also if the work took all of its time
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

// audit keeps an entry. Of refused ones only so many are kept: anybody could make
// more. Why counts it among what was turned away.
func (r *InteractionHandler) audit(e AuditEntry, why string) {
	if why != "" {
		r.metrics.rejected.WithLabelValues(why).Inc()
	}
	ration := r.refusedLimit
	if e.Forged {
		ration = r.forgedLimit
	}
	if e.Result == Refused {
		held, ok := ration.allow(r.o.Now())
		if !ok {
			return
		}
		if held > 0 {
			e.Reason += fmt.Sprintf(" (and %d more before, not kept)", held)
		}
	}
	r.o.Log.Info("slack", "action", e.Action, "ending", e.Result, "actor", e.Actor, "incident", e.Incident, "pool", e.Pool,
		"forged", e.Forged, "reason", plainText(e.Reason, 300))
	r.o.Executor.AppendAudit(context.WithoutCancel(r.workCtx), e)
}

// execute judges a callback, and carries it out if nothing speaks against it.
func (r *InteractionHandler) execute(ctx context.Context, c callback) (w Command, a Response) {
	defer func() {
		if p := recover(); p != nil {
			r.o.Log.Error("what was asked for in Slack panicked", "action", w.Action, "panic", fmt.Sprint(p))
			a = Response{Result: Failed, Text: "Something went wrong inside headgate; its log says what."}
		}
	}()
	w, err := c.command()
	w.Actor, w.At = Actor(c.user), r.o.Now()
	if why := r.originMismatch(ctx, c); why != "" {
		return w, Response{Result: Refused, Text: "Nothing was done: " + why + "."}
	}
	if err != nil {
		return w, Response{Result: Refused, Text: refusalText(c, err)}
	}
	if why := r.allow.Load().denialReason(c.user, w); why != "" {
		return w, Response{Result: Refused, Text: "Nothing was done: " + why + ". At the machine the command is: " + w.shellCommand()}
	}
	if w.Action == Help {
		return w, Response{Result: Done, Text: Usage}
	}
	return w, r.o.Executor.Execute(ctx, w)
}

// originMismatch says why a callback is not for us, or nothing.
func (r *InteractionHandler) originMismatch(ctx context.Context, c callback) string {
	team, err := r.o.Bot.workspaceID(ctx)
	switch {
	case err != nil:
		return "headgate cannot find out right now which workspace it belongs to"
	case c.team != team, c.userTeam != "" && c.userTeam != team:
		return "you are of another workspace than this headgate"
	case r.appID != "" && c.app != "" && c.app != r.appID:
		return "it came from another app than this headgate's"
	case c.actionID != "" && !r.o.Bot.ownsChannel(c.channel):
		return "this headgate does not post in this channel"
	default:
		return ""
	}
}

func refusalText(c callback, err error) string {
	if c.actionID != "" {
		return "Nothing was done: " + err.Error() + ". Look at the latest message, or type /headgate help."
	}
	return "Nothing was done: " + err.Error() + ".\n" + Usage
}

const (
	responseTimeout  = 10 * time.Second
	maxResponseText  = 3000 // characters of an answer
	responseHost     = "hooks.slack.com"
	maxResponseReply = 64 << 10 // bytes of what Slack says to an answer
)

// responder tell those who asked, and nobody else.
type responder struct {
	bot *Bot
	log *slog.Logger
}

// send tries the address that Slack gave, and then the channel.
func (s responder) send(ctx context.Context, c callback, a Response) {
	ctx, cancel := context.WithTimeout(ctx, responseTimeout)
	defer cancel()
	text := formatResponse(a.Text)
	err := s.postToURL(ctx, c.responseURL, text)
	if err != nil && c.channel != "" {
		_, err = s.bot.api.PostEphemeralContext(ctx, c.channel, c.user, slack.MsgOptionText(text, false))
	}
	if err != nil {
		s.log.Warn("somebody in Slack could not be answered", "user", c.user, "error", redactedError(err, s.bot.token))
	}
}

var actorPattern = regexp.MustCompile(`\bslack:([UW][A-Z0-9]{2,20})\b`)

// formatResponse makes an answer's plain text fit for Slack.
func formatResponse(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		out, _ := escapeTruncate(strings.TrimRight(line, "\n"), maxResponseText)
		lines = append(lines, out)
	}
	return actorPattern.ReplaceAllString(truncateMarkup(strings.Join(lines, "\n"), maxResponseText), "<@$1>")
}

var errResponseURL = errors.New("the address for the answer is none of Slack's")

// postToURL posts to a response_url. It goes nowhere but to Slack, or to where the
// API is said to be: the address comes from outside.
func (s responder) postToURL(ctx context.Context, to, text string) error {
	if !s.bot.trustsResponseURL(to) {
		return errResponseURL
	}
	body, err := json.Marshal(map[string]any{"response_type": "ephemeral", "replace_original": false, "text": text})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errResponseURL // its text holds the address, which is a secret
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := s.bot.http.Do(req)
	if err != nil {
		return errors.New(redactedError(err, to))
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, maxResponseReply)) // so that the connection can be used again
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d", resp.StatusCode)
	}
	return nil
}

// trustsResponseURL says whether an address is one of Slack's own.
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

// ownsChannel says whether a channel is one of the bot's.
func (b *Bot) ownsChannel(channel string) bool {
	for _, id := range b.channels {
		if id == channel {
			return true
		}
	}
	return false
}

// workspaceID returns the ID of the workspace. It is asked for once.
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
	dedupWindow  = 10 * time.Minute // twice what a signature is good for
	maxDedupKeys = 10_000
)

// dedupResult is what once says of a callback.
type dedupResult uint8

const (
	dedupNew dedupResult = iota
	dedupDuplicate
	dedupFull // too many to remember: nothing can be said, so nothing may be done
)

// deduper remembers what has been taken, so that nothing is taken twice. It is safe
// for concurrent use.
type deduper struct {
	mu        sync.Mutex
	expires   map[[sha256.Size]byte]time.Time
	lastSweep time.Time
}

func newDeduper() *deduper { return &deduper{expires: make(map[[sha256.Size]byte]time.Time)} }

// add remembers a key, and says whether it was there.
func (o *deduper) add(now time.Time, key string) dedupResult {
	sum := sha256.Sum256([]byte(key))
	o.mu.Lock()
	defer o.mu.Unlock()
	if until, ok := o.expires[sum]; ok && now.Before(until) {
		return dedupDuplicate
	}
	if len(o.expires) >= maxDedupKeys || now.Sub(o.lastSweep) >= dedupWindow {
		o.sweepLocked(now)
	}
	if len(o.expires) >= maxDedupKeys {
		return dedupFull
	}
	o.expires[sum] = now.Add(dedupWindow)
	return dedupNew
}

// forget lets a key be taken again: what it stood for was not done.
func (o *deduper) forget(key string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.expires, sha256.Sum256([]byte(key)))
}

func (o *deduper) sweepLocked(now time.Time) {
	o.lastSweep = now
	for sum, until := range o.expires {
		if !now.Before(until) {
			delete(o.expires, sum)
		}
	}
}

// rateLimiter lets so many through in each minute, and counts the others.
type rateLimiter struct {
	mu          sync.Mutex
	perMinute   int
	windowStart time.Time
	allowed     int
	suppressed  int // since the last that passed
}

// allow says whether one more may, and how many before it might not.
func (r *rateLimiter) allow(now time.Time) (held int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if now.Sub(r.windowStart) >= time.Minute {
		r.windowStart, r.allowed = now, 0
	}
	if r.allowed >= r.perMinute {
		r.suppressed++
		return 0, false
	}
	held, r.suppressed = r.suppressed, 0
	r.allowed++
	return held, true
}

// interactionMetrics count what came from Slack, and what pretended to.
type interactionMetrics struct {
	handled  *prometheus.CounterVec
	rejected *prometheus.CounterVec
}

// rejectReasons are the reasons for which a callback gets to no worker.
func rejectReasons() []string {
	return []string{"signature", "replayed", "repeated", "senseless", "busy"}
}

func newInteractionMetrics(reg prometheus.Registerer) (*interactionMetrics, error) {
	m := &interactionMetrics{
		handled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_slack_presses_total", Help: "Buttons pressed and commands typed in Slack, by what they ask for and what became of it.",
		}, []string{"action", "ending"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "headgate_slack_turned_away_total", Help: "Callbacks that got to nobody: forged, replayed, repeated by Slack, senseless, or too many at once.",
		}, []string{"reason"}),
	}
	for _, a := range Actions() {
		for _, e := range []Result{Done, Refused, Failed} {
			m.handled.WithLabelValues(string(a), string(e))
		}
	}
	for _, why := range rejectReasons() {
		m.rejected.WithLabelValues(why)
	}
	return m, errors.Join(reg.Register(m.handled), reg.Register(m.rejected))
}
