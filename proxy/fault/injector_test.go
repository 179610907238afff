package fault

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// A runner that dies renews nothing: the fault ends where it works, for calls to
// come and for those that it holds, with nobody calling anything.
func TestLeaseEndsByItself(t *testing.T) {
	for _, f := range []Fault{{Kind: Hang, Share: 1}, {Kind: Latency, Share: 1, Delay: time.Minute}, {Kind: Drip, Share: 1, Delay: time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			r := newTestInjector(t)
			l := r.inject(f, 5*time.Second)
			if a := r.call(t.Context()); !a.intact() || a.took != 5*time.Second {
				t.Errorf("%s: held call: %+v", f.Kind, a)
			}
			if a := r.call(t.Context()); !a.intact() || a.took != 0 {
				t.Errorf("%s: next call: %+v", f.Kind, a)
			}
			if err := l.Renew(time.Second); !errors.Is(err, ErrLeaseExpired) {
				t.Errorf("%s: renewed after its end: %v", f.Kind, err)
			}
			if a := r.call(t.Context()); !a.intact() || a.took != 0 {
				t.Errorf("%s: after the late renewal: %+v", f.Kind, a)
			}
			if got := r.Report(); got.Active != 0 || got.Stalled != 0 || l.Active() {
				t.Errorf("%s: %+v", f.Kind, got)
			}
		})
	}
}

func TestRenewExtendsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestInjector(t)
		l := r.inject(Fault{Kind: Hang, Share: 1}, 5*time.Second)
		held := r.start(t.Context())
		for range 10 {
			time.Sleep(4 * time.Second)
			if err := l.Renew(5 * time.Second); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			if got := r.Report(); got.Stalled != 1 || got.Active != 1 {
				t.Fatalf("%+v, want one call held", got)
			}
		}
		if a := <-held; !a.intact() || a.took != 45*time.Second {
			t.Errorf("%+v, want it let go 5s after the last renewal", a)
		}
	})
}

// What is held is let go at once, and the next call has normal latency.
func TestClearReleasesStalledCalls(t *testing.T) {
	for _, f := range []Fault{{Kind: Hang, Share: 1}, {Kind: Latency, Share: 1, Delay: time.Minute}, {Kind: Drip, Share: 1, Delay: time.Minute}} {
		synctest.Test(t, func(t *testing.T) {
			r := newTestInjector(t)
			r.inject(f, MaxTTL)
			var held []<-chan answer
			for range 20 {
				held = append(held, r.start(t.Context()))
			}
			time.Sleep(3 * time.Second)
			synctest.Wait()
			if got := r.Report().Stalled; got != 20 {
				t.Fatalf("%s: %d held, want 20", f.Kind, got)
			}
			got := r.clear()
			if got.ClearTime != 0 || got.Stalled != 0 || got.Released != 20 || got.Active != 0 || got.Hits[f.Kind] != 20 {
				t.Errorf("%s: %+v", f.Kind, got)
			}
			for _, c := range held {
				if a := <-c; !a.intact() || a.took != 3*time.Second {
					t.Errorf("%s: %+v", f.Kind, a)
				}
			}
			if a := r.call(t.Context()); !a.intact() || a.took != 0 {
				t.Errorf("%s: the next call: %+v", f.Kind, a)
			}
		})
	}
}

// A call that was chosen before the clear, and would be befallen after it, is not.
func TestClearedFaultDoesNothingLater(t *testing.T) {
	for _, kind := range []Kind{Truncate, Malformed, Drip} {
		r := newTestInjector(t)
		f := Fault{Kind: kind, Share: 1}
		if kind == Drip {
			f.Delay = time.Minute
		}
		r.inject(f, MaxTTL)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://endpoint/", nil)
		if err != nil {
			t.Fatal(err)
		}
		res, err := r.RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		r.clear()
		var text [len(fullAnswer)]byte
		n := 0
		for n < len(text) && err == nil {
			var m int
			m, err = res.Body.Read(text[n:])
			n += m
		}
		if string(text[:n]) != fullAnswer || err != nil {
			t.Errorf("%s: %q, %v", kind, text[:n], err)
		}
		_ = res.Body.Close()
	}
}

func TestClearOfOneLeavesTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newTestInjector(t)
		hang := r.inject(Fault{Kind: Hang, Share: 0.5}, MaxTTL)
		r.inject(Fault{Kind: Status, Code: 500, Share: 0.5}, MaxTTL)
		if _, err := hang.Clear(t.Context()); err != nil {
			t.Fatal(err)
		}
		failed := 0
		for range 100 {
			if a := r.call(t.Context()); a.status == 500 {
				failed++
			} else if !a.intact() || a.took != 0 {
				t.Fatalf("%+v", a)
			}
		}
		if failed < 45 || failed > 55 {
			t.Errorf("%d of 100 failed, want about 50", failed)
		}
	})
}

// A clear that cannot be confirmed says so, and does not wait for ever.
func TestClearIsBounded(t *testing.T) {
	r := newTestInjector(t)
	l := r.inject(Fault{Kind: Hang, Share: 1}, MaxTTL)
	if !l.addStalled() { // a call that does not notice
		t.Fatal("the lease does not stand")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCallerGone)
	got, err := r.Clear(ctx)
	if !errors.Is(err, errCallerGone) || got.Stalled != 1 || got.Active != 0 {
		t.Errorf("%+v, %v", got, err)
	}
	l.removeStalled()
	if got := r.clear(); got.Stalled != 0 {
		t.Errorf("%+v", got)
	}
}

func TestZeroShareHasNoEffect(t *testing.T) {
	r := newTestInjector(t)
	for _, k := range Kinds() {
		f := Fault{Kind: k}
		switch k {
		case Latency, Drip:
			f.Delay = time.Minute
		case Status:
			f.Code = 500
		}
		r.inject(f, MaxTTL)
	}
	if active := r.active.Load(); len(*active) > 0 {
		t.Error("calls are checked against faults of share 0")
	}
	for range 100 {
		if a := r.call(t.Context()); !a.intact() {
			t.Fatalf("%+v", a)
		}
	}
	if got := r.Report(); got.TotalHits() != 0 || got.Eligible != 0 || got.Active != len(Kinds()) {
		t.Errorf("%+v", got)
	}
}

// The share holds for few calls as for many, and for each of several faults.
func TestShareIsEven(t *testing.T) {
	for seed := range uint64(20) {
		for _, n := range []int{50, 500} {
			r := &testInjector{TB: t, endpoint: &fakeEndpoint{text: fullAnswer}}
			r.Injector = New(r.endpoint, seed)
			tenth := r.inject(Fault{Kind: Status, Code: 500, Share: 0.1}, MaxTTL)
			third := r.inject(Fault{Kind: Reset, Share: 1.0 / 3}, MaxTTL)
			rest := r.inject(Fault{Kind: Refuse, Share: 1 - 0.1 - 1.0/3}, MaxTTL)
			for range n {
				if a := r.call(t.Context()); a.intact() {
					t.Fatal("a call was spared, though the shares are 1 together")
				}
			}
			for l, share := range map[*Lease]float64{tenth: 0.1, third: 1.0 / 3, rest: 1 - 0.1 - 1.0/3} {
				if off := float64(l.Hits()) - share*float64(n); off < -3 || off > 3 {
					t.Errorf("seed %d: %d of %d for a share of %.2f", seed, l.Hits(), n, share)
				}
			}
		}
	}
}

func TestScope(t *testing.T) {
	r := newTestInjector(t)
	marked := Scope{Match: func(r *http.Request) bool { return r.Header.Get("Marked") != "" }, MaxHits: 3}
	l, err := r.Inject(Fault{Kind: Reset, Share: 1}, marked, MaxTTL)
	if err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if a := r.call(t.Context()); !a.intact() {
			t.Fatalf("an unmarked call: %+v", a)
		}
	}
	if got := r.Report(); got.Eligible != 0 {
		t.Errorf("%+v: nobody was marked", got)
	}
	failed := 0
	for range 10 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://endpoint/", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Marked", "yes")
		res, err := r.RoundTrip(req)
		if err != nil {
			failed++
			continue
		}
		_ = res.Body.Close()
	}
	if failed != 3 || l.Hits() != 3 {
		t.Errorf("%d failed, %d struck, want the 3 allowed", failed, l.Hits())
	}
}

