package proxy

import "io"

// endDetector watches an answer go by and knows whether it has reached its proper
// end. It never changes a byte. It is not for concurrent use.
type endDetector interface {
	io.Writer             // never fails
	complete() bool       // the end has been seen
	upstreamFailed() bool // the answer itself says that the upstream failed
}

// opaqueEnd is for answers of which nothing is known: they end where they end.
type opaqueEnd struct{}

func (opaqueEnd) Write(p []byte) (int, error) { return len(p), nil }
func (opaqueEnd) complete() bool              { return true }
func (opaqueEnd) upstreamFailed() bool        { return false }

// jsonEnd knows whether the one JSON value of a body has been closed. It
// balances brackets outside strings and checks no more than that. A body that
// is not an object or array ends where it ends.
type jsonEnd struct {
	depth    int
	inString bool
	escaped  bool
	started  bool
	scalar   bool
}

func (j *jsonEnd) Write(p []byte) (int, error) {
	for _, c := range p {
		j.step(c)
	}
	return len(p), nil
}

func (j *jsonEnd) step(c byte) {
	if j.inString {
		switch {
		case j.escaped:
			j.escaped = false
		case c == '\\':
			j.escaped = true
		case c == '"':
			j.inString = false
		}
		return
	}
	switch c {
	case ' ', '\t', '\r', '\n':
		return
	case '"':
		j.inString = true
	case '{', '[':
		j.depth++
	case '}', ']':
		j.depth--
	}
	if !j.started {
		j.started = true
		j.scalar = j.depth == 0 && !j.inString
	}
}

func (j *jsonEnd) complete() bool       { return j.started && !j.inString && (j.scalar || j.depth <= 0) }
func (j *jsonEnd) upstreamFailed() bool { return false }
