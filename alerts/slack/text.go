package slack

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headgate/alerts"
)

// ellipsis ends what was cut.
const ellipsis = "…"

// escapeTruncate escapes a value from outside, once, and cuts it so that what comes out has
// at most n characters. Slack's markup knows three characters that have to be
// escaped, and no others.
func escapeTruncate(s string, n int) (out string, cut bool) {
	var b strings.Builder
	room := n - utf8.RuneCountInString(ellipsis)
	used, last := 0, 0 // last: length at which the mark would still fit
	for _, r := range strings.ToValidUTF8(s, "\uFFFD") {
		piece := escapeRune(r)
		used += utf8.RuneCountInString(piece)
		if used > n {
			return b.String()[:last] + ellipsis, true
		}
		b.WriteString(piece)
		if used <= room {
			last = b.Len()
		}
	}
	return b.String(), false
}

func escapeRune(r rune) string {
	switch {
	case r == '&':
		return "&amp;"
	case r == '<':
		return "&lt;"
	case r == '>':
		return "&gt;"
	case r == '\n' || r == '\t':
		return " "
	case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
		return ""
	default:
		return string(r)
	}
}

// escape is clip for names and other short values.
func escape(s string) string {
	out, _ := escapeTruncate(s, 200)
	return out
}

// inlineCode returns text as code, as far as its backticks allow.
func inlineCode(s string) string {
	return "`" + strings.ReplaceAll(escape(s), "`", "'") + "`"
}

// plain cuts text for where Slack knows no markup and shows all as it is.
func plainText(s string, n int) string {
	clean := strings.Map(func(r rune) rune {
		if p := escapeRune(r); utf8.RuneCountInString(p) == 0 {
			return -1
		} else if p == " " {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if utf8.RuneCountInString(clean) <= n {
		return clean
	}
	return string([]rune(clean)[:n-1]) + ellipsis
}

// formatValue writes a value with its unit, as people say it.
func formatValue(v float64, unit string) string {
	switch unit {
	case "":
		return formatNumber(v)
	case "ratio":
		return formatNumber(v*100) + " %"
	case "s", "seconds":
		if math.Abs(v) >= 600 {
			return formatNumber(v/60) + " min"
		}
		return formatNumber(v) + " s"
	case "x", "×":
		return formatNumber(v) + "×"
	default:
		short, _ := escapeTruncate(unit, 30)
		return formatNumber(v) + " " + short
	}
}

// formatNumber writes three digits, or all before the point.
func formatNumber(v float64) string {
	switch a := math.Abs(v); {
	case math.IsNaN(v) || math.IsInf(v, 0):
		return "?"
	case a >= 1e15:
		return strconv.FormatFloat(v, 'g', 3, 64)
	case a >= 100 || v == math.Trunc(v):
		return strconv.FormatFloat(v, 'f', 0, 64)
	case a >= 10:
		return trimZeros(strconv.FormatFloat(v, 'f', 1, 64))
	case a >= 0.01:
		return trimZeros(strconv.FormatFloat(v, 'f', 2, 64))
	default:
		return strconv.FormatFloat(v, 'g', 2, 64)
	}
}

func trimZeros(s string) string {
	return strings.TrimSuffix(strings.TrimRight(s, "0"), ".")
}

// localTime writes a time as the reader's own clock has it, with UTC beside it.
func localTime(t time.Time) string {
	if t.IsZero() {
		return "?"
	}
	t = t.UTC()
	return fmt.Sprintf("<!date^%d^{date_short_pretty} {time_secs}|%s> (%s UTC)",
		t.Unix(), t.Format("2006-01-02 15:04:05 UTC"), t.Format("15:04:05"))
}

// utcTime is when for a line that is read alone.
func utcTime(t time.Time) string {
	if t.IsZero() {
		return "?"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

// formatDuration writes a length of time.
func formatDuration(d time.Duration) string {
	switch {
	case d < 0:
		return "0 s"
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", d/time.Second)
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", d/time.Minute)
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", d/time.Hour, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	}
}

// Mention calls people, in Slack's markup. The zero Mention calls nobody.
type Mention struct{ markup string }

var mentionPattern = regexp.MustCompile(`^<(!here|!channel|!everyone|!subteam\^S[A-Z0-9]{2,20}|@[UW][A-Z0-9]{2,20})>$`)

// ParseMention reads the setting of a mention: one or more of <!here>,
// <!channel>, <!subteam^S…>, <@U…>, apart by spaces. Empty is nobody. A plain
// "@here", which Slack shows and takes for nothing, is refused with a hint.
func ParseMention(s string) (Mention, error) {
	words := strings.Fields(s)
	if len(words) > 10 {
		return Mention{}, fmt.Errorf("%d mentions, at most 10", len(words))
	}
	for _, w := range words {
		if mentionPattern.MatchString(w) {
			continue
		}
		return Mention{}, fmt.Errorf("%.40q is no mention%s", w, mentionHint(w))
	}
	return Mention{markup: strings.Join(words, " ")}, nil
}

func mentionHint(w string) string {
	switch strings.TrimPrefix(w, "@") {
	case "here", "channel", "everyone":
		return fmt.Sprintf(": Slack takes plain text for nothing, write <!%s>", strings.TrimPrefix(w, "@"))
	}
	switch {
	case strings.HasPrefix(w, "S"):
		return fmt.Sprintf(": for a user group write <!subteam^%.20s>", w)
	case strings.HasPrefix(w, "U"), strings.HasPrefix(w, "W"):
		return fmt.Sprintf(": for a person write <@%.20s>", w)
	}
	return ": write <!here>, <!subteam^S…> with the ID of a user group, or <@U…> with that of a person"
}

// PlainTextRenderer puts deliveries into the words that Slack shows, as plain text, for
// those who read of them elsewhere.
type PlainTextRenderer struct{ renderer renderer }

// NewPlainTextRenderer returns a PlainTextRenderer whose links lead to an external URL, or that gives
// commands instead if it is empty.
func NewPlainTextRenderer(links string) (PlainTextRenderer, error) {
	words, err := newRenderer(links, Mention{})
	return PlainTextRenderer{words}, err
}

// Render returns what a delivery says, in some lines, with at most n characters.
func (w PlainTextRenderer) Render(d alerts.Delivery, n int) string {
	l := w.renderer.parts(d, d.Kind == alerts.Post)
	parts := append([]string{l.header, l.body}, l.banners...)
	for _, f := range l.fields {
		parts = append(parts, strings.Replace(f, "*\n", "*: ", 1))
	}
	var out []string
	for line := range strings.SplitSeq(strings.Join(nonEmpty(append(parts, l.footer)), "\n"), "\n") {
		out = append(out, plainText(stripMarkup(line), n))
	}
	text := []rune(strings.Join(out, "\n"))
	if len(text) <= n {
		return string(text)
	}
	return string(text[:max(n-1, 0)]) + ellipsis
}

var (
	datePattern = regexp.MustCompile(`<!date\^\d+\^[^|>]*\|([^>]*)> \([0-9:]+ UTC\)`)
	linkPattern = regexp.MustCompile(`<(https?://[^|>]*)\|([^>]*)>`)
	boldPattern = regexp.MustCompile(`(^|\s)\*([^*]+)\*`)
)

// stripMarkup takes Slack's markup off a text of ours. Values from outside are in it
// escaped, so that nothing of theirs is taken for markup.
func stripMarkup(s string) string {
	s = datePattern.ReplaceAllString(s, "$1")
	s = linkPattern.ReplaceAllString(s, "$2 ($1)")
	s = boldPattern.ReplaceAllString(s, "$1$2")
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&", "`", "").Replace(s)
}
