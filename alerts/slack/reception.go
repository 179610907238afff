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
	workers     = 4
	maxWaiting  = 64 // callbacks that are taken and not worked on yet
	workTime    = 30 * time.Second
	brokenOff   = time.Second // that work has to end in which is broken off
	forgedEach  = 30          // entries of forged requests in a minute
	refusedEach = 120         // entries of refused presses in a minute
)

// ReceptionOptions are those of a Reception.
type ReceptionOptions struct {
	Bot        *Bot
	Desk       Desk
	Allow      Allow
	AppToken   string // to know the app by; empty: any
	Registerer prometheus.Registerer
	Log        *slog.Logger
	Now        func() time.Time // nil: the wall clock
}

// Reception takes presses and commands, from whichever transport, and has the Desk
// carry them out, each once. Slack is answered at once; the work is done after, by
// a few workers. It is safe for concurrent use.
type Reception struct {
	o       ReceptionOptions
	app     string
	once    *once
	forged  *ration
	refused *ration
	metrics *receptionMetrics
	answers answers
	allow   atomic.Pointer[Allow]

	mu      sync.Mutex
	queue   chan callback
	closed  bool
	working sync.WaitGroup
	cancel  context.CancelFunc
	work    context.Context
}

// Errors that a transport answers with "not now".
var (
	errGoingDown = errors.New("headgate is going down")
	errBusy      = errors.New("too much at once")
)

// NewReception returns a Reception that works from Start on.
func NewReception(o ReceptionOptions) (*Reception, error) {
	if o.Bot == nil || o.Desk == nil || o.Log == nil || o.Registerer == nil {
		return nil, errors.New("a reception needs a bot, a desk, a log and metrics")
	}
	if err := o.Allow.Check(); err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	metrics, err := newReceptionMetrics(o.Registerer)
	if err != nil {
		return nil, err
	}
	r := &Reception{
		o: o, app: appOf(o.AppToken), once: newOnce(), forged: &ration{each: forgedEach}, refused: &ration{each: refusedEach},
		metrics: metrics, answers: answers{bot: o.Bot, log: o.Log}, queue: make(chan callback, maxWaiting),
	}
	r.allow.Store(&o.Allow)
	r.work, r.cancel = context.WithCancel(context.Background())
	return r, nil
}

// appOf returns the ID of the app that an app-level token is of, or nothing.
func appOf(token string) string {
	parts := strings.Split(token, "-")
	if len(parts) < 4 || parts[0] != "xapp" || !appID.MatchString(parts[2]) {
		return ""
	}
	return parts[2]
}

// SetAllow replaces the lists of who may do what, for what is not judged yet.
func (r *Reception) SetAllow(a Allow) error {
	if err := a.Check(); err != nil {
		return err
	}
	r.allow.Store(&a)
	return nil
}

// Start begins to work. It is called once.
func (r *Reception) Start() {
	for range workers {
		r.working.Go(func() {
			for c := range r.queue {
				r.handle(c)
			}
		})
	}
}

// Stop takes nothing more, and works off what was taken until ctx ends; the rest
// is broken off. It may be called more than once.
func (r *Reception) Stop(ctx context.Context) error {
	r.mu.Lock()
	if !r.closed {
		r.closed = true
		close(r.queue)
	}
	r.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		r.working.Wait()
	}()
	select {
	case <-done:
		r.cancel()
		return nil
	case <-ctx.Done():
	}
	r.cancel()
	last := time.NewTimer(brokenOff)
	defer last.Stop()
	select {
	case <-done:
	case <-last.C:
	}
	return fmt.Errorf("presses in Slack were broken off: %w", ctx.Err())
}

// take hands a callback over to the workers, if it is there for the first time. It
// does not block. Without an error Slack is told that all is well.
func (r *Reception) take(c callback) error {
	if c.once == "" {
		return errors.New("it does not say which it is")
	}
	switch r.once.take(r.o.Now(), c.once) {
	case again:
		r.note(Entry{Ending: Refused, Actor: Actor(c.user), Reason: "the same callback once more", Inputs: inputs(c)}, "repeated")
		return nil
	case full:
		return errBusy
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		r.once.forget(c.once)
		return errGoingDown
	}
	select {
	case r.queue <- c:
		return nil
	default:
		r.once.forget(c.once)
		r.metrics.refused.WithLabelValues("busy").Inc()
		return errBusy
	}
}

