package cli

import (
	"bytes"
	"os/exec"
	"strings"
	"testing"
	"time"

	"headgate/internal/format"
)

func TestClock(t *testing.T) {
	for at, want := range map[time.Time]string{
		{}:                         "the start",
		noon.Add(-time.Minute):     "11:59:00Z (60s ago)",
		noon.Add(time.Minute):      "12:01:00Z (0s ago)", // clocks differ
		noon.Add(-100 * time.Hour): "2026-01-27 08:00Z (4d04h ago)",
	} {
		if got := clock(at, noon); got != want {
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
		if got, _ := strings.CutPrefix(string(out), "x"); got != format.Printable(s) {
			t.Errorf("%q became %q, read as %q", s, word, got)
		}
	})
}

func TestPrinterTable(t *testing.T) {
	for _, colour := range []bool{false, true} {
		p := &printer{colour: colour}
		tab := p.table("A", "B", "C")
		tab.row(alarm, "x\x1b[2J\ny", "", 3)
		tab.row(plain, blank{}, "", 4.5)
		tab.end()
		want := "A        B  C\nx\uFFFD[2J\uFFFDy  -  3\n         -  4.5\n"
		if colour {
			want = "A        B  C\n\x1b[1;31mx\uFFFD[2J\uFFFDy  -  3\x1b[0m\n         -  4.5\n"
		}
		if p.String() != want {
			t.Errorf("colour %v:\n%q\nwant\n%q", colour, p, want)
		}
	}
	s := Service{Env: Env{LookupEnv: func(string) (string, bool) { return "", false }}, Out: &bytes.Buffer{}}
	if s.newPrinter().colour {
		t.Error("colour without a terminal")
	}
}
