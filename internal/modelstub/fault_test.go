package modelstub

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParseFault(t *testing.T) {
	tests := []struct {
		in   string
		want Fault
	}{
		{"status=500", Fault{Kind: KindStatus, Status: 500}},
		{"status=429;retry_after=7", Fault{Kind: KindStatus, Status: 429, RetryAfter: "7"}},
		{"retry_after=0.5; status=429", Fault{Kind: KindStatus, Status: 429, RetryAfter: "0.5"}},
		{"hang", Fault{Kind: KindHang}},
		{"hang_after=3", Fault{Kind: KindHangAfter, After: 3}},
		{"reset", Fault{Kind: KindReset}},
		{"reset_after=0", Fault{Kind: KindResetAfter}},
		{"truncate=2", Fault{Kind: KindTruncate, After: 2}},
		{"truncate=half", Fault{Kind: KindTruncate, After: 1}},
		{"truncate=half;length=wrong", Fault{Kind: KindTruncate, After: 1, WrongLength: true}},
		{"drip=10ms", Fault{Kind: KindDrip, Delay: 10 * time.Millisecond}},
		{"malformed", Fault{Kind: KindMalformed, After: 1}},
		{"error_event=4", Fault{Kind: KindErrorEvent, After: 4}},
		{"silence=20s", Fault{Kind: KindSilence, Delay: 20 * time.Second}},
		{"silence=20s;after=3", Fault{Kind: KindSilence, Delay: 20 * time.Second, After: 3}},
		{"latency=2s", Fault{Latency: 2 * time.Second}},
		{"latency=2s;status=503;share=0.25", Fault{Kind: KindStatus, Status: 503, Latency: 2 * time.Second, Share: 0.25}},
	}
	for _, tt := range tests {
		got, err := ParseFault(tt.in)
		if err != nil || got != tt.want {
			t.Errorf("ParseFault(%q) = %+v, %v: want %+v", tt.in, got, err, tt.want)
		}
	}
}

func TestParseFaultRefuses(t *testing.T) {
	tests := []struct{ in, want string }{
		{"", `unknown part "": want status=500`},
		{"explode", `unknown part "explode"`},
		{"status=200", "want 400 to 599"},
		{"status=many", "want 400 to 599"},
		{"status=500;hang", "status and hang cannot be combined"},
		{"status=500;status=501", `"status" is given twice`},
		{"status=429;retry_after=\n", "want seconds or a date"},
		{"status=429;retry_after=", "want seconds or a date"},
		{"hang=3", "did you mean hang_after=3?"},
		{"hang;retry_after=7", "retry_after goes only with status"},
		{"reset;length=wrong", "length goes only with truncate"},
		{"hang_after=3;after=4", "after goes only with silence"},
		{"truncate=3;length=long", "want wrong"},
		{"reset_after=-1", "want a number of chunks"},
		{"reset_after=half", "want a number of chunks"},
		{"drip=0s", "drip: want a duration above 0s"},
		{"drip=fast", "want a number with a unit"},
		{"silence=11m", "want 0s to 10m"},
		{"latency=1h", "want 0s to 10m"},
		{"hang;share=0", "above 0 and at most 1"},
		{"hang;share=NaN", "above 0 and at most 1"},
	}
	for _, tt := range tests {
		_, err := ParseFault(tt.in)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("ParseFault(%q): error %v, want one that says %q", tt.in, err, tt.want)
		}
	}
}

func TestFaultValidateNamesTheField(t *testing.T) {
	tests := []struct {
		fault Fault
		want  string
	}{
		{Fault{Share: math.NaN()}, "share"},
		{Fault{Share: 1.5}, "share"},
		{Fault{After: -1}, "after"},
		{Fault{Delay: -1}, "delay"},
		{Fault{Latency: MaxFaultDelay + 1}, "latency"},
		{Fault{Kind: KindStatus}, "status"},
		{Fault{Kind: KindSilence}, "silence"},
		{Fault{Kind: "explode"}, "explode"},
	}
	for _, tt := range tests {
		if err := tt.fault.Validate(); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: error %v, want one that names %s", tt.fault, err, tt.want)
		}
	}
}

func FuzzParseFault(f *testing.F) {
	for _, s := range []string{"status=429;retry_after=7", "truncate=half;length=wrong", "silence=1s;after=3", "latency=2s;hang;share=0.5", ";;=", "drip=1ms"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, in string) {
		fault, err := ParseFault(in)
		if err != nil {
			return
		}
		if err := fault.Validate(); err != nil {
			t.Fatalf("%q reads as a fault that is not valid: %v", in, err)
		}
		if fault == (Fault{}) {
			return // latency=0s asks for nothing, which has no text form
		}
		again, err := ParseFault(fault.String())
		if err != nil || again != fault {
			t.Fatalf("%q reads as %q, which reads back as %+v, %v", in, fault, again, err)
		}
	})
}