// turnAway notes what did not come from Slack, or not for the first time, or makes
// no sense.
func (r *Reception) turnAway(why, reason string, in map[string]string) {
	r.note(Entry{Forged: true, Ending: Refused, Reason: reason, Inputs: in}, why)
}

// handle does what a callback asks for, and tells who asked.
func (r *Reception) handle(c callback) {
	ctx, cancel := context.WithTimeout(r.work, workTime)
	defer cancel()
	w, a := r.serve(ctx, c)
	r.metrics.handled.WithLabelValues(string(w.Action), string(a.Ending)).Inc()
	if c.button != "" || w.Action.Guarded() || a.Ending != Done {
		r.note(Entry{
			Action: w.Action, Ending: a.Ending, Incident: w.Incident, Pool: w.Pool, Actor: Actor(c.user), Reason: a.Text, Inputs: inputs(c),
		}, "")
	}
	if a.Text != "" {
		r.answers.say(r.work, c, a) // also if the work took all of its time
	}
}

func inputs(c callback) map[string]string {
	in := map[string]string{"channel": c.channel, "team": c.team}
	if c.button != "" {
		in["button"] = c.button
	} else {
		in["command"] = plainText(c.text, 200)
	}
	if c.retry != "" {
		in["retry"] = plainText(c.retry, 100)
	}
	return in
}

// note keeps an entry. Of refused ones only so many are kept: anybody could make
// more. Why counts it among what was turned away.
func (r *Reception) note(e Entry, why string) {
	if why != "" {
		r.metrics.refused.WithLabelValues(why).Inc()
	}
	ration := r.refused
	if e.Forged {
		ration = r.forged
	}
	if e.Ending == Refused {
		held, ok := ration.pass(r.o.Now())
		if !ok {
			return
		}
		if held > 0 {
			e.Reason += fmt.Sprintf(" (and %d more before, not kept)", held)
		}
	}
	r.o.Log.Info("slack", "action", e.Action, "ending", e.Ending, "actor", e.Actor, "incident", e.Incident, "pool", e.Pool,
		"forged", e.Forged, "reason", plainText(e.Reason, 300))
	r.o.Desk.Note(context.WithoutCancel(r.work), e)
}

// serve judges a callback, and carries it out if nothing speaks against it.
func (r *Reception) serve(ctx context.Context, c callback) (w Wish, a Answer) {
	defer func() {
		if p := recover(); p != nil {
			r.o.Log.Error("what was asked for in Slack panicked", "action", w.Action, "panic", fmt.Sprint(p))
			a = Answer{Ending: Failed, Text: "Something went wrong inside headgate; its log says what."}
		}
	}()
	w, err := c.wish()
	w.Actor, w.At = Actor(c.user), r.o.Now()
	if why := r.foreign(ctx, c); why != "" {
		return w, Answer{Ending: Refused, Text: "Nothing was done: " + why + "."}
	}
	if err != nil {
		return w, Answer{Ending: Refused, Text: complaint(c, err)}
	}
	if why := r.allow.Load().refuse(c.user, w); why != "" {
		return w, Answer{Ending: Refused, Text: "Nothing was done: " + why + ". At the machine the command is: " + w.typed()}
	}
	if w.Action == Help {
		return w, Answer{Ending: Done, Text: Usage}
	}
	return w, r.o.Desk.Do(ctx, w)
}

// foreign says why a callback is not for us, or nothing.
func (r *Reception) foreign(ctx context.Context, c callback) string {
	team, err := r.o.Bot.team(ctx)
	switch {
	case err != nil:
		return "headgate cannot find out right now which workspace it belongs to"
	case c.team != team, c.userTeam != "" && c.userTeam != team:
		return "you are of another workspace than this headgate"
	case r.app != "" && c.app != "" && c.app != r.app:
		return "it came from another app than this headgate's"
	case c.button != "" && !r.o.Bot.posts(c.channel):
		return "this headgate does not post in this channel"
	default:
		return ""
	}
}

func complaint(c callback, err error) string {
	if c.button != "" {
		return "Nothing was done: " + err.Error() + ". Look at the latest message, or type /headgate help."
	}
	return "Nothing was done: " + err.Error() + ".\n" + Usage
}
