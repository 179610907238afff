package fakeslack

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"time"
)

// FaultKind is what goes wrong.
type FaultKind string

// The kinds of faults of calls.
const (
	TooManyRequests FaultKind = "429"         // with RetryAfter as the header, if it is not empty
	RateLimitedBody FaultKind = "ratelimited" // in a 200 response
	ServerError     FaultKind = "500"         // with an HTML page
	ErrorResponse   FaultKind = "refuse"      // ok:false with Error
	EmptyResponse   FaultKind = "{}"          // {}
	NotOK           FaultKind = "not ok"      // ok:false and nothing else
	Slow            FaultKind = "slow"        // performed and answered after Delay, or when the caller leaves
	DropAfter       FaultKind = "drop after"  // performed, but the connection is closed without a response
	DropBefore      FaultKind = "drop before" // not performed, and the connection closed
	SlowAfter       FaultKind = "slow after"  // performed at once, answered after Delay
	NotJSON         FaultKind = "not JSON"    // a 200 response that is not JSON
	EndlessBody     FaultKind = "endless"     // a response that does not end
	EmptyAfter      FaultKind = "{} after"    // performed, but answered {}
	ErrorAfter      FaultKind = "500 after"   // performed, but answered 500
	InvalidBlocks   FaultKind = "blocks"      // invalid_blocks, with messages that say why
	NotFoundPage    FaultKind = "404"         // as a deleted webhook
	Forbidden       FaultKind = "403"         // as a webhook that is no longer allowed
)

// The kinds of faults of interactions, which are the methods block_actions and slash_commands. Of the others Slow
// delays them, DropBefore closes the socket before one is sent over it, and DropAfter after.
const (
	Duplicated   FaultKind = "twice"     // sent twice, byte for byte
	Retried      FaultKind = "retried"   // over HTTP: sent up to three times more until it is answered, signed anew
	Forged       FaultKind = "forged"    // over HTTP: signed with another secret
	Tampered     FaultKind = "tampered"  // over HTTP: changed after it was signed
	Unsigned     FaultKind = "unsigned"  // over HTTP: without signature and timestamp
	SilentSocket FaultKind = "mute"      // of link: nothing is sent over the socket after it has opened
	Backdated    FaultKind = "backdated" // over HTTP: signed as of Delay ago; below 0: in the future
)

// Fault makes calls go wrong until it is removed.
type Fault struct {
	// Method is empty for all methods; webhook for webhooks, response_url for response URLs, link for opening a socket,
	// block_actions and slash_commands for interactions. The last three are hit only when they are named.
	Method      string
	Channel     string // ID; empty: all
	Kind        FaultKind
	Error       string        // of ErrorResponse
	RetryAfter  string        // of TooManyRequests
	Delay       time.Duration // of Slow, SlowAfter and Backdated
	Every       int           // hits every n-th call; 0 or 1: each
	Probability float64       // above 0: hits by chance instead
	MaxHits     int           // 0: no limit
}

type fault struct {
	Fault
	calls, hits int
}

// Inject switches a fault on. The returned function switches it off.
func (s *Server) Inject(f Fault) (remove func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := &fault{Fault: f}
	s.faults = append(s.faults, x)
	return func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.faults = slices.DeleteFunc(s.faults, func(o *fault) bool { return o == x })
	}
}

// ClearFaults switches all faults off.
func (s *Server) ClearFaults() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.faults = nil
}

// matchFaultLocked returns the fault that hits a call, or the zero Fault.
func (s *Server) matchFaultLocked(method, channelID string) Fault {
	for _, f := range s.faults {
		if !f.matches(method, channelID) || f.MaxHits > 0 && f.hits >= f.MaxHits {
			continue
		}
		f.calls++
		hit := f.calls%max(1, f.Every) == 0
		if f.Probability > 0 {
			hit = s.random.Float64() < f.Probability
		}
		if hit {
			f.hits++
			return f.Fault
		}
	}
	return Fault{}
}

func (f *fault) matches(method, channelID string) bool {
	if f.Channel != "" && f.Channel != channelID {
		return false
	}
	if f.Method == "" {
		return !slices.Contains([]string{"link", string(ButtonPress), string(SlashCommand)}, method)
	}
	return f.Method == method
}

// preventsCall says whether a call is not performed.
func (f Fault) preventsCall() bool {
	return !slices.Contains([]FaultKind{"", Slow, DropAfter, SlowAfter, EmptyAfter, ErrorAfter, SilentSocket}, f.Kind)
}

// faultResponses are the responses of the faults that have a fixed one.
var faultResponses = map[FaultKind]struct {
	status int
	body   string
}{
	TooManyRequests: {http.StatusTooManyRequests, ""},
	RateLimitedBody: {http.StatusOK, `{"ok":false,"error":"ratelimited"}`},
	ServerError:     {http.StatusInternalServerError, "<html>something went wrong</html>"},
	ErrorAfter:      {http.StatusInternalServerError, "<html>something went wrong</html>"},
	EmptyResponse:   {http.StatusOK, "{}"},
	EmptyAfter:      {http.StatusOK, "{}"},
	NotOK:           {http.StatusOK, `{"ok":false}`},
	NotJSON:         {http.StatusOK, "<html>a proxy's page</html>"},
	NotFoundPage:    {http.StatusNotFound, "no_service"},
	Forbidden:       {http.StatusForbidden, "action_prohibited"},
}

// respond writes the response of a fault. It returns false if the call's own response is still to be written.
func (f Fault) respond(w http.ResponseWriter, r *http.Request) bool {
	switch f.Kind {
	case ErrorResponse:
		writeJSON(w, errorObject(f.Error))
	case InvalidBlocks:
		writeJSON(w, invalidBlocks("must be shorter than 3001 characters [json-pointer:/blocks/1/text/text]"))
	case EndlessBody:
		_, _ = w.Write([]byte(`{"ok":true,"ts":"`))
		for chunk := bytes.Repeat([]byte("1"), 32<<10); r.Context().Err() == nil; {
			if _, err := w.Write(chunk); err != nil {
				break
			}
		}
	case DropBefore, DropAfter:
		panic(http.ErrAbortHandler)
	case Slow, SlowAfter:
		_ = wait(r.Context(), f.Delay)
		return false
	default:
		response, ok := faultResponses[f.Kind]
		if !ok {
			return false
		}
		if f.RetryAfter != "" {
			w.Header().Set("Retry-After", f.RetryAfter)
		}
		w.WriteHeader(response.status)
		_, _ = io.WriteString(w, response.body) // fails when the caller has gone
	}
	return true
}

// wait waits for a time, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
