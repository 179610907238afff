package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"mime"
	"net/http"
	"runtime/debug"
	"strings"
	"time"

	"headgate/proxy/admission"
)

// ErrDrainTimeout is the cause with which the server cancels requests that are
// still running when its time to drain has passed.
var ErrDrainTimeout = errors.New("drain time exceeded")

// task is one request in progress. It belongs to the goroutine that serves it.
type task struct {
	p     *Proxy
	table *routingTable
	pool  *pool // nil until the request has been routed
	// endpoint is the chosen pool's, or before that the one found first.
	endpoint *endpoint
	proto    protocol
	w        http.ResponseWriter
	rc       *http.ResponseController
	r        *http.Request

	obs         Observation
	jitterSeed  uint64
	traceparent string // the header made here, empty if the client sent one
	reserved    reservation
	info        requestInfo
	client      Client

	ticket          *admission.Ticket
	offered         time.Time
	dueAt           time.Time // its deadline; zero before it is admitted
	granted         time.Time
	deadlines       connDeadlines // of the connection to the client
	sample          admission.Sample
	end             answerDetector // of the answer being relayed
	arrivalReported bool
	headersSent     bool // a status was sent: an error can only be sent in the stream, or by aborting
	keepAliveSent   bool // that status was sent to keep a waiting stream alive
}

func newTask(p *Proxy, tab *routingTable, e *endpoint, w http.ResponseWriter, r *http.Request) *task {
	t := &task{
		p: p, table: tab, endpoint: e, proto: protocolOf(r.URL.Path), w: w, r: r,
		reserved: reservation{shared: tab.bodyBudget}, sample: admission.Dropped,
	}
	t.obs = Observation{
		Pool: Unrouted, Endpoint: e.Path, Arrived: time.Now(), DrillTraffic: isDrillTraffic(r.Context()),
		Outcome: admission.ClientGone, Retry: isAnnouncedRetry(r.Header),
	}
	t.obs.TaskID, t.jitterSeed = newTaskID()
	t.obs.RequestID = requestID(r.Header, t.obs.TaskID)
	if t.obs.TraceID = traceID(r.Header.Get(traceparentHeader)); t.obs.TraceID == "" {
		t.traceparent, t.obs.TraceID = newTraceparent()
	}
	return t
}

// run processes the task from its headers to the end of its answer.
func (t *task) run() *failure {
	if only := t.table.singlePool(); only != nil {
		t.setPool(only)
	}
	if f := t.checkHeaders(); f != nil {
		return t.rejectBody(f)
	}
	if !t.endpoint.Gate && !t.readsBodyFirst() {
		return t.passThrough()
	}
	body, f := t.readBody(t.table.maxBody)
	if f != nil {
		return f
	}
	if f := t.route(body); f != nil {
		return f
	}
	if t.endpoint.Gate {
		if f := t.admit(); f != nil {
			return f
		}
	}
	return t.forward(body)
}

func (t *task) checkHeaders() *failure {
	var f *failure
	if t.client, f = authenticate(t.table.clients, t.r); f != nil {
		return f
	}
	t.obs.Client = t.client.Name
	if t.obs.Class, f = classFor(t.r.Header.Get(priorityHeader), t.client); f != nil {
		return f
	}
	if _, f = requestedDeadline(t.r.Header, false); f != nil {
		return f
	}
	return t.checkContentType()
}

// checkContentType refuses bodies that no endpoint takes. A browser sends text and form
// fields to any site without asking it first.
func (t *task) checkContentType() *failure {
	contentType := t.r.Header.Get("Content-Type")
	mediaType, _, err := mime.ParseMediaType(contentType)
	switch {
	case t.endpoint.model == modelRequired && !isJSON(contentType):
		return invalidRequest(http.StatusUnsupportedMediaType, "unsupported_content_type",
			"Content-Type must be application/json.")
	case t.r.Body == http.NoBody:
		return nil
	case err != nil || !strings.Contains(mediaType, "/") || mediaType == "text/plain" ||
		mediaType == "application/x-www-form-urlencoded":
		return invalidRequest(http.StatusUnsupportedMediaType, "unsupported_content_type",
			"Content-Type must be that of the body, such as application/json; text/plain and "+
				"application/x-www-form-urlencoded are not accepted.")
	}
	return nil
}

