package demo

// style is one way to set text off.
type style string

// The styles, as the parameters of the terminal's SGR sequence.
const (
	normal style = ""
	strong style = "1"
	faint  style = "2"
	good   style = "32"
	warn   style = "33"
	bad    style = "1;31"
)

// segment is text in one style.
type segment struct {
	text  string
	style style
}

// line is what stands in one row. All of its characters are one column wide.
type line []segment

func plain(text string) line { return line{{text, normal}} }

func (l line) width() int {
	n := 0
	for _, s := range l {
		n += len([]rune(s.text))
	}
	return n
}

// truncate cuts the line to a width.
func (l line) truncate(width int) line {
	var out line
	for _, s := range l {
		text := []rune(s.text)
		if len(text) > width {
			text = text[:max(width, 0)]
		}
		width -= len(text)
		if len(text) > 0 {
			out = append(out, segment{string(text), s.style})
		}
	}
	return out
}

// render returns the line, with colours or without.
func (l line) render(colour bool) string {
	out := ""
	for _, s := range l {
		if colour && s.style != normal {
			out += "\x1b[" + string(s.style) + "m" + s.text + "\x1b[0m"
			continue
		}
		out += s.text
	}
	return out
}
