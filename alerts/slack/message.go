package slack

import (
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"headgate/alerts"
	"headgate/engine"
)

// Limits, below Slack's own, so that all together stays under maxTotal.
const (
	maxHeader  = 150
	maxSummary = 2000
	maxField   = 700
	maxLine    = 400
	maxTotal   = 8000
)

// message is what is sent: the notification line, and blocks unless it is plain.
type message struct {
	text   string
	blocks []slack.Block
}

// renderer puts notes into words. It is pure.
type renderer struct {
	base string  // of links, without a slash at the end; empty: commands instead
	page Mention // for pages
	// pressable says that presses come back: messages have buttons.
	pressable bool
}

// render returns what a delivery says: as the incident's message if it opens or
// edits, else as a line in its thread.
func (r renderer) render(d alerts.Delivery, root alerts.Ref, plain bool) message {
	opens := d.Opens(root)
	lines := r.linesOf(d, opens)
	calls := r.calls(d, opens)
	m := message{text: join(calls, lines.line)}
	if plain {
		m.text = strings.Join(compact(append([]string{m.text}, lines.notes...)), "\n")
		if lines.header != "" {
			m.text += "\n" + join("What to do:", lines.todo)
		}
		return m
	}
	m.blocks = lines.blocks(calls, fmt.Sprintf("%.36s.%d.%d", d.Incident, d.Seq, d.Attempts))
	return m
}

func (r renderer) linesOf(d alerts.Delivery, opens bool) lines {
	switch {
	case d.Notice():
		return r.noticeLines(d)
	case opens || d.Kind != alerts.Reply:
		return r.rootLines(d)
	default:
		return r.threadLines(d)
	}
}

// calls returns the mention of what pings. An edit calls nobody; a notice calls
// whom it names.
func (r renderer) calls(d alerts.Delivery, opens bool) string {
	if d.Notice() {
		return called(d.Note)
	}
	if d.Note.Ping && (opens || d.Kind == alerts.Reply) {
		return r.page.markup
	}
	return ""
}

// called is whom a notice pings: a mention and nothing else, since it is not escaped.
func called(n alerts.Note) string {
	m, err := ParseMention(n.Event.By)
	if err != nil || !n.Ping {
		return ""
	}
	return m.markup
}

// lines are the parts of a message. All are escaped and bounded.
type lines struct {
	line   string // the notification line
	header string // plain text; empty: none
	notes  []string
	body   string
	fields []string
	todo   string
	foot   string
	// buttons are nil where there are none.
	buttons *slack.ActionBlock
}

func (l lines) blocks(calls, id string) []slack.Block {
	var bs []slack.Block
	if l.header != "" {
		bs = append(bs, slack.NewHeaderBlock(slack.NewTextBlockObject(slack.PlainTextType, l.header, true, false)))
	}
	bs = append(bs, section(join(calls, l.body)))
	if len(l.notes) > 0 {
		bs = append(bs, section(strings.Join(l.notes, "\n")))
	}
	if len(l.fields) > 0 {
		var fs []*slack.TextBlockObject
		for _, f := range l.fields {
			fs = append(fs, slack.NewTextBlockObject(slack.MarkdownType, f, false, false))
		}
		bs = append(bs, slack.NewSectionBlock(nil, fs, nil))
	}
	if l.buttons != nil {
		bs = append(bs, l.buttons)
	}
	if l.foot != "" {
		bs = append(bs, slack.NewContextBlock("", slack.NewTextBlockObject(slack.MarkdownType, l.foot, false, false)))
	}
	for i, b := range bs {
		setID(b, fmt.Sprintf("%s.%d", id, i))
	}
	return bs
}

func section(s string) *slack.SectionBlock {
	return slack.NewSectionBlock(slack.NewTextBlockObject(slack.MarkdownType, s, false, false), nil, nil)
}

// setID names a block. Slack wants a name of its own for each version of a
// message.
func setID(b slack.Block, id string) {
	switch b := b.(type) {
	case *slack.HeaderBlock:
		b.BlockID = id
	case *slack.SectionBlock:
		b.BlockID = id
	case *slack.ContextBlock:
		b.BlockID = id
	case *slack.ActionBlock:
		b.BlockID = id
	}
}

// rootLines are the incident's own message.
func (r renderer) rootLines(d alerts.Delivery) lines {
	n, inc := d.Note, d.Note.Incident
	summary, cut := clip(inc.Summary, maxSummary)
	if cut {
		summary += " " + r.all(inc)
	}
	short, _ := clip(inc.Summary, 160)
	l := lines{
		header: plainText(mark(n)+" "+title(n)+": "+inc.Summary+ofPool(inc.Key.Pool), maxHeader),
		body:   "*" + summary + "*\n" + story(inc),
		line:   join(title(n), "·", short+esc(ofPool(inc.Key.Pool))+":", against(inc)+",", "since", clock(inc.Opened)),
		notes:  r.notes(d), todo: r.todo(inc),
		buttons: r.buttons(n),
		foot:    fmt.Sprintf("rule %s · incident %s", code(inc.Key.Rule), code(inc.ID)),
	}
	if !inc.Open() {
		l.line = join(title(n), "·", short+esc(ofPool(inc.Key.Pool))+":", "fired", clock(inc.Opened)+",", "over", clock(inc.Ended))
	}
	l.line, l.fields = cutMarkup(l.line, maxLine), r.fields(n)
	return l
}

