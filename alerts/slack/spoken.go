package slack

import (
	"regexp"
	"strings"

	"headgate/alerts"
)

// Wording puts deliveries into the words that Slack shows, as plain text, for
// those who read of them elsewhere.
type Wording struct{ words renderer }

// NewWording returns a Wording whose links lead to an external URL, or that gives
// commands instead if it is empty.
func NewWording(links string) (Wording, error) {
	words, err := newRenderer(links, Mention{})
	return Wording{words}, err
}

// Of returns what a delivery says, in some lines, with at most n characters.
func (w Wording) Of(d alerts.Delivery, n int) string {
	l := w.words.linesOf(d, d.Kind == alerts.Post)
	parts := append([]string{l.header, l.body}, l.notes...)
	for _, f := range l.fields {
		parts = append(parts, strings.Replace(f, "*\n", "*: ", 1))
	}
	var out []string
	for line := range strings.SplitSeq(strings.Join(compact(append(parts, l.foot)), "\n"), "\n") {
		out = append(out, plainText(unmarked(line), n))
	}
	text := []rune(strings.Join(out, "\n"))
	if len(text) <= n {
		return string(text)
	}
	return string(text[:max(n-1, 0)]) + cutMark
}

var (
	dates = regexp.MustCompile(`<!date\^\d+\^[^|>]*\|([^>]*)> \([0-9:]+ UTC\)`)
	links = regexp.MustCompile(`<(https?://[^|>]*)\|([^>]*)>`)
	bold  = regexp.MustCompile(`(^|\s)\*([^*]+)\*`)
)

// unmarked takes Slack's markup off a text of ours. Values from outside are in it
// escaped, so that nothing of theirs is taken for markup.
func unmarked(s string) string {
	s = dates.ReplaceAllString(s, "$1")
	s = links.ReplaceAllString(s, "$2 ($1)")
	s = bold.ReplaceAllString(s, "$1$2")
	return strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&", "`", "").Replace(s)
}
