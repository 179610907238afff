package main

import (
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/term"
)

// isTerminal says whether somebody looks at what is written.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// colorizer colours text, or leaves it as it is.
type colorizer bool

// colorizerFor colours for terminals, unless NO_COLOR asks not to.
func colorizerFor(h environment, w io.Writer) colorizer {
	no, _ := h.lookupEnv("NO_COLOR")
	return colorizer(no == "" && isTerminal(w))
}

const (
	red    = "31"
	yellow = "33"
)

func (p colorizer) highlight(colour, s string) string {
	if !p {
		return s
	}
	return "\x1b[1;" + colour + "m" + s + "\x1b[0m"
}

// sanitize makes text from elsewhere fit for a terminal: whoever wrote it must not
// be able to move the cursor or to hide a line.
func sanitize(s string) string {
	return strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '\uFFFD'
		}
		return r
	}, s)
}

// formatSeconds shows a duration given in seconds.
func formatSeconds(s float64) string {
	switch {
	case math.IsNaN(s) || s < 0 || s > math.MaxInt32:
		return "?"
	case s < 10:
		return strconv.FormatFloat(math.Round(s*10)/10, 'f', -1, 64) + "s"
	case s < 100:
		return fmt.Sprintf("%.0fs", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", int(s)/60, int(s)%60)
	default:
		return fmt.Sprintf("%dh%02dm", int(s)/3600, int(s)/60%60)
	}
}

// formatClock shows a time, and how long ago it was.
func formatClock(t, now time.Time) string {
	if t.IsZero() {
		return "the start"
	}
	shown := t.UTC().Format("15:04:05Z")
	if now.Sub(t).Abs() > 20*time.Hour {
		shown = t.UTC().Format("2006-01-02 15:04Z")
	}
	return fmt.Sprintf("%s (%s ago)", shown, formatSeconds(max(now.Sub(t).Seconds(), 0)))
}

// shellQuote quotes a word for a shell if it has to be.
func shellQuote(s string) string {
	plain := func(r rune) bool {
		return r < unicode.MaxASCII && (unicode.IsLetter(r) || unicode.IsDigit(r)) || strings.ContainsRune("-_./:@%+=,", r)
	}
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }) {
		return s
	}
	return "'" + strings.ReplaceAll(sanitize(s), "'", `'\''`) + "'"
}
