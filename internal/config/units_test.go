package config

import (
	"math"
	"testing"
)

func TestParseBytes(t *testing.T) {
	for text, want := range map[string]Bytes{
		"0B": 0, "7B": 7, "1kB": 1000, "64MB": 64e6, "2GB": 2e9, "1KiB": 1024, "32MiB": 32 << 20, "1 GiB": 1 << 30,
		"3TiB":       3 << 40,
		"8388607TiB": 8388607 << 40,
	} {
		if got, err := parseBytes(text); err != nil || got != want {
			t.Errorf("%s: %d, %v; want %d", text, got, err, want)
		}
	}
	for text, want := range map[string]error{
		"": errBytes, "B": errBytes, "MiB": errBytes, "-1B": errBytes, "1.5MiB": errBytes, "1KB": errBytes, "1mib": errBytes,
		"1 M": errBytes, "1  B": errBytes,
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
		"0B": 0, "1B": 1, "1000B": 1000, "1KiB": 1024, "1025B": 1025, "32MiB": 32 << 20, "1536MiB": 3 << 29, "2GiB": 2 << 30,
		"1TiB": 1 << 40,
	} {
		if got := b.String(); got != want {
			t.Errorf("%d is written %s, want %s", int64(b), got, want)
		}
	}
}

func FuzzBytesReadBack(f *testing.F) {
	for _, n := range []int64{0, 1, 1e9, 3<<40 + 1, math.MaxInt64} {
		f.Add(n, "30MiB")
	}
	f.Fuzz(func(t *testing.T, n int64, text string) {
		if n >= 0 {
			if b, err := parseBytes(Bytes(n).String()); err != nil || b != Bytes(n) {
				t.Errorf("size %d is written %s, reads back as %d, %v", n, Bytes(n), b, err)
			}
		}
		if b, err := parseBytes(text); b < 0 || err != nil && b != 0 {
			t.Errorf("%q gives %d, %v", text, b, err)
		}
	})
}

func parseBytes(text string) (b Bytes, err error) {
	err = b.UnmarshalText([]byte(text))
	return b, err
}
