package modelstub

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// faultSyntax is what an error tells someone who mistyped a fault.
const faultSyntax = "status=500, status=429;retry_after=7, hang, hang_after=3, reset, reset_after=3, truncate=3, " +
	"truncate=half;length=wrong, drip=10ms, malformed=3, error_event=3, silence=20s;after=3 or latency=2s"

// ParseFault reads a fault: one kind and its parts, joined by semicolons, in
// any order. latency=DUR and share=S (above 0, at most 1) go with every kind:
//
//	status=500
//	status=429;retry_after=7
//	hang                          before the headers
//	hang_after=3                  after three chunks
//	reset · reset_after=3         a TCP reset
//	truncate=3                    a clean end after three chunks
//	truncate=half                 half of a body that is not streamed, cleanly
//	truncate=half;length=wrong    the same with the Content-Length of the whole
//	drip=10ms                     one byte every 10 ms
//	malformed=3                   invalid chunked framing after three chunks
//	error_event=3                 data: {"error":…} after three chunks
//	silence=20s;after=3           a pause mid-stream
//	latency=2s                    added before the first byte
//
// An error says which part is wrong and what would be right.
func ParseFault(s string) (Fault, error) {
	var f Fault
	seen := map[string]bool{}
	for part := range strings.SplitSeq(s, ";") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		if seen[name] {
			return Fault{}, fmt.Errorf("fault %q: %q is given twice", clip(s), clip(name))
		}
		seen[name] = true
		if err := f.setPart(name, value); err != nil {
			return Fault{}, fmt.Errorf("fault %q: %w", clip(s), err)
		}
	}
	if err := errors.Join(f.checkParts(seen), f.Validate()); err != nil {
		return Fault{}, fmt.Errorf("fault %q: %w", clip(s), err)
	}
	return f, nil
}

func (f *Fault) setPart(name, value string) error {
	switch name {
	case "retry_after":
		return f.setRetryAfter(value)
	case "length":
		f.WrongLength = value == "wrong"
		if !f.WrongLength {
			return fmt.Errorf("length: %q, want wrong", clip(value))
		}
		return nil
	case "after":
		return f.setAfter(value)
	case "latency":
		d, err := parseDuration(value, MaxFaultDelay)
		f.Latency = d
		return err
	case "share":
		return f.setShare(value)
	}
	return f.setKind(Kind(name), value)
}

func (f *Fault) setKind(kind Kind, value string) error {
	if f.Kind != KindNone {
		return fmt.Errorf("%s and %s cannot be combined", f.Kind, clip(string(kind)))
	}
	f.Kind = kind
	switch kind {
	case KindStatus:
		status, err := strconv.Atoi(value)
		if err != nil {
			return fmt.Errorf("status: %q, want 400 to 599", clip(value))
		}
		f.Status = status
		return nil
	case KindHang, KindReset:
		if value != "" {
			return fmt.Errorf("%s takes no value; did you mean %s_after=%s?", kind, kind, clip(value))
		}
		return nil
	case KindHangAfter, KindResetAfter, KindTruncate, KindMalformed, KindErrorEvent:
		return f.setAfter(value)
	case KindDrip, KindSilence:
		d, err := parseDuration(value, MaxFaultDelay)
		f.Delay = d
		return err
	}
	return fmt.Errorf("unknown part %q: want %s", clip(string(kind)), faultSyntax)
}

func (f *Fault) setAfter(value string) error {
	if value == "" || (f.Kind == KindTruncate && value == "half") {
		f.After = 1
		return nil
	}
	n, err := strconv.Atoi(value)
	if err != nil || n < 0 || n > maxAfter {
		return fmt.Errorf("%q: want a number of chunks from 0 to %d", clip(value), maxAfter)
	}
	f.After = n
	return nil
}

func (f *Fault) setShare(value string) error {
	share, err := parseNumber(value, 0, 1)
	if err != nil || share == 0 {
		return fmt.Errorf("share: %q, want above 0 and at most 1", clip(value))
	}
	f.Share = share
	return nil
}

// setRetryAfter takes what a header can carry, right or wrong.
func (f *Fault) setRetryAfter(value string) error {
	if value == "" || len(value) > 64 || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }) {
		return fmt.Errorf("retry_after: %q, want seconds or a date", clip(value))
	}
	f.RetryAfter = value
	return nil
}

func (f *Fault) checkParts(seen map[string]bool) error {
	for part, kind := range map[string]Kind{"retry_after": KindStatus, "length": KindTruncate, "after": KindSilence} {
		if seen[part] && f.Kind != kind {
			return fmt.Errorf("%s goes only with %s", part, kind)
		}
	}
	return nil
}
