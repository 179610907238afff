package strictyaml

import (
	"math"
	"testing"
	"time"

	"headgate/internal/format"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "25s": 25 * time.Second, "1m30s": 90 * time.Second, "500ms": 500 * time.Millisecond,
		"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "0d": 0, "-5s": -5 * time.Second, "1.5h": 90 * time.Minute,
		"106751d": 106751 * day, "0": 0, "1w": 7 * day, "1y2w3d4h": 382*day + 4*time.Hour,
	} {
		if got, err := ParseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]error{
		"": errDuration, "d": errDuration, "s": errDuration, "25 s": errDuration, "25sec": errDuration, "1d1w": errDuration,
		"1.5w": errDuration,
		"-1d":  errDuration, "1d-2h": errDuration, "1d+2h": errDuration, "1.5d": errDuration, "1d2d": errDuration,
		"1d5": errDuration,
		"30":  errDurationUnit, "00": errDurationUnit, "-1": errDurationUnit, "2.5": errDurationUnit, "1e999": errDurationUnit,
		"106752d": errDurationLong, "293y": errDurationLong, "99999999999999999999d": errDurationLong,
		"106751d24h": errDurationLong,
		"9999999h":   errDuration, "NaN": errDurationUnit,
	} {
		if got, err := ParseDuration(text); err != want || got != 0 {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}

func FuzzDurationReadsBack(f *testing.F) {
	for _, n := range []int64{0, 1, 1e9, 6e10, int64(day), math.MaxInt64} {
		f.Add(n, "30d12h")
	}
	f.Fuzz(func(t *testing.T, n int64, text string) {
		if d, err := ParseDuration(format.Duration(time.Duration(n))); err != nil || d != time.Duration(n) {
			t.Errorf("duration %d is written %s, reads back as %d, %v", n, format.Duration(time.Duration(n)), d, err)
		}
		if d, err := ParseDuration(text); err != nil && d != 0 {
			t.Errorf("%q gives %v beside an error", text, d)
		}
	})
}
