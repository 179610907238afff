package slack

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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
