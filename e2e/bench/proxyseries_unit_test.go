package bench

import (
	"math"
	"os"
	"slices"
	"testing"
	"time"
)

func TestSeries(t *testing.T) {
	s := series{4, 1, 3}
	if got := s.median(); got != 3 {
		t.Errorf("median %v, want 3", got)
	}
	if got := (series{4, 1, 3, 2}).median(); got != 2.5 {
		t.Errorf("median of an even number %v, want 2.5", got)
	}
	if got := (series{}).median(); !math.IsNaN(got) {
		t.Errorf("median of nothing %v, want NaN", got)
	}
	if got, want := s.spread("%.1f"), "3.0 (1.0 .. 4.0)"; got != want {
		t.Errorf("spread %q, want %q", got, want)
	}
	if got, want := s.against(series{2, 2, 2, 9}, quotient), (series{2, 0.5, 1.5}); !slices.Equal(got, want) {
		t.Errorf("ratios %v, want %v", got, want)
	}
	if got, want := s.against(series{2, 2}, difference), (series{2, -1}); !slices.Equal(got, want) {
		t.Errorf("differences %v, want %v", got, want)
	}
}

// TestCPUTime spends processor time until the account shows it.
func TestCPUTime(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		if got := cpuTime(os.Getpid()); got != 0 {
			t.Errorf("%v without an account of it, want 0", got)
		}
		return
	}
	before := cpuTime(os.Getpid())
	for end := time.Now().Add(30 * time.Second); cpuTime(os.Getpid()) < before+50*time.Millisecond; {
		if time.Now().After(end) {
			t.Fatalf("30 s of work, and the account went from %v to %v", before, cpuTime(os.Getpid()))
		}
	}
}
