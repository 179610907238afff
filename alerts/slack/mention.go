package slack

import (
	"fmt"
	"regexp"
	"strings"
)

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
