package slack

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/slack-go/slack"

	"headgate/alerts"
	"headgate/engine"
	"headgate/internal/format"
)

var update = flag.Bool("update", false, "write the golden files")

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// sampleDelivery is a page about the queue's age, opened at noon.
func sampleDelivery(change ...func(*alerts.Delivery)) alerts.Delivery {
	inc := engine.Incident{
		ID: "0195a0b0-0000-7000-8000-000000000001", Key: engine.Key{Rule: "queue_age", Pool: "default"},
		Level: engine.LevelPage, Peak: engine.LevelPage, Opened: noon, Changed: noon,
		Value: 31.24, Threshold: 25, Unit: "s", Summary: "The oldest queued task waits too long",
		Impact: "Answers begin late; new work is refused with 429.", Runbook: "queue-age", Seq: 1,
	}
	d := alerts.Delivery{
		ID: "0195a0b0-0000-7000-8000-0000000000d1", Incident: inc.ID, Seq: 1, Kind: alerts.Post, Destination: alerts.ToPage,
		Created: noon, Attempts: 1, State: alerts.Sending,
		Notification: alerts.Notification{
			Incident: inc, Mode: "enforce", ModeSince: noon.Add(-48 * time.Hour), Ping: true,
			Event: engine.Event{Incident: inc.ID, Seq: 1, Kind: engine.EventOpened, At: noon, Level: engine.LevelPage, Value: 31.24},
		},
	}
	for _, c := range change {
		c(&d)
	}
	return d
}

// atEvent makes it a later event.
func atEvent(kind engine.EventKind, as alerts.Kind, by time.Duration) func(*alerts.Delivery) {
	return func(d *alerts.Delivery) {
		d.Kind, d.Seq, d.Notification.Incident.Seq, d.Notification.Event.Seq = as, 2, 2, 2
		d.Notification.Event.Kind, d.Notification.Event.At, d.Created = kind, noon.Add(by), noon.Add(by)
	}
}

func resolved(d *alerts.Delivery) {
	d.Notification.Incident.Ended, d.Notification.Incident.Resolution = noon.Add(5*time.Minute), engine.Recovered
	d.Notification.Incident.Value, d.Notification.Event.Value = 3, 3
}

func warned(d *alerts.Delivery) {
	d.Notification.Incident.Level, d.Notification.Incident.Peak, d.Notification.Event.Level = engine.LevelWarn, engine.LevelWarn, engine.LevelWarn
	d.Notification.Incident.Threshold, d.Notification.Incident.Value, d.Notification.Ping = 15, 16.5, false
}

func acked(d *alerts.Delivery) {
	d.Notification.Incident.AckedBy, d.Notification.Event.By, d.Notification.Incident.AckUntil = "ann", "ann", noon.Add(time.Hour)
	d.Notification.Ping = false
}

func editNotification(f func(*alerts.Notification)) func(*alerts.Delivery) {
	return func(d *alerts.Delivery) { f(&d.Notification) }
}

var threadRoot = alerts.Ref{Channel: "C1", TS: "1.1"}

type renderCase struct {
	name  string
	d     alerts.Delivery
	root  alerts.Ref
	links string
	plain bool

	pressable bool
}

