package proxy

import (
	"fmt"
	"net/http"
	"strconv"
	"time"

	"headgate/proxy/admission"
)

// failure is an answer of the proxy's own: why a task did not get the upstream's.
type failure struct {
	status  int
	kind    string // error.type of OpenAI's shape
	code    string // error.code
	message string
	outcome admission.Outcome
	refusal admission.Refusal // set when the task was refused
	cause   error             // for the log
}

// invalidRequest is a request that cannot be forwarded: the client's fault.
func invalidRequest(status int, code, format string, args ...any) *failure {
	return &failure{
		status: status, kind: "invalid_request_error", code: code,
		message: fmt.Sprintf(format, args...), outcome: admission.Invalid,
	}
}

// clientGone is the end of a task whose client has left.
func clientGone(cause error) *failure { return abortedAnswer(admission.ClientGone, cause) }

// upstreamFailure is an answer in place of the upstream's.
func upstreamFailure(status int, outcome admission.Outcome, code, message string, cause error) *failure {
	return &failure{status: status, kind: "server_error", code: code, message: message, outcome: outcome, cause: cause}
}

// internalError is the answer to a task that ended in a panic of the proxy.
func internalError() *failure {
	return upstreamFailure(http.StatusInternalServerError, admission.UpstreamError, "internal_error",
		"Internal error.", nil)
}

// RejectHost refuses a request whose Host is not one of headgate's own names.
func RejectHost(w http.ResponseWriter, r *http.Request) {
	invalidRequest(http.StatusMisdirectedRequest, "unknown_host", "Unknown host name %s. "+
		"If it is a name of this server, add it to hosts in the settings.", quoteBounded(r.Host)).write(w, r)
}

// abortedAnswer is an answer that must be aborted because some of it has been sent.
func abortedAnswer(outcome admission.Outcome, cause error) *failure {
	return &failure{outcome: outcome, cause: cause}
}

var refusalMessages = map[admission.Reason]string{
	admission.ReasonQueueAge:           "The oldest queued request is too old for new ones to be answered in time.",
	admission.ReasonQueueDepth:         "The queue for the model is full.",
	admission.ReasonDeadlineUnmeetable: "The request could not be answered within its deadline.",
	admission.ReasonDeadlinePassed:     "The deadline of the request passed before the model was free.",
	admission.ReasonClientQuota:        "Client quota exceeded.",
	admission.ReasonMemory:             "No memory left for more waiting requests.",
	admission.ReasonDraining:           "The server is shutting down.",
}

func refusalFailure(r admission.Refusal) *failure {
	status, kind := http.StatusTooManyRequests, "rate_limit_error"
	if r.Reason == admission.ReasonDraining {
		status, kind = http.StatusServiceUnavailable, "server_error"
	}
	return &failure{
		status: status, kind: kind, code: r.Reason.String(), refusal: r, outcome: r.Reason.Outcome(),
		message: fmt.Sprintf("%s Retry in %d seconds.", refusalMessages[r.Reason], wholeSeconds(r.RetryAfter)),
	}
}

func wholeSeconds(d time.Duration) int64 { return int64(d / time.Second) }

// openAIBody returns the failure in OpenAI's shape. Param is always null: clients expect
// the key.
func (f *failure) openAIBody() any {
	return map[string]any{
		"error": map[string]any{"message": f.message, "type": f.kind, "param": nil, "code": f.code},
	}
}

// write sends the failure as a whole response to a request. One that is no task gets
// an ID all the same, by which people can refer to it.
func (f *failure) write(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if len(h[taskIDHeader]) == 0 {
		id, _ := newTaskID()
		h.Set(taskIDHeader, id)
	}
	if f.refusal.Reason != admission.ReasonNone {
		retry := wholeSeconds(f.refusal.RetryAfter)
		h.Set("Retry-After", strconv.FormatInt(retry, 10))
		h.Set("Retry-After-Ms", strconv.FormatInt(retry*1000, 10))
		h.Set("Headgate-Reason", f.refusal.Reason.String())
	}
	body := f.body(r.URL.Path)
	h.Set("Content-Type", "application/json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(f.status)
	// The client may have left.
	_, _ = w.Write(body)
}