// route chooses the task's pool by its body.
func (t *task) route(body []byte) *failure {
	f := t.inspectBody(body)
	if f != nil {
		return f
	}
	p, f := t.choosePool(t.info.model)
	if f != nil {
		return f
	}
	t.setPool(p)
	if int64(len(body)) > p.BodyLimit {
		return tooLarge(p.BodyLimit)
	}
	if !t.reserved.assign(p.bodyBudget) {
		return t.refuse(admission.ReasonMemory)
	}
	return nil
}

// inspectBody reads what routing needs from a body of JSON or of form fields.
func (t *task) inspectBody(body []byte) (f *failure) {
	contentType := t.r.Header.Get("Content-Type")
	boundary := formBoundary(contentType)
	asJSON := isJSON(contentType)
	if !asJSON && boundary == "" {
		return nil
	}
	plain, f := t.decodedBody(body, t.table.maxBody)
	switch {
	case f != nil:
	case asJSON:
		t.info, f = inspect(plain)
	default:
		t.info, f = inspectForm(plain, boundary)
		if t.table.singlePool() != nil {
			f = nil // the upstream will judge what it is
		}
	}
	return f
}

// choosePool returns the pool for a model, or for no model.
func (t *task) choosePool(model string) (*pool, *failure) {
	method, path := t.r.Method, t.r.URL.EscapedPath()
	if model != "" {
		if p := t.table.forModel(model, method, path); p != nil {
			return p, nil
		}
		return nil, modelNotFound(model)
	}
	if t.endpoint.model == modelRequired {
		return nil, modelMissing()
	}
	p := t.table.withoutModel(method, path)
	switch {
	case p == nil:
		return nil, poolUnknown(t.r)
	case isJSON(t.r.Header.Get("Content-Type")) && t.endpoint.model == modelOptional && !p.servesAll():
		return nil, modelMissing()
	}
	return p, nil
}

func (t *task) setPool(p *pool) {
	t.pool = p
	t.obs.Pool = p.Name
	if e := p.endpoint(t.r.Method, t.r.URL.EscapedPath()); e != nil {
		t.endpoint = e
	}
	t.reportArrival()
}

func (t *task) reportArrival() {
	if !t.arrivalReported && t.isTask() {
		t.arrivalReported = true
		t.p.observer.OnArrival(t.obs.Pool)
	}
}

// refuse refuses the task without offering it to the gate.
func (t *task) refuse(r admission.Reason) *failure {
	p := t.pool
	if p == nil {
		p = t.table.pools[0]
	}
	return refusalFailure(admission.Refusal{Reason: r, RetryAfter: p.Gate.RetryAfter(time.Now(), t.jitterSeed)})
}

// waiterChan receives how a task's wait ended.
type waiterChan chan admission.Refusal

// Done sends the result; it is called once, and the channel has room for it.
func (w waiterChan) Done(r admission.Refusal) { w <- r }

// admit gets a permit for the task, or returns why it gets none.
func (t *task) admit() *failure {
	left, f := deadline(t.r.Header, t.info.stream, t.obs.Class, t.pool.SLO)
	if f != nil {
		return f
	}
	if err := t.r.Context().Err(); err != nil {
		return clientGone(err)
	}
	wait := make(waiterChan, 1)
	t.dueAt = t.obs.Arrived.Add(left)
	d := t.offer(admission.Task{Class: t.obs.Class, Deadline: t.dueAt, JitterSeed: t.jitterSeed, Waiter: wait})
	if d.Ticket == nil {
		return refusalFailure(d.Refusal)
	}
	if d.Waiting {
		if f := t.wait(wait, t.dueAt); f != nil {
			return f
		}
		return t.start(false)
	}
	t.observeFastPath(t.obs.Gate)
	return t.start(true)
}

