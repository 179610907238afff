package modelstub

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

func samples(t *testing.T, s Service, n int) []time.Duration {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 2))
	out := make([]time.Duration, n)
	for i := range out {
		timing := s.Sample(r, 1000, 100)
		if timing.FirstByte < 0 || timing.FirstByte > timing.Total || timing.Total > MaxService {
			t.Fatalf("%v drew %+v: want 0 <= FirstByte <= Total <= %v", s, timing, MaxService)
		}
		out[i] = timing.Total
	}
	slices.Sort(out)
	return out
}

func wantWithin(t *testing.T, what string, got, want time.Duration, tolerance float64) {
	t.Helper()
	if math.Abs(float64(got-want)) > tolerance*float64(want) {
		t.Errorf("%s: got %v, want %v within %.1f %%", what, got, want, 100*tolerance)
	}
}

func TestDistributions(t *testing.T) {
	tests := []struct {
		service                      string
		mean, low, p10, median, high time.Duration
	}{
		{"fixed:10s", 10 * time.Second, 10 * time.Second, 10 * time.Second, 10 * time.Second, 10 * time.Second},
		{"uniform:5s-30s", 17500 * time.Millisecond, 5 * time.Second, 7500 * time.Millisecond, 17500 * time.Millisecond, 30 * time.Second},
		{"lognormal:10s,0.6", 11972 * time.Millisecond, 0, 4635 * time.Millisecond, 10 * time.Second, MaxService},
		// 0.7 × 5.5 s + 0.3 × 30 s; the median sits at 5/7 of the first range.
		{"bimodal:0.7,3s-8s,20s-40s", 12850 * time.Millisecond, 3 * time.Second, 3714 * time.Millisecond, 6571 * time.Millisecond, 40 * time.Second},
		{"tokens:4000,50", 2280 * time.Millisecond, 2280 * time.Millisecond, 2280 * time.Millisecond, 2280 * time.Millisecond, 2280 * time.Millisecond},
		{"tokens:4000,50,0.5", 2280 * time.Millisecond, 1155 * time.Millisecond, 1456 * time.Millisecond, 2280 * time.Millisecond, 3405 * time.Millisecond},
	}
	for _, tt := range tests {
		t.Run(tt.service, func(t *testing.T) {
			s, err := ParseService(tt.service)
			if err != nil {
				t.Fatal(err)
			}
			d := samples(t, s, 50_000)
			var sum float64
			for _, v := range d {
				sum += float64(v)
			}
			wantWithin(t, "mean of draws", time.Duration(sum/float64(len(d))), tt.mean, 0.02)
			wantWithin(t, "Mean", s.Mean(1000, 100), tt.mean, 0.001)
			wantWithin(t, "p10", d[len(d)/10], tt.p10, 0.02)
			wantWithin(t, "median", d[len(d)/2], tt.median, 0.02)
			if d[0] < tt.low || d[len(d)-1] > tt.high {
				t.Errorf("draws lie in %v..%v, want %v..%v", d[0], d[len(d)-1], tt.low, tt.high)
			}
		})
	}
}

func TestTokensFirstByteIsOverheadPlusPrefill(t *testing.T) {
	got := Tokens{Prefill: 4000, Decode: 50}.Sample(nil, 1000, 100)
	want := Timing{FirstByte: 280 * time.Millisecond, Total: 2280 * time.Millisecond}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestSampleNeverLeavesBounds(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	for _, s := range []Service{
		Fixed(-time.Second),
		Uniform{Low: 10 * time.Second, High: -30 * time.Second},
		Lognormal{Median: MaxService, Sigma: 5},
		Tokens{},
		Tokens{Prefill: 1e-300, Decode: 1e-300, Jitter: 1},
	} {
		for range 1000 {
			got := s.Sample(r, 1<<40, -1)
			if got.FirstByte < 0 || got.FirstByte > got.Total || got.Total > MaxService {
				t.Fatalf("%v drew %+v", s, got)
			}
		}
	}
}

func TestParseServiceRefuses(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", "want one of uniform:5s-30s"},
		{"uniform", "want one of uniform:5s-30s"},
		{"gaussian:1s", `unknown distribution "gaussian"`},
		{"uniform:", "want two durations joined by a dash"},
		{"uniform:5-30", "want a duration with a unit"},
		{"uniform:30s-5s", "the lower end comes first, as in 5s-30s"},
		{"uniform:5s-30s,1", "want one range"},
		{"uniform:-5s-30s", "want a duration with a unit"},
		{"fixed:-1s", "from 0s to 24h"},
		{"fixed:25h", "from 0s to 24h"},
		{"fixed:1s,2s", "want one duration"},
		{"lognormal:10s", "want a median and a sigma"},
		{"lognormal:10s,NaN", "sigma: \"NaN\": want a number from 0 to 5"},
		{"lognormal:10s,+Inf", "sigma"},
		{"lognormal:x,1", "median: "},
		{"bimodal:0.7,3s-8s", "want a share and two ranges"},
		{"bimodal:7,3s-8s,20s-40s", "share of the first range: \"7\": want a number from 0 to 1"},
		{"bimodal:0.7,8s-3s,20s-40s", "first range"},
		{"bimodal:0.7,3s-8s,20s", "second range"},
		{"tokens:4000", "want prefill and decode"},
		{"tokens:0,66", "prefill in tokens per second"},
		{"tokens:4000,-1", "decode in tokens per second"},
		{"tokens:4000,66,2", "jitter: \"2\": want a number from 0 to 1"},
	}
	for _, tt := range tests {
		s, err := ParseService(tt.in)
		if err == nil || s != nil {
			t.Errorf("ParseService(%q) = %v, %v: want no service and an error", tt.in, s, err)
			continue
		}
		if !strings.Contains(err.Error(), tt.want) {
			t.Errorf("ParseService(%q): error %q does not say %q", tt.in, err, tt.want)
		}
	}
}

func FuzzParseService(f *testing.F) {
	for _, s := range []string{
		"uniform:5s-30s", "lognormal:10s,0.6", "fixed:10s", "bimodal:0.7,3s-8s,20s-40s",
		"tokens:4000,66", "tokens:4000,66,0.1", " fixed: 1s ", "uniform:--", "lognormal:1s,1e309",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		s, err := ParseService(in)
		if (err == nil) == (s == nil) {
			t.Fatalf("ParseService(%q) = %v, %v: want exactly one of them", in, s, err)
		}
		if err != nil {
			return
		}
		again, err := ParseService(s.String())
		if err != nil || again != s {
			t.Fatalf("%q reads as %v, which reads back as %v, %v", in, s, again, err)
		}
		got := s.Sample(rand.New(rand.NewPCG(1, 1)), 100, 10)
		if got.FirstByte < 0 || got.FirstByte > got.Total || got.Total > MaxService {
			t.Fatalf("%v drew %+v", s, got)
		}
	})
}

func TestServiceBounds(t *testing.T) {
	for text, want := range map[string][2]time.Duration{
		"fixed:3s": {3 * time.Second, 3 * time.Second}, "uniform:5s-30s": {5 * time.Second, 30 * time.Second},
		"bimodal:0.7,3s-8s,20s-40s": {3 * time.Second, 40 * time.Second}, "lognormal:10s,0.6": {},
	} {
		s, err := ParseService(text)
		if err != nil {
			t.Fatal(err)
		}
		if least, most := ServiceBounds(s); least != want[0] || most != want[1] {
			t.Errorf("%s: %v to %v", text, least, most)
		}
	}
}