// threadLines are one step of the timeline.
func (r renderer) threadLines(d alerts.Delivery) lines {
	n, inc := d.Note, d.Note.Incident
	what := step(n)
	short, _ := clip(inc.Summary, 160)
	return lines{
		line:  cutMarkup(prefix(n)+what+" · "+short+esc(ofPool(inc.Key.Pool)), maxLine),
		body:  prefix(n) + what + "\n" + when(n.Event.At),
		notes: r.notes(d),
	}
}

// noticeLines are words alone.
func (r renderer) noticeLines(d alerts.Delivery) lines {
	words, _ := clip(d.Note.Event.Words, maxSummary)
	short, _ := clip(d.Note.Event.Words, maxLine)
	return lines{line: short, body: words + "\n" + when(d.Note.Event.At), notes: r.notes(d)}
}

// fields say, side by side, what one wants to know next.
func (r renderer) fields(n alerts.Note) []string {
	inc := n.Incident
	if !inc.Open() {
		return r.endFields(n)
	}
	fs := []string{
		field("Value", against(inc)),
		field("Since", when(inc.Opened)),
	}
	if inc.Feel != "" {
		feel, cut := clip(inc.Feel, maxField-100)
		if cut {
			feel += " " + r.all(inc)
		}
		fs = append(fs, field("What users feel", feel))
	}
	fs = append(fs, field("What to do", r.todo(inc)))
	if inc.Key.Pool != "" {
		fs = append(fs, field("Mode", mode(n)), field("Roll back", rollback(n)))
	}
	return append(fs, field("State", state(n)))
}

// endFields leave out what need not be done any more.
func (r renderer) endFields(n alerts.Note) []string {
	fs := []string{field("State", state(n)), field("Value", against(n.Incident))}
	if n.Incident.Key.Pool != "" {
		fs = append(fs, field("Mode", mode(n)))
	}
	if n.Mode == passThrough {
		fs = append(fs, field("Roll back", rollback(n)))
	}
	return fs
}

func field(name, value string) string { return cutMarkup("*"+name+"*\n"+value, 2*maxField) }

// cutMarkup is the last guard over text that was put together from bounded parts.
// It cuts no entity and no link in two.
func cutMarkup(s string, n int) string {
	rs := []rune(s)
	if len(rs) <= n {
		return s
	}
	s = string(rs[:n-1])
	if i := strings.LastIndexByte(s, '<'); i > strings.LastIndexByte(s, '>') {
		s = s[:i]
	}
	if i := strings.LastIndexByte(s, '&'); i > strings.LastIndexByte(s, ';') {
		s = s[:i]
	}
	return s + cutMark
}

// all tells where to read what was cut.
func (r renderer) all(inc engine.Incident) string {
	if r.base != "" {
		return fmt.Sprintf("<%s/incidents/%s|(cut: read it all)>", r.base, url.PathEscape(inc.ID))
	}
	return "(cut: " + command("incident show", inc.ID) + ")"
}

// todo is the runbook's page, or the command that shows the incident.
func (r renderer) todo(inc engine.Incident) string {
	if r.base != "" && inc.Runbook != "" {
		return fmt.Sprintf("<%s/runbooks/%s|Runbook: %s>", r.base, url.PathEscape(cutMarkup(inc.Runbook, 100)), label(inc.Runbook))
	}
	show := code("headgate incident show " + inc.ID)
	if inc.Runbook != "" {
		return "Runbook " + code(inc.Runbook) + "\n" + show
	}
	return show
}

// label is text inside a link.
func label(s string) string { return strings.ReplaceAll(esc(s), "|", "/") }

// notes are the remarks about the message itself.
func (r renderer) notes(d alerts.Delivery) []string {
	n := d.Note
	var out []string
	add := func(set bool, s string) {
		if set {
			out = append(out, s)
		}
	}
	reason, _ := clip(n.Diverted, 300)
	add(n.Drill, ":test_tube: *This is a drill.* It was planned; nobody has to act.")
	add(n.Unrecorded, ":floppy_disk: *Not recorded:* the database cannot be written. This message may be all there is.")
	add(n.Diverted != "", fmt.Sprintf(":warning: *Sent here because the %s channel refused it:* %s", esc(string(n.From)), reason))
	add(n.Repeat, ":repeat: This may be a repeat: it is not known whether an earlier copy arrived.")
	add(n.Late, ":hourglass: Sent late. It happened at "+when(n.Event.At)+".")
	return out
}

func join(parts ...string) string { return strings.Join(compact(parts), " ") }

func compact(parts []string) []string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}

// lasted says how long an incident that is over took.
func lasted(inc engine.Incident) time.Duration { return inc.Ended.Sub(inc.Opened) }