// observeFastPath reports how long one call of the gate took for a task that found
// a permit free. Each call is reported at once, since the next may take as long.
func (t *task) observeFastPath(took time.Duration) {
	t.p.observer.OnGateEvent(GateEvent{Pool: t.pool.Name, FastPath: true, Took: took})
}

// offer offers the task to its gate.
func (t *task) offer(task admission.Task) admission.Decision {
	t.offered = time.Now()
	defer t.reportGatePanics()
	d := t.pool.Gate.Offer(t.offered, task)
	t.obs.Gate += time.Since(t.offered)
	t.obs.ObservedReason = d.ObservedReason
	t.ticket = d.Ticket
	if d.Violation != "" {
		t.reportFalseRefusal(d)
	}
	return d
}

// wait waits for a permit, a refusal, the deadline or the client's departure.
func (t *task) wait(done waiterChan, due time.Time) *failure {
	expiry := time.NewTimer(time.Until(due))
	defer expiry.Stop()
	var keepAlive <-chan time.Time
	if t.keepsAlive() {
		ticker := time.NewTicker(t.pool.StreamKeepAlive)
		defer ticker.Stop()
		keepAlive = ticker.C
	}
	defer func() { t.obs.Queued = time.Since(t.offered) }()
	for {
		select {
		case r := <-done:
			if r.Reason != admission.ReasonNone {
				return refusalFailure(r)
			}
			return nil
		case <-t.r.Context().Done():
			// If the grant came first, finish returns the permit.
			t.pool.Gate.Cancel(time.Now(), t.ticket)
			return clientGone(t.r.Context().Err())
		case <-expiry.C:
			if r := t.expire(); r.Reason != admission.ReasonNone {
				return refusalFailure(r)
			}
		case <-keepAlive:
			if f := t.keepAlive(); f != nil {
				t.pool.Gate.Cancel(time.Now(), t.ticket)
				return f
			}
		}
	}
}

func (t *task) expire() admission.Refusal {
	defer t.reportGatePanics()
	return t.pool.Gate.Expire(time.Now(), t.ticket)
}

// start asks the gate once more before the task goes upstream.
func (t *task) start(fastPath bool) *failure {
	now := time.Now()
	d := t.checkBeforeDispatch(now)
	took := time.Since(now)
	t.obs.Gate += took
	if fastPath {
		t.observeFastPath(took)
	}
	if d.Reason != admission.ReasonNone {
		return refusalFailure(d.Refusal)
	}
	if t.obs.ObservedReason == admission.ReasonNone {
		t.obs.ObservedReason = d.ObservedReason
	}
	t.granted = now
	if err := t.r.Context().Err(); err != nil {
		return clientGone(err)
	}
	return nil
}

func (t *task) checkBeforeDispatch(now time.Time) admission.Decision {
	defer t.reportGatePanics()
	return t.pool.Gate.CheckDispatch(now, t.ticket)
}

// respond ends the task: with the failure if there is one and it can still be
// sent, by aborting the answer otherwise.
func (t *task) respond(f *failure) {
	t.extendWriteDeadline() // the last bytes go out after the handler has returned
	if f == nil {
		return
	}
	t.obs.Outcome, t.obs.Err = f.outcome, f.cause
	t.obs.Reason = f.refusal.Reason
	if f.outcome == admission.ClientGone && errors.Is(context.Cause(t.r.Context()), ErrDrainTimeout) {
		t.obs.Outcome = admission.Drained
	}
	switch {
	case f.status == 0:
		panic(http.ErrAbortHandler)
	case t.keepAliveSent:
		t.obs.Status = http.StatusOK
		t.writeStreamError(f.body(t.r.URL.Path))
	case t.headersSent:
		panic(http.ErrAbortHandler)
	default:
		t.setIDs()
		t.obs.Status = f.status
		f.write(t.w, t.r)
	}
}

// finish releases everything that the task holds, exactly once, and reports it.
func (t *task) finish() {
	caught := recover()
	end := time.Now()
	if t.ticket != nil {
		t.releasePermit(end)
		t.obs.Gate += time.Since(end)
	}
	t.reserved.release()
	if caught != nil && caught != http.ErrAbortHandler {
		t.recordPanic(caught)
	}
	t.report(end)
	switch {
	case caught == nil:
	case t.obs.Panicked && !t.headersSent:
		internalError().write(t.w, t.r)
	default:
		abortConn(t.w, t.r)
	}
}

