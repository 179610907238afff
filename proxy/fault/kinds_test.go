package fault

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func TestEveryKindDoesWhatItSays(t *testing.T) {
	tests := []struct {
		name     string
		fault    Fault
		upstream int64
		check    func(a answer) bool
	}{
		{"latency", Fault{Kind: Latency, Delay: 3 * time.Second}, 1, func(a answer) bool { return a.fine() && a.took == 3*time.Second }},
		{"status", Fault{Kind: Status, Code: 503}, 0, func(a answer) bool { return a.status == 503 && json.Valid([]byte(a.text)) && a.took == 0 }},
		{"reset", Fault{Kind: Reset}, 0, func(a answer) bool { return errors.Is(a.err, syscall.ECONNRESET) }},
		{"refuse", Fault{Kind: Refuse}, 0, func(a answer) bool { return errors.Is(a.err, syscall.ECONNREFUSED) }},
		{"truncate", Fault{Kind: Truncate}, 1, func(a answer) bool {
			return a.err == io.ErrUnexpectedEOF && a.text == whole[:len(whole)/2]
		}},
		{"truncate early", Fault{Kind: Truncate, After: 5}, 1, func(a answer) bool { return a.err == io.ErrUnexpectedEOF && a.text == whole[:5] }},
		{"truncate beyond the end", Fault{Kind: Truncate, After: 5000}, 1, func(a answer) bool {
			return a.err == io.ErrUnexpectedEOF && a.text == whole[:len(whole)/2]
		}},
		{"malformed", Fault{Kind: Malformed}, 1, func(a answer) bool {
			return a.err == nil && len(a.text) == len(whole) && !json.Valid([]byte(a.text)) && a.text[:20] == whole[:20]
		}},
		{"drip", Fault{Kind: Drip, Delay: time.Second, After: len(whole)/2 - 1}, 1, func(a answer) bool {
			pieces := math.Ceil(float64(len(whole)/2+1)/piece) + 1 // one more to see the end
			return a.fine() && a.took == time.Duration(pieces)*time.Second
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t)
				tt.fault.Share = 1
				r.inject(tt.fault, MaxTTL)
				var told []Kind
				ctx := Watch(t.Context(), func(k Kind) { told = append(told, k) })
				if a := r.call(ctx); !tt.check(a) {
					t.Errorf("status %d, error %v, after %v, %q", a.status, a.err, a.took, a.text)
				}
				if len(told) != 1 || told[0] != tt.fault.Kind {
					t.Errorf("who watches was told %v", told)
				}
				report := r.Report()
				if report.Struck[tt.fault.Kind] != 1 || report.Total() != 1 || report.Seen != 1 || report.Held != 0 {
					t.Errorf("counted as %+v", report)
				}
				if r.to.calls.Load() != tt.upstream || r.to.open.Load() != 0 {
					t.Errorf("%d calls upstream, want %d; %d answers left open", r.to.calls.Load(), tt.upstream, r.to.open.Load())
				}
			})
		})
	}
}

// A stream announces no length. Its beginning comes through, its end does not.
func TestStreamsAreSpoilt(t *testing.T) {
	for _, f := range []Fault{
		{Kind: Truncate, Share: 1}, {Kind: Truncate, Share: 1, After: 20}, {Kind: Malformed, Share: 1}, {Kind: Malformed, Share: 1, After: 20},
	} {
		r := newRig(t)
		r.to.unknown = true
		r.to.text = strings.Repeat("data: {\"text\":\"some\"}\n\n", 4) + "data: [DONE]\n\n"
		r.inject(f, MaxTTL)
		a := r.call(t.Context())
		first := max(f.After, firstPiece)
		if len(a.text) < first || a.text[:first] != r.to.text[:first] || a.text == r.to.text {
			t.Errorf("%+v: %q", f, a.text)
		}
		if cut := a.err == io.ErrUnexpectedEOF; cut != (f.Kind == Truncate) {
			t.Errorf("%+v: error %v", f, a.err)
		}
	}
}

// An answer that ends before the fault would begin was not befallen, and is not
// counted.
func TestShortStreamsAreNotCounted(t *testing.T) {
	for _, kind := range []Kind{Truncate, Malformed, Drip} {
		r := newRig(t)
		r.to.unknown = true
		f := Fault{Kind: kind, Share: 1, After: 10 * len(whole)}
		if kind == Drip {
			f.Delay = time.Hour / 60
		}
		l := r.inject(f, MaxTTL)
		if a := r.call(t.Context()); !a.fine() {
			t.Errorf("%s: %+v", kind, a)
		}
		if r.Report().Total() != 0 || l.Struck() != 0 || r.Report().Seen != 1 {
			t.Errorf("%s: counted as %+v", kind, r.Report())
		}
	}
}

func TestHangEndsWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.inject(Fault{Kind: Hang, Share: 1}, MaxTTL)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 7*time.Second, errLeft)
		defer cancel()
		a := r.call(ctx)
		if !errors.Is(a.err, errLeft) || a.took != 7*time.Second || r.to.calls.Load() != 0 || r.Report().Held != 0 {
			t.Errorf("%+v; %+v", a, r.Report())
		}
	})
}

func TestJitterStaysWithinItsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		least, most := time.Hour, time.Duration(0)
		for range 200 {
			l := r.inject(Fault{Kind: Latency, Share: 1, Delay: 4 * time.Second, Jitter: time.Second}, MaxTTL)
			a := r.call(t.Context())
			least, most = min(least, a.took), max(most, a.took)
			if _, err := l.Clear(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if least < 3*time.Second || most > 5*time.Second || least > 3100*time.Millisecond || most < 4900*time.Millisecond {
			t.Errorf("from %v to %v, want nearly 3s to 5s", least, most)
		}
	})
}

func TestCheckSaysWhatWouldBeRight(t *testing.T) {
	for _, tt := range []struct {
		want  string
		fault Fault
	}{
		{"want one of [latency", Fault{Kind: "slow"}},
		{"share: 2, want 0 to 1", Fault{Kind: Hang, Share: 2}},
		{"share: NaN", Fault{Kind: Hang, Share: math.NaN()}},
		{"share: -0.1", Fault{Kind: Hang, Share: -0.1}},
		{"latency needs one above 0s", Fault{Kind: Latency}},
		{"drip needs one above 0s", Fault{Kind: Drip}},
		{"delay: -1s, want 0s to 10m0s", Fault{Kind: Latency, Delay: -time.Second}},
		{"delay: hang has none", Fault{Kind: Hang, Delay: time.Second}},
		{"jitter: 2s, want 0s to the delay, 1s", Fault{Kind: Latency, Delay: time.Second, Jitter: 2 * time.Second}},
		{"code: 200, want 400 to 599", Fault{Kind: Status, Code: 200}},
		{"code: hang has none", Fault{Kind: Hang, Code: 500}},
		{"after: -1", Fault{Kind: Truncate, After: -1}},
		{"after: hang has none", Fault{Kind: Hang, After: 1}},
	} {
		if err := tt.fault.Check(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.fault, err, tt.want)
		}
		if l, err := New(http.DefaultTransport, 0).Inject(tt.fault, Scope{}, time.Second); err == nil {
			t.Errorf("%+v was injected: %v", tt.fault, l)
		}
	}
}