func renderCases() []renderCase {
	awkward := editNotification(func(n *alerts.Notification) {
		n.Incident.Key.Pool, n.Incident.Summary, n.Incident.Impact = `a<b>&"c"`, `Pool a<b>&"c" is slow <!here>`, "x\x00\u202ey `z`"
		n.Incident.Runbook, n.Event.By = "a|b>c", "<@U1>"
	})
	long := editNotification(func(n *alerts.Notification) {
		n.Incident.Summary, n.Incident.Impact = strings.Repeat("s", 3001), strings.Repeat("&", 3001)
		n.Incident.Key.Pool = strings.Repeat("p", 3001)
	})
	links := "https://gate.example"
	return []renderCase{
		{name: "opened-page", d: sampleDelivery()},
		{name: "opened-page-links", d: sampleDelivery(), links: links},
		{name: "opened-warn", d: sampleDelivery(warned)},
		{name: "opened-plain", d: sampleDelivery(), plain: true},
		{name: "escalated-edit", d: sampleDelivery(atEvent(engine.EventEscalated, alerts.Edit, time.Minute)), root: threadRoot},
		{name: "escalated-reply", d: sampleDelivery(atEvent(engine.EventEscalated, alerts.Reply, time.Minute)), root: threadRoot},
		{name: "acked-edit", d: sampleDelivery(atEvent(engine.EventAcked, alerts.Edit, time.Minute), acked), root: threadRoot},
		{name: "acked-reply", d: sampleDelivery(atEvent(engine.EventAcked, alerts.Reply, time.Minute), acked), root: threadRoot},
		{name: "resolved-edit", d: sampleDelivery(atEvent(engine.EventResolved, alerts.Edit, 5*time.Minute), resolved), root: threadRoot},
		{name: "resolved-reply", d: sampleDelivery(atEvent(engine.EventResolved, alerts.Reply, 5*time.Minute), resolved), root: threadRoot},
		{name: "reminder-reply", d: sampleDelivery(atEvent(engine.EventReminder, alerts.Reply, time.Hour)), root: threadRoot},
		{name: "flapping-reply", d: sampleDelivery(atEvent(engine.EventFlapping, alerts.Reply, time.Hour), editNotification(func(n *alerts.Notification) {
			n.Incident.Flapping, n.Event.Count = true, 6
		})), root: threadRoot},
		{name: "combined", d: sampleDelivery(resolved, editNotification(func(n *alerts.Notification) { n.Combined, n.Late = true, true }))},
		{name: "unrecorded", d: sampleDelivery(editNotification(func(n *alerts.Notification) { n.Unrecorded = true }))},
		{name: "drill", d: sampleDelivery(editNotification(func(n *alerts.Notification) { n.Drill, n.Ping = true, false }))},
		{name: "diverted-repeat", d: sampleDelivery(editNotification(func(n *alerts.Notification) {
			n.FallbackReason, n.FallbackFrom, n.PossibleDuplicate = "is_archived", alerts.ToPage, true
		}))},
		{name: "rolled-back", d: sampleDelivery(editNotification(func(n *alerts.Notification) { n.Mode = "passthrough" }))},
		{name: "process-wide", d: sampleDelivery(editNotification(func(n *alerts.Notification) {
			n.Incident.Key.Pool, n.Mode, n.Incident.Unit, n.Incident.Value, n.Incident.Threshold = "", "", "ratio", 0.123, 0.05
		}))},
		{name: "awkward", d: sampleDelivery(awkward), links: links},
		{name: "awkward-reply", d: sampleDelivery(atEvent(engine.EventAcked, alerts.Reply, time.Minute), acked, awkward), root: threadRoot},
		{name: "long", d: sampleDelivery(long), links: links},
		{name: "long-without-links", d: sampleDelivery(long)},
		{name: "buttons", d: sampleDelivery(withLoad), pressable: true},
		{name: "buttons-links", d: sampleDelivery(withLoad), links: links, pressable: true},
		{name: "buttons-acked", d: sampleDelivery(atEvent(engine.EventAcked, alerts.Edit, time.Minute), acked, withLoad), root: threadRoot, pressable: true},
		{name: "buttons-rolled-back", d: sampleDelivery(atEvent(engine.EventMode, alerts.Edit, time.Minute), rolledBack, withLoad), root: threadRoot, pressable: true},
		{name: "buttons-over-rolled-back", d: sampleDelivery(atEvent(engine.EventMode, alerts.Edit, time.Minute), resolved, rolledBack), root: threadRoot, pressable: true},
		{name: "buttons-over", d: sampleDelivery(atEvent(engine.EventResolved, alerts.Edit, 5*time.Minute), resolved), root: threadRoot, pressable: true},
		{name: "buttons-drill", d: sampleDelivery(editNotification(func(n *alerts.Notification) { n.Drill, n.Ping = true, false })), pressable: true},
		{name: "buttons-plain", d: sampleDelivery(withLoad), plain: true, pressable: true},
		{name: "buttons-awkward", d: sampleDelivery(awkward, withLoad), links: links, pressable: true},
		{name: "buttons-long", d: sampleDelivery(long, withLoad), links: links, pressable: true},
		{name: "silenced-edit", d: sampleDelivery(atEvent(engine.EventSilenced, alerts.Edit, time.Minute), silenced), root: threadRoot},
		{name: "silenced-reply", d: sampleDelivery(atEvent(engine.EventSilenced, alerts.Reply, time.Minute), silenced), root: threadRoot},
		{name: "rolled-back-reply", d: sampleDelivery(atEvent(engine.EventMode, alerts.Reply, time.Minute), rolledBack), root: threadRoot},
		{name: "noted-reply", d: sampleDelivery(atEvent(engine.EventNote, alerts.Reply, time.Minute), editNotification(func(n *alerts.Notification) {
			n.Event.By, n.Event.Text = "headgate", "No further rollback today: 3 of 3 <used>"
		})), root: threadRoot},
		{name: "notice", d: alerts.Routes{Page: "C1"}.NewNotice("0195a0b0-0000-7000-8000-00000000000d", "change-1-h2", "default",
			"Pool default has been in pass-through for 2 h. To put the gate back: headgate restore --pool default", noon, false), pressable: true},
	}
}

