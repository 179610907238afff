package fakeslack

import (
	"html/template"
	"regexp"
	"strings"
)

// mrkdwn turns Slack's markup into HTML. Everything that is not markup is
// escaped; links are kept only if they lead to the web. Names are those of users by
// their IDs; others are shown as they are.
func mrkdwn(s string, names map[string]string) template.HTML {
	var b strings.Builder
	for s != "" {
		open := strings.IndexByte(s, '<')
		end := strings.IndexByte(s, '>')
		if open < 0 || end < open {
			b.WriteString(renderStyled(s))
			break
		}
		b.WriteString(renderStyled(s[:open]))
		b.WriteString(renderEntity(s[open+1:end], names))
		s = s[end+1:]
	}
	return template.HTML(b.String())
}

// renderEntity is what stands between < and >.
func renderEntity(s string, names map[string]string) string {
	target, label, labelled := strings.Cut(s, "|")
	switch {
	case strings.HasPrefix(target, "!date^"):
		return `<time title="` + escapeHTML(label) + `">` + escapeHTML(label) + `</time>`
	case strings.HasPrefix(target, "!subteam^"):
		if !labelled {
			label = strings.TrimPrefix(target, "!subteam^")
		}
		return `<mark>@` + escapeHTML(strings.TrimPrefix(label, "@")) + `</mark>`
	case strings.HasPrefix(target, "!"):
		return `<mark>@` + escapeHTML(target[1:]) + `</mark>`
	case strings.HasPrefix(target, "@"):
		if name, ok := names[target[1:]]; ok {
			target = "@" + name
		}
		return `<mark>` + escapeHTML(target) + `</mark>`
	case strings.HasPrefix(target, "http://"), strings.HasPrefix(target, "https://"):
		if !labelled {
			label = target
		}
		return `<a rel="noreferrer noopener" href="` + escapeHTML(target) + `">` + escapeHTML(label) + `</a>`
	default:
		return escapeHTML("<" + s + ">")
	}
}

// Slack knows three entities and nothing else.
func escapeHTML(s string) string {
	s = strings.NewReplacer("&lt;", "<", "&gt;", ">", "&amp;", "&").Replace(s)
	return template.HTMLEscapeString(s)
}

var styles = regexp.MustCompile("`([^`\n]+)`|\\*([^*\n]+)\\*|\\b_([^_\n]+)_\\b")

func renderStyled(s string) string {
	var b strings.Builder
	last := 0
	for _, m := range styles.FindAllStringSubmatchIndex(s, -1) {
		b.WriteString(breakLines(s[last:m[0]]))
		for i, tag := range []string{"code", "strong", "em"} {
			if at := 2 + 2*i; m[at] >= 0 {
				b.WriteString("<" + tag + ">" + escapeHTML(s[m[at]:m[at+1]]) + "</" + tag + ">")
			}
		}
		last = m[1]
	}
	b.WriteString(breakLines(s[last:]))
	return b.String()
}

func breakLines(s string) string { return strings.ReplaceAll(escapeHTML(s), "\n", "<br>") }
