package slack

import (
	"fmt"
	"net/url"
	"regexp"
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
	baseURL     string  // of links, without a slash at the end; empty: commands instead
	pageMention Mention // for pages
	// pressable says that presses come back: messages have buttons.
	withButtons bool
}

// render returns what a delivery says: as the incident's message if it opens or
// edits, else as a line in its thread.
func (r renderer) render(d alerts.Delivery, root alerts.Ref, plain bool) message {
	opens := d.StartsThread(root)
	lines := r.parts(d, opens)
	calls := r.mention(d, opens)
	m := message{text: join(calls, lines.notificationText)}
	if plain {
		m.text = strings.Join(nonEmpty(append([]string{m.text}, lines.banners...)), "\n")
		if lines.header != "" {
			m.text += "\n" + join("What to do:", lines.runbook)
		}
		return m
	}
	m.blocks = lines.blocks(calls, fmt.Sprintf("%.36s.%d.%d", d.Incident, d.Seq, d.Attempts))
	return m
}

func (r renderer) parts(d alerts.Delivery, opens bool) messageParts {
	switch {
	case d.IsNotice():
		return r.noticeParts(d)
	case opens || d.Kind != alerts.Reply:
		return r.incidentParts(d)
	default:
		return r.replyParts(d)
	}
}

// mention returns the mention of what pings. An edit calls nobody; a notice calls
// whom it names.
func (r renderer) mention(d alerts.Delivery, opens bool) string {
	if d.IsNotice() {
		return noticeMention(d.Notification)
	}
	if d.Notification.Ping && (opens || d.Kind == alerts.Reply) {
		return r.pageMention.markup
	}
	return ""
}

// noticeMention is whom a notice pings: a mention and nothing else, since it is not escaped.
func noticeMention(n alerts.Notification) string {
	m, err := ParseMention(n.Event.By)
	if err != nil || !n.Ping {
		return ""
	}
	return m.markup
}

// messageParts are the parts of a message. All are escaped and bounded.
type messageParts struct {
	notificationText string // the notification line
	header           string // plain text; empty: none
	banners          []string
	body             string
	fields           []string
	runbook          string
	footer           string
	// buttons are nil where there are none.
	buttons *slack.ActionBlock
}

