package slack

import (
	"regexp"
	"strings"

	"headgate/alerts"
)

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
