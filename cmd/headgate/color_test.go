package main

import (
	"bytes"
	"math"
	"os/exec"
	"strings"
	"testing"
	"time"
)

func TestSeconds(t *testing.T) {
	for s, want := range map[float64]string{
		0: "0s", 0.04: "0s", 0.35: "0.4s", 9.96: "10s", 12.4: "12s", 99.4: "99s", 100: "1m40s", 185: "3m05s", 3600: "1h00m", 93784: "26h03m",
		-1: "?", math.Inf(1): "?",
	} {
		if got := formatSeconds(s); got != want {
			t.Errorf("%v: %s, want %s", s, got, want)
		}
	}
	if got := formatSeconds(math.NaN()); got != "?" {
		t.Errorf("NaN: %s", got)
	}
}

func TestClock(t *testing.T) {
	for at, want := range map[time.Time]string{
		{}:                         "the start",
		noon.Add(-time.Minute):     "11:59:00Z (60s ago)",
		noon.Add(time.Minute):      "12:01:00Z (0s ago)", // clocks differ
		noon.Add(-100 * time.Hour): "2026-01-27 08:00Z (100h00m ago)",
	} {
		if got := formatClock(at, noon); got != want {
			t.Errorf("%s: %s, want %s", at, got, want)
		}
	}
}

// FuzzShellWord asks a shell what it makes of a word.
func FuzzShellWord(f *testing.F) {
	for _, s := range []string{"", "a", "a b", "it's", "$(id)", "`id`", "-x", "*", "~", "a\\b", "\"", "é", "a;b", "x=y"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		word := shellQuote(s)
		out, err := exec.Command("sh", "-c", "printf %s "+"x"+word).Output()
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := strings.CutPrefix(string(out), "x"); got != sanitize(s) {
			t.Errorf("%q became %q, read as %q", s, word, got)
		}
	})
}

func TestNoColour(t *testing.T) {
	env := func(string) (string, bool) { return "", false }
	if colorizerFor(environment{lookupEnv: env}, &bytes.Buffer{}) {
		t.Error("colour without a terminal")
	}
	if got := colorizer(false).highlight(red, "x"); got != "x" {
		t.Errorf("painted %q", got)
	}
}
