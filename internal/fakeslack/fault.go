package fakeslack

import (
	"net/http"
	"slices"
	"time"
)

// FaultKind is what goes wrong.
type FaultKind string

// The kinds of faults.
const (
	TooManyRequests FaultKind = "429"         // with RetryAfter as the header, if it is not empty
	RateLimitedBody FaultKind = "ratelimited" // in a 200 answer
	ServerError     FaultKind = "500"         // with an HTML page
	ErrorResponse   FaultKind = "refuse"      // ok:false with Error
	EmptyResponse   FaultKind = "{}"          // {}
	NotOK           FaultKind = "not ok"      // ok:false and nothing else
	Slow            FaultKind = "slow"        // answered after Delay, or when the caller leaves
	DropAfter       FaultKind = "drop after"  // done, but the connection is closed without an answer
	DropBefore      FaultKind = "drop before" // not done, and the connection closed
	SlowAfter       FaultKind = "slow after"  // done at once, answered after Delay
	NotJSON         FaultKind = "not JSON"    // a 200 answer that is no JSON
	EndlessBody     FaultKind = "endless"     // an answer that does not end
	EmptyAfter      FaultKind = "{} after"    // done, but answered {}
	ErrorAfter      FaultKind = "500 after"   // done, but answered 500
	InvalidBlocks   FaultKind = "blocks"      // invalid_blocks, with messages that say why
	NotFoundPage    FaultKind = "404"         // as a webhook that is gone
	Forbidden       FaultKind = "403"         // as a webhook that is not allowed any more
)

// The kinds of faults of interactions, which are the methods block_actions and
// slash_commands. Of the others Slow delays them, DropBefore breaks the socket off
// before one is sent over it, and DropAfter after.
const (
	Duplicated   FaultKind = "twice"     // sent twice, byte for byte
	Retried      FaultKind = "retried"   // over HTTP: sent up to three times more until it is answered, signed anew
	Forged       FaultKind = "forged"    // over HTTP: signed with another secret
	Tampered     FaultKind = "tampered"  // over HTTP: changed after it was signed
	Unsigned     FaultKind = "unsigned"  // over HTTP: without signature and timestamp
	SilentSocket FaultKind = "mute"      // of link: the socket opens, and then nothing more is heard of it
	Backdated    FaultKind = "backdated" // over HTTP: signed as of Delay ago; below 0: of what is to come
)

// Fault makes calls go wrong until it is removed.
type Fault struct {
	// Method is empty for all methods; webhook for webhooks, response_url for
	// response URLs, link for opening a socket, block_actions and slash_commands
	// for interactions. The last three are hit only when they are named.
	Method      string
	Channel     string // ID; empty: all
	Kind        FaultKind
	Error       string        // of ErrorResponse
	RetryAfter  string        // of TooManyRequests
	Delay       time.Duration // of Slow, SlowAfter and Backdated
	Every       int           // hits every n-th call; 0 or 1: each
	Probability float64       // above 0: hits by chance instead
	MaxHits     int           // hits so often only; 0: no end
}

type fault struct {
	Fault
	calls, hits int
}

// Inject switches a fault on. The function that it returns switches it off.
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

// matchFaultLocked returns the fault that hits a call, or nil.
func (s *Server) matchFaultLocked(method, channelID string) *Fault {
	for _, f := range s.faults {
		if !f.matches(method) || (f.Channel != "" && f.Channel != channelID) {
			continue
		}
		if f.MaxHits > 0 && f.hits >= f.MaxHits {
			continue
		}
		f.calls++
		hit := f.calls%max(1, f.Every) == 0
		if f.Probability > 0 {
			hit = s.random.Float64() < f.Probability
		}
		if hit {
			f.hits++
			return &f.Fault
		}
	}
	return nil
}

// matches says whether a fault is about a method.
func (f *fault) matches(method string) bool {
	if f.Method == "" {
		return !slices.Contains([]string{"link", string(ButtonPress), string(SlashCommand)}, method)
	}
	return f.Method == method
}

// respondInstead answers a call that a fault keeps from being done. It returns false if
// the call is to be done.
func (f *Fault) respondInstead(w http.ResponseWriter, r *http.Request) bool {
	switch f.Kind {
	case TooManyRequests:
		if f.RetryAfter != "" {
			w.Header().Set("Retry-After", f.RetryAfter)
		}
		w.WriteHeader(http.StatusTooManyRequests)
	case RateLimitedBody:
		writeJSON(w, errorObject("ratelimited"))
	case ServerError:
		http.Error(w, "<html>something went wrong</html>", http.StatusInternalServerError)
	case ErrorResponse:
		writeJSON(w, errorObject(f.Error))
	case InvalidBlocks:
		writeJSON(w, invalidBlocks("must be shorter than 3001 characters [json-pointer:/blocks/1/text/text]"))
	case EmptyResponse:
		writeJSON(w, object{})
	case NotOK:
		writeJSON(w, object{"ok": false})
	case NotJSON:
		_, _ = w.Write([]byte("<html>a proxy's page</html>"))
	case EndlessBody:
		endless(w, r)
	case NotFoundPage:
		http.Error(w, "no_service", http.StatusNotFound)
	case Forbidden:
		http.Error(w, "action_prohibited", http.StatusForbidden)
	case DropBefore:
		panic(http.ErrAbortHandler)
	case Slow:
		pause(r, f.Delay)
		return false
	default:
		return false
	}
	return true
}

// respondAfter answers a call that was done in place of its own answer. It returns false
// if there is nothing in the way of that.
func (f *Fault) respondAfter(w http.ResponseWriter, r *http.Request) bool {
	switch f.Kind {
	case DropAfter:
		panic(http.ErrAbortHandler)
	case EmptyAfter:
		writeJSON(w, object{})
	case ErrorAfter:
		http.Error(w, "<html>something went wrong</html>", http.StatusInternalServerError)
	case SlowAfter:
		pause(r, f.Delay)
		return false
	default:
		return false
	}
	return true
}

func pause(r *http.Request, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-r.Context().Done():
	}
}

func endless(w http.ResponseWriter, r *http.Request) {
	_, _ = w.Write([]byte(`{"ok":true,"ts":"`))
	chunk := make([]byte, 32<<10)
	for i := range chunk {
		chunk[i] = '1'
	}
	for r.Context().Err() == nil {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}