// releasePermit ends the task at the gate. A panic of the gate is reported but
// does not change the answer.
func (t *task) releasePermit(end time.Time) {
	defer func() { _ = recover() }()
	defer t.reportGatePanics()
	defer t.pool.Gate.Finish(end, t.ticket)
	t.pool.Gate.Release(end, t.ticket, t.sample)
}

func (t *task) report(end time.Time) {
	t.obs.Turnaround = end.Sub(t.obs.Arrived)
	if !t.granted.IsZero() {
		t.obs.Granted = true
		t.obs.Service = end.Sub(t.granted)
	}
	if t.reportArrival(); t.arrivalReported {
		t.p.observer.OnEnd(t.obs)
	}
	t.logEnd()
}

// isTask reports whether the request is counted. What is forwarded without a permit is
// not, unless it shows a fault of the proxy.
func (t *task) isTask() bool { return t.endpoint.Gate || t.obs.Panicked }

func (t *task) setIDs() {
	t.w.Header().Set(taskIDHeader, t.obs.TaskID)
	if t.w.Header().Get(requestIDHeader) == "" {
		t.w.Header().Set(requestIDHeader, t.obs.RequestID)
	}
}

// logEnd logs the task: at level warn if the upstream failed, at debug otherwise,
// since the metrics count every task and every refusal.
func (t *task) logEnd() {
	level := slog.LevelDebug
	switch t.obs.Outcome {
	case admission.UpstreamError, admission.UpstreamTimeout, admission.Truncated:
		level = slog.LevelWarn
	}
	if t.obs.Reason == admission.ReasonMemory {
		level = slog.LevelError
	}
	if t.p.log.Enabled(context.Background(), level) {
		t.p.log.LogAttrs(context.Background(), level, "task ended", t.obs.attrs()...)
	}
}

func (t *task) logError(message string, attrs ...slog.Attr) {
	t.p.log.LogAttrs(context.Background(), slog.LevelError, message, attrs...)
}

// reportGatePanics is deferred around calls of the gate and reports the panics in
// them: those of the policy, which the gate has caught to admit the task, and one
// of the gate itself, which is raised again and ends the task.
func (t *task) reportGatePanics() {
	caught := recover()
	p := t.pool.Gate.TakePanics()
	if caught == nil && p.Count == 0 {
		return
	}
	if caught != nil {
		p = admission.PanicReport{Count: p.Count + 1, Value: caught, Stack: debug.Stack()}
	}
	t.p.observer.OnGateEvent(GateEvent{Pool: t.pool.Name, Panics: p.Count})
	t.logError("panic in the gate",
		slog.String("pool", t.pool.Name), slog.String("task", t.obs.TaskID), slog.Int("times", p.Count),
		slog.String("panic", fmt.Sprint(p.Value)), slog.String("stack", string(p.Stack)))
	if caught != nil {
		panic(caught)
	}
}

// reportFalseRefusal reports a refusal to which the gate's monitor objects.
func (t *task) reportFalseRefusal(d admission.Decision) {
	t.p.observer.OnGateEvent(GateEvent{Pool: t.pool.Name, FalseRefusal: d.Reason})
	t.logError("false refusal", slog.String("pool", t.pool.Name), slog.String("task", t.obs.TaskID),
		slog.String("reason", d.Reason.String()), slog.String("violation", d.Violation))
}

// recordPanic turns a panic of the proxy into an outcome and a log line.
func (t *task) recordPanic(value any) {
	t.obs.Outcome = admission.UpstreamError
	t.obs.Panicked = true
	if !t.headersSent {
		t.obs.Status = http.StatusInternalServerError
	}
	t.obs.Err = fmt.Errorf("panic: %v", value)
	t.logError("panic while serving a task", append(t.obs.attrs(), slog.String("stack", string(debug.Stack())))...)
}