func (l messageParts) blocks(calls, id string) []slack.Block {
	var bs []slack.Block
	if l.header != "" {
		bs = append(bs, slack.NewHeaderBlock(slack.NewTextBlockObject(slack.PlainTextType, l.header, true, false)))
	}
	bs = append(bs, section(join(calls, l.body)))
	if len(l.banners) > 0 {
		bs = append(bs, section(strings.Join(l.banners, "\n")))
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
	if l.footer != "" {
		bs = append(bs, slack.NewContextBlock("", slack.NewTextBlockObject(slack.MarkdownType, l.footer, false, false)))
	}
	for i, b := range bs {
		setBlockID(b, fmt.Sprintf("%s.%d", id, i))
	}
	return bs
}

func section(s string) *slack.SectionBlock {
	return slack.NewSectionBlock(slack.NewTextBlockObject(slack.MarkdownType, s, false, false), nil, nil)
}

// setBlockID names a block. Slack wants a name of its own for each version of a
// message.
func setBlockID(b slack.Block, id string) {
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

// incidentParts are the incident's own message.
func (r renderer) incidentParts(d alerts.Delivery) messageParts {
	n, inc := d.Notification, d.Notification.Incident
	summary, cut := escapeTruncate(inc.Summary, maxSummary)
	if cut {
		summary += " " + r.fullTextLink(inc)
	}
	short, _ := escapeTruncate(inc.Summary, 160)
	l := messageParts{
		header:           plainText(statusEmoji(n)+" "+title(n)+": "+inc.Summary+poolSuffix(inc.Key.Pool), maxHeader),
		body:             "*" + summary + "*\n" + statusSentence(inc),
		notificationText: join(title(n), "·", short+escape(poolSuffix(inc.Key.Pool))+":", valueAndLimit(inc)+",", "since", utcTime(inc.Opened)),
		banners:          r.banners(d), runbook: r.runbookLink(inc),
		buttons: r.buttons(n),
		footer:  fmt.Sprintf("rule %s · incident %s", inlineCode(inc.Key.Rule), inlineCode(inc.ID)),
	}
	if !inc.Open() {
		l.notificationText = join(title(n), "·", short+escape(poolSuffix(inc.Key.Pool))+":", "fired", utcTime(inc.Opened)+",", "over", utcTime(inc.Ended))
	}
	l.notificationText, l.fields = truncateMarkup(l.notificationText, maxLine), r.fields(n)
	return l
}

// replyParts are one step of the timeline.
func (r renderer) replyParts(d alerts.Delivery) messageParts {
	n, inc := d.Notification, d.Notification.Incident
	what := eventText(n)
	short, _ := escapeTruncate(inc.Summary, 160)
	return messageParts{
		notificationText: truncateMarkup(drillPrefix(n)+what+" · "+short+escape(poolSuffix(inc.Key.Pool)), maxLine),
		body:             drillPrefix(n) + what + "\n" + localTime(n.Event.At),
		banners:          r.banners(d),
	}
}

// noticeParts are words alone.
func (r renderer) noticeParts(d alerts.Delivery) messageParts {
	words, _ := escapeTruncate(d.Notification.Event.Text, maxSummary)
	short, _ := escapeTruncate(d.Notification.Event.Text, maxLine)
	return messageParts{notificationText: short, body: words + "\n" + localTime(d.Notification.Event.At), banners: r.banners(d)}
}

// fields say, side by side, what one wants to know next.
func (r renderer) fields(n alerts.Notification) []string {
	inc := n.Incident
	if !inc.Open() {
		return r.resolvedFields(n)
	}
	fs := []string{
		field("Value", valueAndLimit(inc)),
		field("Since", localTime(inc.Opened)),
	}
	if inc.Impact != "" {
		feel, cut := escapeTruncate(inc.Impact, maxField-100)
		if cut {
			feel += " " + r.fullTextLink(inc)
		}
		fs = append(fs, field("What users feel", feel))
	}
	fs = append(fs, field("What to do", r.runbookLink(inc)))
	if inc.Key.Pool != "" {
		fs = append(fs, field("Mode", modeText(n)), field("Roll back", rollbackCommand(n)))
	}
	return append(fs, field("State", stateText(n)))
}

// resolvedFields leave out what need not be done any more.
func (r renderer) resolvedFields(n alerts.Notification) []string {
	fs := []string{field("State", stateText(n)), field("Value", valueAndLimit(n.Incident))}
	if n.Incident.Key.Pool != "" {
		fs = append(fs, field("Mode", modeText(n)))
	}
	if n.Mode == passThrough {
		fs = append(fs, field("Roll back", rollbackCommand(n)))
	}
	return fs
}

func field(name, value string) string { return truncateMarkup("*"+name+"*\n"+value, 2*maxField) }

// truncateMarkup is the last guard over text that was put together from bounded parts.
// It cuts no entity and no link in two.
func truncateMarkup(s string, n int) string {
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
	return s + ellipsis
}

// fullTextLink tells where to read what was cut.
func (r renderer) fullTextLink(inc engine.Incident) string {
	if r.baseURL != "" {
		return fmt.Sprintf("<%s/incidents/%s|(cut: read it all)>", r.baseURL, url.PathEscape(inc.ID))
	}
	return "(cut: " + inlineCommand("incident show", inc.ID) + ")"
}

// runbookLink is the runbook's page, or the command that shows the incident.
func (r renderer) runbookLink(inc engine.Incident) string {
	if r.baseURL != "" && inc.Runbook != "" {
		return fmt.Sprintf("<%s/runbooks/%s|Runbook: %s>", r.baseURL, url.PathEscape(truncateMarkup(inc.Runbook, 100)), linkLabel(inc.Runbook))
	}
	show := inlineCode("headgate incident show " + inc.ID)
	if inc.Runbook != "" {
		return "Runbook " + inlineCode(inc.Runbook) + "\n" + show
	}
	return show
}

// linkLabel is text inside a link.
func linkLabel(s string) string { return strings.ReplaceAll(escape(s), "|", "/") }

// banners are the remarks about the message itself.
func (r renderer) banners(d alerts.Delivery) []string {
	n := d.Notification
	var out []string
	add := func(set bool, s string) {
		if set {
			out = append(out, s)
		}
	}
	reason, _ := escapeTruncate(n.FallbackReason, 300)
	add(n.Drill, ":test_tube: *This is a drill.* It was planned; nobody has to act.")
	add(n.Unrecorded, ":floppy_disk: *Not recorded:* the database cannot be written. This message may be all there is.")
	add(n.FallbackReason != "", fmt.Sprintf(":warning: *Sent here because the %s channel refused it:* %s", escape(string(n.FallbackFrom)), reason))
	add(n.PossibleDuplicate, ":repeat: This may be a repeat: it is not known whether an earlier copy arrived.")
	add(n.Late, ":hourglass: Sent late. It happened at "+localTime(n.Event.At)+".")
	return out
}

func join(parts ...string) string { return strings.Join(nonEmpty(parts), " ") }

func nonEmpty(parts []string) []string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return out
}

// incidentDuration says how long an incident that is over took.
func incidentDuration(inc engine.Incident) time.Duration { return inc.Ended.Sub(inc.Opened) }

// title says how bad it is, in one or two words.
func title(n alerts.Notification) string {
	t := "WARNING"
	switch {
	case !n.Incident.Open():
		t = "RESOLVED"
	case n.Incident.Level == engine.LevelPage:
		t = "PAGE"
	}
	if n.Incident.Flapping {
		t += " (comes and goes)"
	}
	return drillPrefix(n) + t
}

func drillPrefix(n alerts.Notification) string {
	if n.Drill {
		return "DRILL · "
	}
	return ""
}

// statusEmoji is the colour that stands before the title.
func statusEmoji(n alerts.Notification) string {
	switch {
	case !n.Incident.Open():
		return "🟢"
	case n.Incident.Level == engine.LevelPage:
		return "🔴"
	default:
		return "🟠"
	}
}

func poolSuffix(pool string) string {
	if pool == "" {
		return ""
	}
	return " (pool " + pool + ")"
}

// valueAndLimit sets the value against its threshold.
func valueAndLimit(inc engine.Incident) string {
	return fmt.Sprintf("%s, limit %s", formatValue(inc.Value, inc.Unit), formatValue(inc.Threshold, inc.Unit))
}

// statusSentence tells in a sentence how it stands.
func statusSentence(inc engine.Incident) string {
	if inc.Open() {
		form := "It is at %s; the limit is %s."
		if inc.Value < inc.Threshold {
			form = "It is at %s, below the limit of %s; it is over once it has stayed well below."
		}
		s := fmt.Sprintf(form, formatValue(inc.Value, inc.Unit), formatValue(inc.Threshold, inc.Unit))
		if inc.ReopenCount > 0 {
			s += fmt.Sprintf(" It came back %s.", countText(inc.ReopenCount))
		}
		return s
	}
	return fmt.Sprintf("It fired at %s and was over at %s, after %s: %s.", localTime(inc.Opened), localTime(inc.Ended), formatDuration(incidentDuration(inc)), resolutionText(inc.Resolution))
}

func countText(n int) string {
	if n == 1 {
		return "once"
	}
	return fmt.Sprintf("%d times", n)
}

func resolutionText(r engine.Resolution) string {
	switch r {
	case engine.Recovered:
		return "the value went back below the limit"
	case engine.NoTraffic:
		return "no traffic, so nothing can be said"
	case engine.RuleDeleted:
		return "its rule or pool is gone from the settings"
	default:
		return escape(string(r))
	}
}

// reasonSuffix adds what somebody wrote.
func reasonSuffix(reason string) string {
	if reason == "" {
		return ""
	}
	words, _ := escapeTruncate(reason, maxLine-150)
	return ": " + words
}

// Actor names a Slack user where people are named, in incidents and the audit.
func Actor(user string) string { return actorPrefix + user }

const actorPrefix = "slack:"

// displayActor shows a name. Somebody of Slack is shown as Slack shows people.
func displayActor(by string) string {
	if id, ok := strings.CutPrefix(by, actorPrefix); ok && userIDPattern.MatchString(id) {
		return "<@" + id + ">"
	}
	return escape(by)
}

var userIDPattern = regexp.MustCompile(`^[UW][A-Z0-9]{2,20}$`)

// modeName names a mode.
func modeName(mode string) string {
	if mode == "" {
		return "not known"
	}
	return escape(mode)
}

// modeText says what the pool's gate does.
func modeText(n alerts.Notification) string {
	s := modeName(n.Mode)
	switch n.Mode {
	case "enforce":
		s += ": work that comes too late is refused"
	case "observe":
		s += ": refusals are only counted"
	case passThrough:
		s += ": the gate is taken out"
	}
	if !n.ModeSince.IsZero() {
		s += "\nsince " + localTime(n.ModeSince)
	}
	return s
}

// rollbackCommand gives the command that takes the gate out, or puts it back.
func rollbackCommand(n alerts.Notification) string {
	pool := n.Incident.Key.Pool
	if n.Mode == passThrough {
		return "Done. To put the gate back: " + inlineCommand("restore --pool", pool)
	}
	return inlineCommand("rollback --pool", pool)
}

// inlineCommand is one to be copied into a shell; an argument that a shell could take
// for more than a word is quoted.
func inlineCommand(verb, arg string) string { return inlineCode(shellCommand(verb, arg)) }

// shellCommand is a command without markup.
func shellCommand(verb, arg string) string {
	if !shellSafe.MatchString(arg) {
		arg = "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	return "headgate " + verb + " " + arg
}

var shellSafe = regexp.MustCompile(`^[A-Za-z0-9_.:/@-]+$`)

// stateText says who is on it, and how to say so.
func stateText(n alerts.Notification) string {
	s := ackText(n.Incident)
	if n.Event.Kind == engine.EventSilenced {
		s += "\n" + eventText(n)
	}
	return s
}

func ackText(inc engine.Incident) string {
	switch {
	case !inc.Open():
		return "Resolved at " + localTime(inc.Ended)
	case !inc.AckUntil.IsZero():
		return fmt.Sprintf("Acknowledged by %s until %s", displayActor(inc.AckedBy), localTime(inc.AckUntil))
	default:
		return "Nobody has acknowledged it: " + inlineCommand("incident ack", inc.ID)
	}
}

// eventText tells one event.
func eventText(n alerts.Notification) string {
	inc, e := n.Incident, n.Event
	at := formatValue(e.Value, inc.Unit)
	by := ""
	if e.By != "" {
		by = " by " + displayActor(e.By)
	}
	switch e.Kind {
	case engine.EventOpened:
		return "Opened at " + at
	case engine.EventEscalated:
		return "Now a page: " + valueAndLimit(inc)
	case engine.EventDeescalated:
		return "Down from page to warning: " + at
	case engine.EventRecovering:
		return "Recovering: " + at
	case engine.EventRefired:
		return "Back before it was resolved: " + at
	case engine.EventReopened:
		return "Back again: " + valueAndLimit(inc)
	case engine.EventResolved:
		return fmt.Sprintf("Resolved after %s: %s", formatDuration(e.At.Sub(inc.Opened)), resolutionText(inc.Resolution))
	case engine.EventFlapping:
		return fmt.Sprintf("It comes and goes: %d times of late. Its ups and downs are summed up from now on", e.Count)
	case engine.EventSteady:
		return "It no longer comes and goes: " + at
	case engine.EventAcked:
		return fmt.Sprintf("Acknowledged%s until %s", by, utcTime(inc.AckUntil))
	case engine.EventAckExpired:
		return "The acknowledgement has expired, and it is not over: " + valueAndLimit(inc)
	case engine.EventReminder:
		return fmt.Sprintf("Still not over after %s: %s", formatDuration(e.At.Sub(inc.Opened)), valueAndLimit(inc))
	case engine.EventUnmuted:
		return "The silence has ended" + by + ": " + currentValue(inc)
	case engine.EventMode:
		return "Mode " + modeName(n.Mode) + ", set" + by + reasonSuffix(e.Text)
	case engine.EventSilenced:
		return "Silenced" + by + reasonSuffix(e.Text)
	case engine.EventNote:
		words, _ := escapeTruncate(e.Text, maxLine-50)
		return words + by
	default:
		return escape(string(e.Kind)) + by
	}
}

func currentValue(inc engine.Incident) string {
	if inc.Open() {
		return valueAndLimit(inc)
	}
	return "it was over at " + utcTime(inc.Ended)
}