func TestInjectRefuses(t *testing.T) {
	r := newTestInjector(t)
	fine := Fault{Kind: Reset, Share: 0.7}
	for _, ttl := range []time.Duration{0, -1, MaxTTL + 1} {
		if _, err := r.Inject(fine, Scope{}, ttl); err == nil {
			t.Errorf("ttl %v was taken", ttl)
		}
	}
	if _, err := r.Inject(fine, Scope{MaxHits: -1}, MaxTTL); err == nil {
		t.Error("fewer than no calls were taken")
	}
	l := r.inject(fine, MaxTTL)
	if _, err := r.Inject(fine, Scope{}, MaxTTL); !errors.Is(err, ErrShareExceeded) {
		t.Errorf("shares of 1.4: %v", err)
	}
	if err := l.Renew(MaxTTL + 1); err == nil || errors.Is(err, ErrLeaseExpired) {
		t.Errorf("renewed for too long: %v", err)
	}
	r.clear()
	for range maxLeases {
		r.inject(Fault{Kind: Hang}, MaxTTL)
	}
	if _, err := r.Inject(fine, Scope{}, MaxTTL); err == nil {
		t.Error("no bound on faults")
	}
}

// Faults come and go under traffic. Nothing hangs, every answer is whole or fails,
// and once all is cleared all is well.
func TestStorm(t *testing.T) {
	r := newTestInjector(t)
	faults := []Fault{
		{Kind: Latency, Delay: time.Millisecond, Jitter: time.Millisecond}, {Kind: Hang}, {Kind: Status, Code: 500}, {Kind: Reset},
		{Kind: Refuse}, {Kind: Truncate}, {Kind: Malformed}, {Kind: Drip, Delay: time.Millisecond},
	}
	var stop atomic.Bool
	var calls, wrong atomic.Int64
	var traffic sync.WaitGroup
	for range 16 {
		traffic.Go(func() {
			for !stop.Load() {
				a := r.call(context.Background())
				calls.Add(1)
				if a.err == nil && a.status == 200 && len(a.text) != len(fullAnswer) {
					wrong.Add(1)
				}
			}
		})
	}
	var meddling sync.WaitGroup
	for n := range 4 {
		meddling.Go(func() {
			for round := range 16 {
				f := faults[(n+round)%len(faults)]
				f.Share = 0.25
				l, err := r.Inject(f, Scope{}, time.Second)
				if err != nil {
					continue // the others' shares
				}
				// A hang that holds everybody would keep the count from rising.
				for before := calls.Load(); l.Active() && (l.Hits() == 0 || f.Kind != Hang && calls.Load() < before+20); {
					_ = l.Renew(time.Second)
					runtime.Gosched()
				}
				if round%2 == 0 {
					_, err = l.Clear(context.Background())
				} else {
					_, err = r.Clear(context.Background())
				}
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	meddling.Wait()
	stop.Store(true)
	got := r.clear()
	traffic.Wait()
	if got.Stalled != 0 || got.Active != 0 || wrong.Load() > 0 {
		t.Errorf("%+v; %d answers cut without an error", got, wrong.Load())
	}
	if a := r.call(t.Context()); !a.intact() || r.endpoint.open.Load() != 0 {
		t.Errorf("afterwards: %+v, %d answers left open", a, r.endpoint.open.Load())
	}
	// Any one kind may have been cleared by the others each time before its turn.
	if len(got.Hits) < len(faults)/2 {
		t.Errorf("hardly anything befell anybody: %v", got.Hits)
	}
}

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
		{"delay: does not apply to hang", Fault{Kind: Hang, Delay: time.Second}},
		{"jitter: 2s, want 0s to the delay, 1s", Fault{Kind: Latency, Delay: time.Second, Jitter: 2 * time.Second}},
		{"code: 200, want 400 to 599", Fault{Kind: Status, Code: 200}},
		{"code: does not apply to hang", Fault{Kind: Hang, Code: 500}},
		{"after: -1", Fault{Kind: Truncate, AfterBytes: -1}},
		{"after: does not apply to hang", Fault{Kind: Hang, AfterBytes: 1}},
	} {
		if err := tt.fault.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %q", tt.fault, err, tt.want)
		}
		if l, err := New(http.DefaultTransport, 0).Inject(tt.fault, Scope{}, time.Second); err == nil {
			t.Errorf("%+v was injected: %v", tt.fault, l)
		}
	}
}