func withLoad(d *alerts.Delivery) {
	d.Notification.Running, d.Notification.Queued, d.Notification.LoadKnown = 4, 11, true
}

func silenced(d *alerts.Delivery) {
	d.Notification.Event.By, d.Notification.Event.Text, d.Notification.Ping = Actor("U0ADA"), "for 1h, until 13:00:00 UTC", false
}

func rolledBack(d *alerts.Delivery) {
	d.Notification.Mode, d.Notification.ModeSince, d.Notification.Ping = "passthrough", noon.Add(time.Minute), false
	d.Notification.Event.By, d.Notification.Event.Text = Actor("U0ADA"), "too much is refused"
}

func (s renderCase) renderer(t *testing.T) renderer {
	t.Helper()
	here, err := ParseMention("<!here>")
	if err != nil {
		t.Fatal(err)
	}
	r, err := newRenderer(s.links, here)
	if err != nil {
		t.Fatal(err)
	}
	r.withButtons = s.pressable
	return r
}

func TestGoldenMessages(t *testing.T) {
	for _, s := range renderCases() {
		t.Run(s.name, func(t *testing.T) {
			m := s.renderer(t).render(s.d, s.root, s.plain)
			check(t, m)
			blocks, err := json.MarshalIndent(m.blocks, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			readable := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(string(blocks))
			got := m.text + "\n\n" + readable + "\n"
			file := filepath.Join("testdata", s.name+".txt")
			if *update {
				if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("differs (-want +got):\n%s", diff)
			}
		})
	}
}

// markup is everything in angle brackets that we write ourselves.
var markup = regexp.MustCompile(`<!date\^\d+\^\{date_short_pretty\} \{time_secs\}\|[-0-9: ]+ UTC>|<!here>|<@U0ADA>|<https://gate\.example/[^<>|]*\|[^<>|]*>`)

var entityPattern = regexp.MustCompile(`&(?:amp|lt|gt);`)

// check holds a message against Slack's limits.
func check(t *testing.T, m message) {
	t.Helper()
	total := 0
	limit := func(what string, s string, n int) {
		c := utf8.RuneCountInString(s)
		total += c
		if c == 0 || c > n {
			t.Errorf("%s has %d characters, allowed are 1 to %d", what, c, n)
		}
	}
	free := func(s string) {
		rest := entityPattern.ReplaceAllString(markup.ReplaceAllString(s, ""), "")
		if strings.ContainsAny(rest, "<>&") {
			t.Errorf("markup from outside in %q", s)
		}
		if !utf8.ValidString(s) {
			t.Errorf("%q is not UTF-8", s)
		}
	}
	if m.text == "" || utf8.RuneCountInString(m.text) > 2500 {
		t.Errorf("notification text of %d characters", utf8.RuneCountInString(m.text))
	}
	free(m.text)
	if len(m.blocks) > 50 {
		t.Errorf("%d blocks", len(m.blocks))
	}
	ids := make(map[string]bool)
	for _, b := range m.blocks {
		if id := b.ID(); id == "" || ids[id] || len(id) > 255 {
			t.Errorf("block ID %q", id)
		}
		ids[b.ID()] = true
		switch b := b.(type) {
		case *slack.HeaderBlock:
			limit("a header", b.Text.Text, 150)
		case *slack.SectionBlock:
			if b.Text != nil {
				limit("a section", b.Text.Text, 3000)
				free(b.Text.Text)
			}
			if len(b.Fields) > 10 {
				t.Errorf("%d fields", len(b.Fields))
			}
			for _, f := range b.Fields {
				limit("a field", f.Text, 2000)
				free(f.Text)
			}
		case *slack.ContextBlock:
			text := b.ContextElements.Elements[0].(*slack.TextBlockObject).Text
			limit("a context", text, 3000)
			free(text)
		case *slack.ActionBlock:
			checkButtons(t, b, limit)
		default:
			t.Errorf("a block of type %T", b)
		}
	}
	if total >= maxTotal {
		t.Errorf("%d characters in all, want under %d", total, maxTotal)
	}
}

func TestEveryEventHasText(t *testing.T) {
	r := renderCase{}.renderer(t)
	for _, k := range []engine.EventKind{
		engine.EventOpened, engine.EventEscalated, engine.EventDeescalated, engine.EventRecovering, engine.EventRefired,
		engine.EventReopened, engine.EventResolved, engine.EventFlapping, engine.EventSteady, engine.EventAcked,
		engine.EventAckExpired, engine.EventReminder, engine.EventUnmuted, engine.EventMode, engine.EventSilenced,
		"a new <kind>",
	} {
		m := r.render(sampleDelivery(atEvent(k, alerts.Reply, time.Minute)), threadRoot, false)
		check(t, m)
		if strings.Contains(m.text, string(k)) && k != engine.EventReminder {
			t.Errorf("%s: %q shows the word of the program", k, m.text)
		}
	}
}

func TestMentionOnlyInPings(t *testing.T) {
	r := renderCase{}.renderer(t)
	tests := []struct {
		name string
		kind alerts.Kind
		root alerts.Ref
		ping bool
		want bool
	}{
		{"a post that pings", alerts.Post, alerts.Ref{}, true, true},
		{"a post that does not", alerts.Post, alerts.Ref{}, false, false},
		{"an edit", alerts.Edit, threadRoot, true, false},
		{"a reply that pings", alerts.Reply, threadRoot, true, true},
		{"a reply that does not", alerts.Reply, threadRoot, false, false},
	}
	for _, tt := range tests {
		for _, plain := range []bool{false, true} {
			d := sampleDelivery(func(d *alerts.Delivery) { d.Kind, d.Notification.Ping = tt.kind, tt.ping })
			m := r.render(d, tt.root, plain)
			if got := strings.HasPrefix(m.text, "<!here> "); got != tt.want {
				t.Errorf("%s, plain %v: text %q", tt.name, plain, m.text)
			}
			raw, _ := json.Marshal(m.blocks)
			if got := strings.Contains(string(raw), `\u003c!here\u003e`); got != (tt.want && !plain) {
				t.Errorf("%s, plain %v: blocks %s", tt.name, plain, raw)
			}
		}
	}
}

func TestBlockIDsAreUnique(t *testing.T) {
	r := renderCase{}.renderer(t)
	seen := make(map[string]bool)
	for seq := 1; seq <= 3; seq++ {
		for attempt := 1; attempt <= 3; attempt++ {
			m := r.render(sampleDelivery(func(d *alerts.Delivery) { d.Seq, d.Attempts = seq, attempt }), alerts.Ref{}, false)
			for _, b := range m.blocks {
				if seen[b.ID()] {
					t.Errorf("%s is used again", b.ID())
				}
				seen[b.ID()] = true
			}
		}
	}
}

func TestParseMention(t *testing.T) {
	for _, s := range []string{"", "<!here>", "<!channel>", "<!subteam^S012AB>", "<@U012AB>", " <!here>  <@W9Z8Y7> "} {
		if m, err := ParseMention(s); err != nil || m.markup != strings.Join(strings.Fields(s), " ") {
			t.Errorf("%q: %q, %v", s, m.markup, err)
		}
	}
	tests := []struct{ in, hint string }{
		{"@here", "<!here>"}, {"@channel", "<!channel>"}, {"here", "<!here>"}, {"S012AB", "<!subteam^S012AB>"}, {"U012AB", "<@U012AB>"},
		{"@ops", "<!subteam^S…>"}, {"<!here|x>", "<!here>"}, {"<https://x>", "<@U…>"}, {"<@u1>", "<@U…>"},
		{strings.Repeat("<!here> ", 11), "at most 10"},
	}
	for _, tt := range tests {
		if _, err := ParseMention(tt.in); err == nil || !strings.Contains(err.Error(), tt.hint) {
			t.Errorf("%q: %v, want a hint at %s", tt.in, err, tt.hint)
		}
	}
}

func TestFormatValue(t *testing.T) {
	tests := []struct {
		v    float64
		unit string
		want string
	}{
		{31.24, "s", "31.2 s"}, {0.005, "s", "0.005 s"}, {3600, "s", "60 min"}, {25, "s", "25 s"}, {0.05, "ratio", "5 %"},
		{0.1234, "ratio", "12.3 %"}, {8, "tasks", "8 tasks"}, {14.4, "x", "14.4×"}, {0, "", "0"}, {1234.5, "", "1234"},
		{1, "a<b", "1 a&lt;b"}, {1e300, "", "1e+300"}, {-2.5, "s", "-2.5 s"},
	}
	for _, tt := range tests {
		if got := formatValue(tt.v, tt.unit); got != tt.want {
			t.Errorf("%v %q: %q, want %q", tt.v, tt.unit, got, tt.want)
		}
	}
}

func TestLocalTime(t *testing.T) {
	zone := time.FixedZone("x", 7200)
	want := "<!date^1772366400^{date_short_pretty} {time_secs}|2026-03-01 12:00:00 UTC> (12:00:00 UTC)"
	if got := localTime(noon.In(zone)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

func FuzzRender(f *testing.F) {
	f.Add(`a<b>&"c"`, "feel", "run|book", "pool", "s", 1.5, uint8(0))
	f.Add(strings.Repeat("&", 3001), strings.Repeat("<", 3001), "x", strings.Repeat("é", 3001), "", -1e300, uint8(255))
	f.Add("\xff\x00\u202e", "`*_~", "\n\n", "<!here>", "ratio", 0.0, uint8(3))
	f.Fuzz(func(t *testing.T, summary, feel, runbook, name, unit string, v float64, bits uint8) {
		d := sampleDelivery()
		n := &d.Notification
		n.Incident.Summary, n.Incident.Impact, n.Incident.Runbook = summary, feel, runbook
		n.Incident.Key.Pool, n.Incident.Key.Rule, n.Incident.ID, n.Incident.AckedBy = name, name, name, name
		n.Incident.Unit, n.Incident.Value, n.Event.Value, n.Event.By, n.Mode = unit, v, v, name, name
		n.FallbackReason, n.FallbackFrom, n.Incident.Resolution = feel, alerts.Destination(name), engine.Resolution(name)
		n.Event.Kind = engine.EventKind(name)
		n.Drill, n.Unrecorded, n.PossibleDuplicate, n.Late = bits&1 > 0, bits&2 > 0, bits&4 > 0, bits&8 > 0
		if bits&16 > 0 {
			n.Incident.Ended = noon
		}
		if bits&32 > 0 {
			n.Incident.AckUntil = noon
		}
		if bits&64 > 0 {
			d.Kind = alerts.Reply
		}
		s := renderCase{links: "https://gate.example"}
		if bits&128 > 0 {
			s.links = ""
		}
		for _, root := range []alerts.Ref{{}, threadRoot} {
			for _, plain := range []bool{false, true} {
				check(t, s.renderer(t).render(d, root, plain))
			}
		}
	})
}

func FuzzEscapeTruncate(f *testing.F) {
	f.Add("a<b>&\"c\"", 5)
	f.Add("\xff&&&&", 3)
	f.Fuzz(func(t *testing.T, s string, n int) {
		n = 1 + max(n, -n)%100
		if n < 1 {
			n = 1
		}
		out, cut := escapeTruncate(s, n)
		if c := utf8.RuneCountInString(out); c > n {
			t.Errorf("%d characters, at most %d", c, n)
		}
		if cut != strings.HasSuffix(out, format.Ellipsis) && !strings.Contains(s, format.Ellipsis) {
			t.Errorf("cut %v, but %q", cut, out)
		}
		if strings.ContainsAny(entityPattern.ReplaceAllString(out, ""), "<>&") {
			t.Errorf("%q became %q", s, out)
		}
	})
}

func FuzzParseMention(f *testing.F) {
	f.Add("<!here> <@U1>")
	f.Fuzz(func(t *testing.T, s string) {
		m, err := ParseMention(s)
		if err == nil && mention.ReplaceAllString(m.markup, "") != "" {
			t.Errorf("%q was taken as %q", s, m.markup)
		}
		if err != nil && len(err.Error()) > 500 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}

var mention = regexp.MustCompile(`(^| )<(!here|!channel|!everyone|!subteam\^S\w+|@[UW]\w+)>`)

func TestTruncateMarkup(t *testing.T) {
	tests := []struct {
		in   string
		n    int
		want string
	}{
		{"abcdef", 6, "abcdef"}, {"abcdef", 5, "abcd…"}, {"ab&amp;cd", 6, "ab…"}, {"ab&amp;cd", 8, "ab&amp;…"},
		{"ab<https://x|y>cd", 9, "ab…"}, {"ab<!here>cdef", 10, "ab<!here>…"},
	}
	for _, tt := range tests {
		if got := truncateMarkup(tt.in, tt.n); got != tt.want {
			t.Errorf("%q at %d: %q, want %q", tt.in, tt.n, got, tt.want)
		}
	}
}

func TestInlineCommandQuoting(t *testing.T) {
	tests := map[string]string{
		"default": "`headgate ack default`", "a b": "`headgate ack 'a b'`", "x;rm": "`headgate ack 'x;rm'`", "": "`headgate ack ''`",
	}
	for arg, want := range tests {
		if got := inlineCommand("ack", arg); got != want {
			t.Errorf("%q: %s, want %s", arg, got, want)
		}
	}
}

func ExampleParseMention() {
	_, err := ParseMention("@here")
	fmt.Println(err)
	// Output: "@here" is not a mention: Slack ignores plain text, write <!here>
}

func checkButtons(t *testing.T, b *slack.ActionBlock, limit func(what, s string, n int)) {
	t.Helper()
	if n := len(b.Elements.ElementSet); n < 1 || n > 25 {
		t.Errorf("%d buttons", n)
	}
	actions := make(map[string]bool)
	for _, e := range b.Elements.ElementSet {
		button := e.(*slack.ButtonBlockElement)
		limit("a button", button.Text.Text, 75)
		limit("a value", button.Value, 2000)
		if _, err := parseButtonValue(button.Value); err != nil {
			t.Errorf("%q cannot be read again", button.Value)
		}
		if actions[button.ActionID] {
			t.Errorf("two buttons are %s", button.ActionID)
		}
		actions[button.ActionID] = true
		if c := button.Confirm; c != nil {
			limit("a question's title", c.Title.Text, 100)
			limit("a question", c.Text.Text, 300)
			limit("a question's yes", c.Confirm.Text, 30)
			limit("a question's no", c.Deny.Text, 30)
		}
	}
}

// TestStatusSentence: an open incident whose value is below its limit again
// must not read like a mistake.
func TestStatusSentence(t *testing.T) {
	for value, want := range map[float64]string{
		20: "The value is 20 s; the limit is 20 s.",
		12: "The value is 12 s, below the limit of 20 s; the incident resolves once it stays well below. Reopened once.",
	} {
		inc := engine.Incident{Value: value, Threshold: 20, Unit: "s"}
		if value < 20 {
			inc.ReopenCount = 1
		}
		if got := statusSentence(inc); got != want {
			t.Errorf("story of %v: %q, want %q", value, got, want)
		}
	}
}

func TestPlainTextContent(t *testing.T) {
	w, err := NewPlainTextRenderer("https://gate.example")
	if err != nil {
		t.Fatal(err)
	}
	got := w.Render(sampleDelivery(), 2000)
	for _, want := range []string{"PAGE", "Impact: ", "Value: ", "State: ", "(https://gate.example/runbooks/", "Since: 2026-03-01 12:00:00 UTC\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("%q is not in:\n%s", want, got)
		}
	}
	reply := w.Render(sampleDelivery(atEvent(engine.EventAcked, alerts.Reply, time.Minute), acked), 2000)
	if !strings.Contains(reply, "ann") || strings.Contains(reply, "Impact") {
		t.Errorf("a line of the thread says:\n%s", reply)
	}
	if _, err := NewPlainTextRenderer("ftp://x"); err == nil {
		t.Error("links may lead to ftp")
	}
}

// TestPlainTextHasNoMarkup: of every message there is, nothing of Slack's markup is left,
// it has no control characters, and it is no longer than was asked.
func TestPlainTextHasNoMarkup(t *testing.T) {
	leftover := regexp.MustCompile(`<!date|<https?:|<!here|&amp;amp;|\*\*`)
	for _, s := range renderCases() {
		w, err := NewPlainTextRenderer(s.links)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 80, 2000} {
			got := w.Render(s.d, n)
			if strings.Contains(s.d.Notification.Incident.Summary, "<!here>") {
				got = strings.ReplaceAll(got, "<!here>", "") // part of the summary's text
			}
			if utf8.RuneCountInString(got) > n || got == "" || !utf8.ValidString(got) || strings.ContainsAny(got, "\x00\u202e") || leftover.MatchString(got) {
				t.Errorf("%s, %d: %q", s.name, n, got)
			}
		}
	}
}

// A notice calls whom it names, and nothing that is no mention gets through.
func TestNoticeMention(t *testing.T) {
	for by, want := range map[string]string{
		"<@U0ADA>": "<@U0ADA>", "<!subteam^S0OPS>": "<!subteam^S0OPS>", "ops": "", "<http://evil|click>": "", "": "",
	} {
		d := alerts.Routes{Page: "C1"}.NewNotice("id", "drill-1", "default", "Drill Burst: FAILED. a < b", noon, false)
		d.Notification.Event.By, d.Notification.Ping = by, true
		text := renderer{pageMention: Mention{markup: "<!here>"}}.render(d, alerts.Ref{}, true).text
		if calls, words := strings.CutSuffix(text, "Drill Burst: FAILED. a &lt; b"); !words || strings.TrimSpace(calls) != want {
			t.Errorf("%q says %q, want it to call %q", by, text, want)
		}
		d.Notification.Ping = false
		if text := (renderer{}).render(d, alerts.Ref{}, true).text; strings.Contains(text, "<") {
			t.Errorf("%q calls without a ping: %q", by, text)
		}
	}
}
