package config

import (
	"math"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"0s": 0, "25s": 25 * time.Second, "1m30s": 90 * time.Second, "500ms": 500 * time.Millisecond,
		"30d": 720 * time.Hour, "1d12h": 36 * time.Hour, "0d": 0, "-5s": -5 * time.Second, "1.5h": 90 * time.Minute,
		"106751d": 106751 * day,
	} {
		if got, err := parseDuration(text); err != nil || got != want {
			t.Errorf("%s: %v, %v; want %v", text, got, err, want)
		}
	}
	for text, want := range map[string]error{
		"": errDuration, "d": errDuration, "s": errDuration, "25 s": errDuration, "25sec": errDuration, "1w": errDuration,
		"-1d": errDuration, "1d-2h": errDuration, "1d+2h": errDuration, "1.5d": errDuration, "1d2d": errDuration, "1d5": errDuration,
		"30": errDurationUnit, "0": errDurationUnit, "-1": errDurationUnit, "2.5": errDurationUnit, "1e999": errDurationUnit,
		"106752d": errDurationLong, "99999999999999999999d": errDurationLong, "106751d24h": errDurationLong,
		"9999999h": errDuration, "NaN": errDurationUnit,
	} {
		if got, err := parseDuration(text); err != want || got != 0 {
			t.Errorf("%q: %v, %v; want %v", text, got, err, want)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"0s": 0, "60s": time.Minute, "120s": 2 * time.Minute, "5m": 5 * time.Minute, "4h": 4 * time.Hour, "1d": day, "30d": 30 * day,
		"25h": 25 * time.Hour, "1h0m5s": time.Hour + 5*time.Second, "10m30s": 630 * time.Second, "1h30m": 90 * time.Minute,
		"1.5s": 1500 * time.Millisecond, "250ms": 250 * time.Millisecond, "-5s": -5 * time.Second, "-10m": -10 * time.Minute,
	} {
		if got := formatDuration(d); got != want {
			t.Errorf("%v is written %s, want %s", d, got, want)
		}
	}
}

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0B": 0, "7B": 7, "1kB": 1000, "64MB": 64e6, "2GB": 2e9, "1KiB": 1024, "32MiB": 32 << 20, "1 GiB": 1 << 30, "3TiB": 3 << 40,
		"8388607TiB": 8388607 << 40,
	} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]error{
		"": errBytes, "B": errBytes, "MiB": errBytes, "-1B": errBytes, "1.5MiB": errBytes, "1KB": errBytes, "1mib": errBytes, "1 M": errBytes, "1  B": errBytes,
		"1024": errBytesUnit, "0": errBytesUnit, "1e3": errBytesUnit,
		"8388608TiB": errBytesBig, "9223372036854775808B": errBytesBig, "99999999999999999999GB": errBytesBig,
	} {
		if got, err := parseBytes(text); err != want || got != 0 {
			t.Errorf("%q: %d, %v; want %v", text, got, err, want)
		}
	}
}

func TestBytesString(t *testing.T) {
	for want, b := range map[string]Bytes{
		"0B": 0, "1B": 1, "1000B": 1000, "1KiB": 1024, "1025B": 1025, "32MiB": 32 << 20, "1536MiB": 3 << 29, "2GiB": 2 << 30, "1TiB": 1 << 40,
	} {
		if got := b.String(); got != want {
			t.Errorf("%d is written %s, want %s", int64(b), got, want)
		}
	}
}

func FuzzUnitsReadBack(f *testing.F) {
	for _, n := range []int64{0, 1, 1e9, 6e10, int64(day), 3<<40 + 1, math.MaxInt64} {
		f.Add(n, "30d12h")
	}
	f.Fuzz(func(t *testing.T, n int64, text string) {
		if d, err := parseDuration(formatDuration(time.Duration(n))); err != nil || d != time.Duration(n) {
			t.Errorf("duration %d is written %s, reads back as %d, %v", n, formatDuration(time.Duration(n)), d, err)
		}
		if n >= 0 {
			if b, err := parseBytes(Bytes(n).String()); err != nil || b != Bytes(n) {
				t.Errorf("size %d is written %s, reads back as %d, %v", n, Bytes(n), b, err)
			}
		}
		if d, err := parseDuration(text); err != nil && d != 0 {
			t.Errorf("%q gives %v beside an error", text, d)
		}
		if b, err := parseBytes(text); b < 0 || err != nil && b != 0 {
			t.Errorf("%q gives %d, %v", text, b, err)
		}
	})
}
