package slack

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/slack-go/slack"

	"headgate/alerts"
	"headgate/engine"
	"headgate/internal/format"
)

// Limits in characters, below Slack's own, so that a whole message stays under maxTotal.
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

// renderer turns notifications into messages. It is pure.
type renderer struct {
	baseURL     string  // of links, without a slash at the end; empty: commands instead
	pageMention Mention // for pages
	withButtons bool    // button presses can come back
}

func newRenderer(externalURL string, page Mention) (renderer, error) {
	if externalURL == "" {
		return renderer{pageMention: page}, nil
	}
	u, err := url.Parse(externalURL)
	if err != nil || checkURL("", externalURL) != nil || u.User != nil || strings.ContainsAny(externalURL, "<>| ") {
		return renderer{}, errors.New("the external URL must be an http or https URL without a user")
	}
	return renderer{baseURL: strings.TrimSuffix(externalURL, "/"), pageMention: page}, nil
}

// render returns the content of a delivery: as the incident's message if it starts or edits one, else as a reply.
func (r renderer) render(d alerts.Delivery, thread alerts.Ref, plain bool) message {
	opens := d.StartsThread(thread)
	p := r.parts(d, opens)
	mention := r.mention(d, opens)
	m := message{text: join(mention, p.notificationLine)}
	if plain {
		m.text = strings.Join(nonEmpty(append([]string{m.text}, p.banners...)), "\n")
		if p.header != "" {
			m.text += "\n" + join("What to do:", p.runbook)
		}
		return m
	}
	m.blocks = p.blocks(mention, fmt.Sprintf("%.36s.%d.%d", d.Incident, d.Seq, d.Attempts))
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

// mention returns the mention of a ping. An edit sends no notification. A notice mentions those whom its event
// names. That field holds nothing but a mention, because it is not escaped.
func (r renderer) mention(d alerts.Delivery, opens bool) string {
	switch n := d.Notification; {
	case !n.Ping:
	case d.IsNotice():
		m, _ := ParseMention(n.Event.By)
		return m.markup
	case opens || d.Kind == alerts.Reply:
		return r.pageMention.markup
	}
	return ""
}

// messageParts are the parts of a message. All are escaped and bounded.
type messageParts struct {
	notificationLine string
	header           string // plain text; empty: none
	banners          []string
	body             string
	fields           []string
	runbook          string
	footer           string
	buttons          *slack.ActionBlock // nil: none
}

// blocks lays the parts out. Slack wants new block IDs for each version of a message; the ID is their prefix.
func (p messageParts) blocks(mention, id string) []slack.Block {
	var bs []slack.Block
	nextID := func() string { return fmt.Sprintf("%s.%d", id, len(bs)) }
	section := func(text string, fields []*slack.TextBlockObject) {
		var body *slack.TextBlockObject
		if text != "" {
			body = markdownObject(text)
		}
		bs = append(bs, slack.NewSectionBlock(body, fields, nil, slack.SectionBlockOptionBlockID(nextID())))
	}
	if p.header != "" {
		text := slack.NewTextBlockObject(slack.PlainTextType, p.header, true, false)
		bs = append(bs, slack.NewHeaderBlock(text, slack.HeaderBlockOptionBlockID(nextID())))
	}
	section(join(mention, p.body), nil)
	if len(p.banners) > 0 {
		section(strings.Join(p.banners, "\n"), nil)
	}
	if len(p.fields) > 0 {
		var fields []*slack.TextBlockObject
		for _, f := range p.fields {
			fields = append(fields, markdownObject(f))
		}
		section("", fields)
	}
	if p.buttons != nil {
		p.buttons.BlockID = nextID()
		bs = append(bs, p.buttons)
	}
	if p.footer != "" {
		bs = append(bs, slack.NewContextBlock(nextID(), markdownObject(p.footer)))
	}
	return bs
}

func markdownObject(s string) *slack.TextBlockObject {
	return slack.NewTextBlockObject(slack.MarkdownType, s, false, false)
}

// incidentParts are the incident's own message.
func (r renderer) incidentParts(d alerts.Delivery) messageParts {
	n, inc := d.Notification, d.Notification.Incident
	summary, truncated := escapeTruncate(inc.Summary, maxSummary)
	if truncated {
		summary += " " + r.fullTextLink(inc)
	}
	emoji, title := severity(n)
	line := fmt.Sprintf("%s · %s: ", title, subject(inc))
	if inc.Open() {
		line += fmt.Sprintf("%s, since %s", valueAndLimit(inc), format.Time(inc.Opened))
	} else {
		line += fmt.Sprintf("opened %s, resolved %s", format.Time(inc.Opened), format.Time(inc.Ended))
	}
	return messageParts{
		notificationLine: truncateMarkup(line, maxLine),
		header:           plainText(emoji+" "+title+": "+inc.Summary+poolSuffix(inc.Key.Pool), maxHeader),
		body:             "*" + summary + "*\n" + statusSentence(inc),
		banners:          r.banners(d),
		fields:           r.fields(n),
		runbook:          r.runbookLink(inc),
		buttons:          r.buttons(n),
		footer:           fmt.Sprintf("rule %s · incident %s", inlineCode(inc.Key.Rule), inlineCode(inc.ID)),
	}
}

// subject is what an incident is about, for a line.
func subject(inc engine.Incident) string {
	return escapeTo(inc.Summary, 160) + escape(poolSuffix(inc.Key.Pool))
}

// replyParts are one step of the timeline.
func (r renderer) replyParts(d alerts.Delivery) messageParts {
	n := d.Notification
	what := drillPrefix(n) + eventText(n)
	return messageParts{
		notificationLine: truncateMarkup(what+" · "+subject(n.Incident), maxLine),
		body:             what + "\n" + localTime(n.Event.At),
		banners:          r.banners(d),
	}
}

// noticeParts are a text alone.
func (r renderer) noticeParts(d alerts.Delivery) messageParts {
	e := d.Notification.Event
	return messageParts{
		notificationLine: escapeTo(e.Text, maxLine), body: escapeTo(e.Text, maxSummary) + "\n" + localTime(e.At),
		banners: r.banners(d),
	}
}

// fields are the details, shown side by side. Those of a resolved incident leave out what need not be done any more.
func (r renderer) fields(n alerts.Notification) []string {
	inc := n.Incident
	var fs []string
	add := func(when bool, name, value string) {
		if when {
			fs = append(fs, truncateMarkup("*"+name+"*\n"+value, 2*maxField))
		}
	}
	open, ofPool := inc.Open(), inc.Key.Pool != ""
	add(!open, "State", stateText(n))
	add(true, "Value", valueAndLimit(inc))
	add(open, "Since", localTime(inc.Opened))
	impact, truncated := escapeTruncate(inc.Impact, maxField-100)
	if truncated {
		impact += " " + r.fullTextLink(inc)
	}
	add(open && impact != "", "Impact", impact)
	add(open, "What to do", r.runbookLink(inc))
	add(ofPool, "Mode", modeText(n))
	add(ofPool && open || n.Mode == passThrough, "Roll back", rollbackCommand(n))
	add(open, "State", stateText(n))
	return fs
}

// fullTextLink says where to read what was truncated.
func (r renderer) fullTextLink(inc engine.Incident) string {
	if r.baseURL != "" {
		return fmt.Sprintf("<%s/incidents/%s|(truncated: full text)>", r.baseURL, url.PathEscape(inc.ID))
	}
	return "(truncated: " + inlineCommand("incident show", inc.ID) + ")"
}

// runbookLink is the runbook's page, or the command that shows the incident.
func (r renderer) runbookLink(inc engine.Incident) string {
	if r.baseURL != "" && inc.Runbook != "" {
		label := strings.ReplaceAll(escape(inc.Runbook), "|", "/") // a bar would end the link's address
		return fmt.Sprintf("<%s|Runbook: %s>", r.runbookURL(inc), label)
	}
	show := inlineCode("headgate incident show " + inc.ID)
	if inc.Runbook != "" {
		return "Runbook " + inlineCode(inc.Runbook) + "\n" + show
	}
	return show
}

func (r renderer) runbookURL(inc engine.Incident) string {
	return r.baseURL + "/runbooks/" + url.PathEscape(truncateMarkup(inc.Runbook, 100))
}

// banners are notes about the message itself. Drills look for the possible duplicate.
func (r renderer) banners(d alerts.Delivery) []string {
	n := d.Notification
	var out []string
	add := func(when bool, s string) {
		if when {
			out = append(out, s)
		}
	}
	reason := escapeTo(n.FallbackReason, 300)
	add(n.Drill, ":test_tube: *This is a drill.* It was planned; no action is needed.")
	add(n.Unrecorded, ":floppy_disk: *Not recorded:* the database cannot be written. This message may be the only trace.")
	add(n.FallbackReason != "",
		fmt.Sprintf(":warning: *Sent here because the %s channel rejected it:* %s", escape(string(n.FallbackFrom)), reason))
	add(n.PossibleDuplicate, ":repeat: This may be a repeat: it is not known whether an earlier copy arrived.")
	add(n.Late, ":hourglass: Sent late. It happened at "+localTime(n.Event.At)+".")
	return out
}

func join(parts ...string) string { return strings.Join(nonEmpty(parts), " ") }

func nonEmpty(parts []string) []string {
	return slices.DeleteFunc(slices.Clone(parts), func(p string) bool { return p == "" })
}

// severity is the state in one or two words, which drills read, and the colour before it.
func severity(n alerts.Notification) (emoji, title string) {
	switch {
	case !n.Incident.Open():
		emoji, title = "🟢", "RESOLVED"
	case n.Incident.Level == engine.LevelPage:
		emoji, title = "🔴", "PAGE"
	default:
		emoji, title = "🟠", "WARNING"
	}
	if n.Incident.Flapping {
		title += " (flapping)"
	}
	return emoji, drillPrefix(n) + title
}

func drillPrefix(n alerts.Notification) string {
	if n.Drill {
		return "DRILL · "
	}
	return ""
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

// statusSentence is the state of an incident in a sentence.
func statusSentence(inc engine.Incident) string {
	if !inc.Open() {
		return fmt.Sprintf("Opened at %s, resolved at %s, after %s: %s.", localTime(inc.Opened), localTime(inc.Ended),
			format.Text.Duration(inc.Ended.Sub(inc.Opened)), resolutionText(inc.Resolution))
	}
	form := "The value is %s; the limit is %s."
	if inc.Value < inc.Threshold {
		form = "The value is %s, below the limit of %s; the incident resolves once it stays well below."
	}
	s := fmt.Sprintf(form, formatValue(inc.Value, inc.Unit), formatValue(inc.Threshold, inc.Unit))
	switch {
	case inc.ReopenCount == 1:
		s += " Reopened once."
	case inc.ReopenCount > 1:
		s += fmt.Sprintf(" Reopened %d times.", inc.ReopenCount)
	}
	return s
}

func resolutionText(r engine.Resolution) string {
	switch r {
	case engine.Recovered:
		return "the value is back below the limit"
	case engine.NoTraffic:
		return "there is no traffic to measure"
	case engine.RuleDeleted:
		return "its rule or pool was removed from the configuration"
	default:
		return escape(string(r))
	}
}

// modeText is the pool's mode and its effect.
func modeText(n alerts.Notification) string {
	s := modeName(n.Mode)
	switch n.Mode {
	case "enforce":
		s += ": requests that would wait too long are rejected"
	case "observe":
		s += ": rejections are only counted"
	case passThrough:
		s += ": admission control is disabled"
	}
	if !n.ModeSince.IsZero() {
		s += "\nsince " + localTime(n.ModeSince)
	}
	return s
}

func modeName(mode string) string { return escape(cmp.Or(mode, "not known")) }

// rollbackCommand is the command that disables the pool's admission control, or enables it again.
func rollbackCommand(n alerts.Notification) string {
	pool := n.Incident.Key.Pool
	if n.Mode == passThrough {
		return "Done. To re-enable admission control: " + inlineCommand("restore --pool", pool)
	}
	return inlineCommand("rollback --pool", pool)
}

// stateText says who has acknowledged the incident, or how to.
func stateText(n alerts.Notification) string {
	inc := n.Incident
	s := "Not acknowledged: " + inlineCommand("incident ack", inc.ID)
	switch {
	case !inc.Open():
		s = "Resolved at " + localTime(inc.Ended)
	case !inc.AckUntil.IsZero():
		s = fmt.Sprintf("Acknowledged by %s until %s", displayActor(inc.AckedBy), localTime(inc.AckUntil))
	}
	if n.Event.Kind == engine.EventSilenced {
		s += "\n" + eventText(n)
	}
	return s
}

// eventText describes one event.
func eventText(n alerts.Notification) string {
	inc, e := n.Incident, n.Event
	at, by := formatValue(e.Value, inc.Unit), ""
	if e.By != "" {
		by = " by " + displayActor(e.By)
	}
	reason := ""
	if e.Text != "" {
		reason = ": " + escapeTo(e.Text, maxLine-150)
	}
	since := format.Text.Duration(e.At.Sub(inc.Opened))
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
		return "Over the limit again before it was resolved: " + at
	case engine.EventReopened:
		return "Reopened: " + valueAndLimit(inc)
	case engine.EventResolved:
		return fmt.Sprintf("Resolved after %s: %s", since, resolutionText(inc.Resolution))
	case engine.EventFlapping:
		return fmt.Sprintf("Flapping: %d times recently. Further changes are summarized", e.Count)
	case engine.EventSteady:
		return "No longer flapping: " + at
	case engine.EventAcked:
		return fmt.Sprintf("Acknowledged%s until %s", by, format.Time(inc.AckUntil))
	case engine.EventAckExpired:
		return "Acknowledgement expired, still open: " + valueAndLimit(inc)
	case engine.EventReminder:
		return fmt.Sprintf("Still open after %s: %s", since, valueAndLimit(inc))
	case engine.EventUnmuted:
		if !inc.Open() {
			return "Silence ended" + by + ": resolved at " + format.Time(inc.Ended)
		}
		return "Silence ended" + by + ": " + valueAndLimit(inc)
	case engine.EventMode:
		return "Mode " + modeName(n.Mode) + ", set" + by + reason
	case engine.EventSilenced:
		return "Silenced" + by + reason
	case engine.EventNote:
		return escapeTo(e.Text, maxLine-50) + by
	default:
		return escape(string(e.Kind)) + by
	}
}
