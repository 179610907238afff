package slack

import (
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"headgate/alerts"
	"headgate/internal/format"
)

// entities are the three characters that Slack's markup needs escaped, and no others.
var (
	entities = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")
	unescape = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&")
)

// clean makes a value from outside fit for one line: valid UTF-8 without control characters, some of which reorder
// text.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return -1
		default:
			return r
		}
	}, strings.ToValidUTF8(s, "\uFFFD"))
}

// plainText truncates a value for places where Slack interprets no markup.
func plainText(s string, n int) string { return format.Truncate(clean(s), n) }

// escapeTruncate escapes a value once and truncates the result to n characters, never within an entity.
func escapeTruncate(s string, n int) (out string, truncated bool) {
	var b strings.Builder
	used, fits := 0, 0 // characters written; bytes after which an ellipsis still fits
	for _, r := range clean(s) {
		piece := entities.Replace(string(r))
		if used += utf8.RuneCountInString(piece); used > n {
			return b.String()[:fits] + format.Ellipsis, true
		}
		b.WriteString(piece)
		if used < n {
			fits = b.Len()
		}
	}
	return b.String(), false
}

// escapeTo escapes a value and truncates it to n characters.
func escapeTo(s string, n int) string {
	out, _ := escapeTruncate(s, n)
	return out
}

// escape escapes names and other short values.
func escape(s string) string { return escapeTo(s, 200) }

// truncateMarkup truncates text that was assembled from bounded parts, as a last guard. It splits no entity and no
// link.
func truncateMarkup(s string, n int) string {
	rs := []rune(s)
	if len(rs) <= n {
		return s
	}
	s = string(rs[:n-1])
	for _, pair := range []string{"<>", "&;"} {
		if i := strings.LastIndexByte(s, pair[0]); i > strings.LastIndexByte(s, pair[1]) {
			s = s[:i]
		}
	}
	return s + format.Ellipsis
}

// inlineCode returns text as code. Backticks would end it and are replaced.
func inlineCode(s string) string { return "`" + strings.ReplaceAll(escape(s), "`", "'") + "`" }

// formatValue writes a value with its unit. Seconds stay seconds up to ten minutes, so that a value and its limit have
// one unit and can be compared at a glance.
func formatValue(v float64, unit string) string {
	if unit != "s" && unit != "seconds" {
		return escape(format.Text.Value(v, unit))
	}
	if math.Abs(v) >= 600 {
		return format.Number(v/60) + " min"
	}
	return format.Number(v) + " s"
}

// localTime writes a time in the reader's own time zone, with UTC beside it.
func localTime(t time.Time) string {
	if t.IsZero() {
		return format.Unknown
	}
	return fmt.Sprintf("<!date^%d^{date_short_pretty} {time_secs}|%s> (%s UTC)", t.Unix(), format.Time(t), t.UTC().Format("15:04:05"))
}

// Mention notifies people, in Slack's markup. The zero Mention is empty.
type Mention struct{ markup string }

var mentionPattern = regexp.MustCompile(`^<(!here|!channel|!everyone|!subteam\^S[A-Z0-9]{2,20}|@[UW][A-Z0-9]{2,20})>$`)

// ParseMention reads the setting of a mention: one or more of <!here>, <!channel>, <!subteam^S…>, <@U…>, separated by
// spaces. An empty setting is no mention. A plain "@here", which Slack shows as text and ignores, is rejected with a
// hint.
func ParseMention(s string) (Mention, error) {
	words := strings.Fields(s)
	if len(words) > 10 {
		return Mention{}, fmt.Errorf("%d mentions, at most 10", len(words))
	}
	for _, w := range words {
		if !mentionPattern.MatchString(w) {
			return Mention{}, fmt.Errorf("%.40q is not a mention%s", w, mentionHint(w))
		}
	}
	return Mention{markup: strings.Join(words, " ")}, nil
}

func mentionHint(w string) string {
	switch name := strings.TrimPrefix(w, "@"); {
	case name == "here", name == "channel", name == "everyone":
		return fmt.Sprintf(": Slack ignores plain text, write <!%s>", name)
	case strings.HasPrefix(w, "S"):
		return fmt.Sprintf(": for a user group write <!subteam^%.20s>", w)
	case strings.HasPrefix(w, "U"), strings.HasPrefix(w, "W"):
		return fmt.Sprintf(": for a person write <@%.20s>", w)
	}
	return ": write <!here>, <!subteam^S…> with the ID of a user group, or <@U…> with that of a person"
}

const actorPrefix = "slack:"

var userIDPattern = regexp.MustCompile(`^[UW][A-Z0-9]{2,20}$`)

// Actor returns the name of a Slack user in incidents and the audit log.
func Actor(user string) string { return actorPrefix + user }

// displayActor shows a name. Slack users are shown as Slack shows people.
func displayActor(by string) string {
	if id, ok := strings.CutPrefix(by, actorPrefix); ok && userIDPattern.MatchString(id) {
		return "<@" + id + ">"
	}
	return escape(by)
}

// inlineCommand is a command to be copied into a shell.
func inlineCommand(verb, arg string) string { return inlineCode(shellCommand(verb, arg)) }

var shellSafe = regexp.MustCompile(`^[A-Za-z0-9_.:/@-]+$`)

// shellCommand is a command without markup. An argument that a shell could take for more than a word is quoted.
func shellCommand(verb, arg string) string {
	if !shellSafe.MatchString(arg) {
		arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return "headgate " + verb + " " + arg
}

// PlainTextRenderer renders deliveries as plain text, with the content that Slack shows.
type PlainTextRenderer struct{ renderer renderer }

// NewPlainTextRenderer returns a PlainTextRenderer. Links start with the external URL; if that is empty, messages hold
// commands instead.
func NewPlainTextRenderer(externalURL string) (PlainTextRenderer, error) {
	r, err := newRenderer(externalURL, Mention{})
	return PlainTextRenderer{r}, err
}

// Render returns the text of a delivery, of one line or several, with at most n characters.
func (w PlainTextRenderer) Render(d alerts.Delivery, n int) string {
	p := w.renderer.parts(d, d.Kind == alerts.Post)
	parts := append([]string{p.header, p.body}, p.banners...)
	for _, f := range p.fields {
		parts = append(parts, strings.Replace(f, "*\n", "*: ", 1))
	}
	var out []string
	for line := range strings.SplitSeq(strings.Join(nonEmpty(append(parts, p.footer)), "\n"), "\n") {
		out = append(out, plainText(stripMarkup(line), n))
	}
	return format.Truncate(strings.Join(out, "\n"), n)
}

var (
	datePattern = regexp.MustCompile(`<!date\^\d+\^[^|>]*\|([^>]*)> \([0-9:]+ UTC\)`)
	linkPattern = regexp.MustCompile(`<(https?://[^|>]*)\|([^>]*)>`)
	boldPattern = regexp.MustCompile(`(^|\s)\*([^*]+)\*`)
)

// stripMarkup removes Slack's markup from a text of ours. Values from outside are escaped in it, so nothing of theirs
// is taken for markup.
func stripMarkup(s string) string {
	s = datePattern.ReplaceAllString(s, "$1")
	s = linkPattern.ReplaceAllString(s, "$2 ($1)")
	s = boldPattern.ReplaceAllString(s, "$1$2")
	return strings.ReplaceAll(unescape.Replace(s), "`", "")
}
