package fakeslack

import (
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// allowed are the only tags that markup turns into.
var allowed = regexp.MustCompile(`</?(strong|em|code|mark|time|a)( [^<>]*)?>|<br>`)

func FuzzMrkdwn(f *testing.F) {
	for _, s := range []string{
		"", "<", ">", "<>", "a<b>&\"c\"", "<!date^1^{x}|y>", "*a* _b_ `c`", "<https://x|\"onload=\">", "<@U1>", "&amp;lt;script&amp;gt;",
		"<!subteam^S1|@ops>", "*<script>*", "<http://a'b>",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		rest := allowed.ReplaceAllString(string(mrkdwn(s, map[string]string{"U0ADA": "ada"})), "")
		if strings.ContainsAny(rest, "<>") {
			t.Errorf("%q became %q", s, mrkdwn(s, map[string]string{"U0ADA": "ada"}))
		}
	})
}

func TestLimits(t *testing.T) {
	m := &Message{Text: "0"}
	for range maxVersions + 10 {
		m.edit(url.Values{"text": {"x"}})
	}
	if len(m.Versions) != maxVersions || m.Versions[0].Text != "0" {
		t.Errorf("%d versions, the first %q: want %d and the original", len(m.Versions), m.Versions[0].Text, maxVersions)
	}
	c := &channel{}
	for range maxMessages + 1 {
		c.add(&Message{})
	}
	if len(c.messages) != maxMessages {
		t.Errorf("%d messages, want %d", len(c.messages), maxMessages)
	}
}

func TestTSCompare(t *testing.T) {
	tests := []struct {
		a, b string
		want int
	}{{"9.1", "10.0", -1}, {"10.000001", "10.000002", -1}, {"10.5", "10.5", 0}, {"10.000100", "10.0001", 1}}
	for _, tt := range tests {
		if got := cmpTS(tt.a, tt.b); (got < 0) != (tt.want < 0) || (got > 0) != (tt.want > 0) {
			t.Errorf("%s and %s: %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
