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

func TestEachKind(t *testing.T) {
	tests := []struct {
		name     string
		fault    Fault
		upstream int64
		check    func(a answer) bool
	}{
		{"latency", Fault{Kind: Latency, Delay: 3 * time.Second}, 1, func(a answer) bool { return a.intact() && a.took == 3*time.Second }},
		{"status", Fault{Kind: Status, Code: 503}, 0, func(a answer) bool { return a.status == 503 && json.Valid([]byte(a.text)) && a.took == 0 }},
		{"reset", Fault{Kind: Reset}, 0, func(a answer) bool { return errors.Is(a.err, syscall.ECONNRESET) }},
		{"refuse", Fault{Kind: Refuse}, 0, func(a answer) bool { return errors.Is(a.err, syscall.ECONNREFUSED) }},
		{"truncate", Fault{Kind: Truncate}, 1, func(a answer) bool {
			return a.err == io.ErrUnexpectedEOF && a.text == fullAnswer[:len(fullAnswer)/2]
		}},
		{"truncate early", Fault{Kind: Truncate, AfterBytes: 5}, 1, func(a answer) bool { return a.err == io.ErrUnexpectedEOF && a.text == fullAnswer[:5] }},
		{"truncate beyond the end", Fault{Kind: Truncate, AfterBytes: 5000}, 1, func(a answer) bool {
			return a.err == io.ErrUnexpectedEOF && a.text == fullAnswer[:len(fullAnswer)/2]
		}},
		{"malformed", Fault{Kind: Malformed}, 1, func(a answer) bool {
			return a.err == nil && len(a.text) == len(fullAnswer) && !json.Valid([]byte(a.text)) && a.text[:20] == fullAnswer[:20]
		}},
		{"drip", Fault{Kind: Drip, Delay: time.Second, AfterBytes: len(fullAnswer)/2 - 1}, 1, func(a answer) bool {
			pieces := math.Ceil(float64(len(fullAnswer)/2+1)/dripBytes) + 1 // one more to see the end
			return a.intact() && a.took == time.Duration(pieces)*time.Second
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newTestInjector(t)
				tt.fault.Share = 1
				r.inject(tt.fault, MaxTTL)
				var told []Kind
				ctx := WithHitFunc(t.Context(), func(k Kind) { told = append(told, k) })
				if a := r.call(ctx); !tt.check(a) {
					t.Errorf("status %d, error %v, after %v, %q", a.status, a.err, a.took, a.text)
				}
				if len(told) != 1 || told[0] != tt.fault.Kind {
					t.Errorf("who watches was told %v", told)
				}
				report := r.Report()
				if report.Hits[tt.fault.Kind] != 1 || report.TotalHits() != 1 || report.Eligible != 1 || report.Stalled != 0 {
					t.Errorf("counted as %+v", report)
				}
				if r.endpoint.calls.Load() != tt.upstream || r.endpoint.open.Load() != 0 {
					t.Errorf("%d calls upstream, want %d; %d answers left open", r.endpoint.calls.Load(), tt.upstream, r.endpoint.open.Load())
				}
			})
		})
	}
}

// A stream announces no length. Its beginning comes through, its end does not.
func TestFaultsAlterStreams(t *testing.T) {
	for _, f := range []Fault{
		{Kind: Truncate, Share: 1}, {Kind: Truncate, Share: 1, AfterBytes: 20}, {Kind: Malformed, Share: 1}, {Kind: Malformed, Share: 1, AfterBytes: 20},
	} {
		r := newTestInjector(t)
		r.endpoint.unknown = true
		r.endpoint.text = strings.Repeat("data: {\"text\":\"some\"}\n\n", 4) + "data: [DONE]\n\n"
		r.inject(f, MaxTTL)
		a := r.call(t.Context())
		first := max(f.AfterBytes, firstPieceBytes)
		if len(a.text) < first || a.text[:first] != r.endpoint.text[:first] || a.text == r.endpoint.text {
			t.Errorf("%+v: %q", f, a.text)
		}
		if cut := a.err == io.ErrUnexpectedEOF; cut != (f.Kind == Truncate) {
			t.Errorf("%+v: error %v", f, a.err)
		}
	}
}

// An answer that ends before the fault would begin was not befallen, and is not
// counted.
func TestShortStreamsAreNoHits(t *testing.T) {
	for _, kind := range []Kind{Truncate, Malformed, Drip} {
		r := newTestInjector(t)
		r.endpoint.unknown = true
		f := Fault{Kind: kind, Share: 1, AfterBytes: 10 * len(fullAnswer)}
		if kind == Drip {
			f.Delay = time.Hour / 60
		}
		l := r.inject(f, MaxTTL)
		if a := r.call(t.Context()); !a.intact() {
			t.Errorf("%s: %+v", kind, a)
		}
		if r.Report().TotalHits() != 0 || l.Hits() != 0 || r.Report().Eligible != 1 {
			t.Errorf("%s: counted as %+v", kind, r.Report())
		}
	}
}

func TestHangEndsWithTheCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestInjector(t)
		r.inject(Fault{Kind: Hang, Share: 1}, MaxTTL)
		ctx, cancel := context.WithTimeoutCause(t.Context(), 7*time.Second, errCallerGone)
		defer cancel()
		a := r.call(ctx)
		if !errors.Is(a.err, errCallerGone) || a.took != 7*time.Second || r.endpoint.calls.Load() != 0 || r.Report().Stalled != 0 {
			t.Errorf("%+v; %+v", a, r.Report())
		}
	})
}

func TestJitterStaysWithinItsBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestInjector(t)
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

func TestValidateNamesValidValues(t *testing.T) {
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
		{"after: -1", Fault{Kind: Truncate, AfterBytes: -1}},
		{"after: hang has none", Fault{Kind: Hang, AfterBytes: 1}},
	} {
		if err := tt.fault.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.fault, err, tt.want)
		}
		if l, err := New(http.DefaultTransport, 0).Inject(tt.fault, Scope{}, time.Second); err == nil {
			t.Errorf("%+v was injected: %v", tt.fault, l)
		}
	}
}
