package sqlite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"headgate/runbooks/drill"
)

// The parts of a run that are kept as JSON.
const (
	partSpec       = "spec"
	partPhases     = "phases"
	partHypotheses = "hypotheses"
	partUndo       = "undo"
	partMessages   = "messages"
)

const (
	// maxBody bounds a part, in bytes: what is added when it is read must fit into
	// maxLength.
	maxBody  = 60_000
	maxNote  = 500 // notes, evidence
	maxItems = 1000
)

var partTable = table{name: "drill_parts", key: []string{"run", "part"}, columns: []string{"run", "part", "body"}}

// putPart leaves what has not changed alone: a run is saved every second or so.
func putPart() string { return partTable.put() + " WHERE excluded.body <> drill_parts.body" }

// phaseItem and the others are how things are written down. Times are milliseconds,
// lengths nanoseconds.
type phaseItem struct {
	Name  string `json:"name"`
	Began int64  `json:"began_ms"`
	Ended int64  `json:"ended_ms"`
	Note  string `json:"note"`
}

type hypothesisItem struct {
	Measure  string  `json:"measure"`
	Compare  string  `json:"compare"`
	Limit    float64 `json:"limit"`
	Unit     string  `json:"unit"`
	Known    bool    `json:"known"`
	Value    float64 `json:"value"`
	Margin   float64 `json:"margin"`
	Passed   bool    `json:"passed"`
	Evidence string  `json:"evidence"`
	Why      string  `json:"why"`
}

type undoneItem struct {
	What string `json:"what"`
	At   int64  `json:"at_ms"`
	Took int64  `json:"took_ns"`
	OK   bool   `json:"ok"`
	Note string `json:"note"`
}

type messageItem struct {
	Incident string `json:"incident"`
	Kind     string `json:"kind"`
	Level    string `json:"level"`
	Channel  string `json:"channel"`
	Text     string `json:"text"`
	Made     int64  `json:"made_ms"`
	Accepted int64  `json:"accepted_ms"`
}

// items writes a list, as much of it as fits.
func items[T, I any](all []T, item func(T) I) string {
	var out strings.Builder
	out.WriteByte('[')
	for n, v := range all[:min(len(all), maxItems)] {
		text, err := jsonText(item(v))
		if err != nil || out.Len()+len(text)+2 > maxBody { // what is written here has no way to fail
			break
		}
		if n > 0 {
			out.WriteByte(',')
		}
		out.WriteString(text)
	}
	out.WriteByte(']')
	return out.String()
}

func jsonText(v any) (string, error) {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(out.String(), "\n"), err
}

// parts writes the parts of a run.
func parts(r drill.Run) map[string]string {
	return map[string]string{
		partPhases: items(r.Phases, func(p drill.Phase) phaseItem {
			return phaseItem{word(string(p.Name)), ms(p.Began), ms(p.Ended), clean(p.Note, maxNote)}
		}),
		partHypotheses: items(r.Hypotheses, func(h drill.Hypothesis) hypothesisItem {
			return hypothesisItem{
				word(string(h.Measure)), clean(string(h.Compare), maxWord), finite(h.Limit), clean(h.Unit, maxWord),
				h.Known, finite(h.Value), finite(h.Margin), h.Passed, clean(h.Evidence, maxNote), clean(h.Why, maxNote),
			}
		}),
		partUndo: items(r.Undo, func(u drill.Undone) undoneItem {
			return undoneItem{clean(u.What, maxNote), ms(u.At), int64(max(u.Took, 0)), u.OK, clean(u.Note, maxNote)}
		}),
		partMessages: items(r.Messages, func(m drill.Message) messageItem {
			return messageItem{short(m.Incident), word(m.Kind), word(m.Level), short(m.Channel), cleanLines(m.Text, maxReason), ms(m.Made), ms(m.Accepted)}
		}),
	}
}

// word writes a word that the program has made.
func word(s string) string { return clean(s, maxWord) }

// cleanLines is clean for a text of several lines.
func cleanLines(s string, most int) string {
	if len(s) > most {
		for most > 0 && !utf8.RuneStart(s[most]) {
			most--
		}
		s = s[:most]
	}
	lines := strings.Split(s, "\n")
	for n := range lines {
		lines[n] = clean(lines[n], most)
	}
	return strings.Join(lines, "\n")
}

// specText writes a spec, as it is frozen with a run.
func specText(s drill.Spec) (string, error) {
	text, err := jsonText(s)
	if err != nil {
		return "", err
	}
	if len(text) > maxBody {
		return "", fmt.Errorf("the spec of a drill must have at most %d bytes, has %d", maxBody, len(text))
	}
	return text, nil
}

// saveParts writes the parts of a run. The spec was written with its claim.
func (l *ledger) saveParts(ctx context.Context, r drill.Run) error {
	for part, body := range parts(r) {
		if _, err := l.write(ctx, putPart(), []any{r.ID, part, body}); err != nil {
			return err
		}
	}
	return l.saveSeries(ctx, r.ID, r.Series)
}

// partRow is a part of some run.
type partRow struct{ run, part, body string }

func readPart(v []any) (partRow, error) {
	f := fields{table: partTable.name}
	p := partRow{f.id("run", v[0]), f.word("part", v[1]), f.raw("body", v[2])}
	return p, f.bad
}

// into puts a part where it belongs. Parts that later versions add are left out.
func (p partRow) into(r *drill.Run) error {
	f := fields{table: partTable.name}
	switch p.part {
	case partSpec:
		r.Spec = f.spec(p.body)
	case partPhases:
		r.Phases = each(&f, p.body, func(i phaseItem) drill.Phase {
			return drill.Phase{Name: drill.PhaseName(f.word("body", i.Name)), Began: f.when("body", i.Began), Ended: f.when("body", i.Ended),
				Note: f.text("body", i.Note, maxNote)}
		})
	case partHypotheses:
		r.Hypotheses = each(&f, p.body, f.hypothesis)
	case partUndo:
		r.Undo = each(&f, p.body, func(i undoneItem) drill.Undone {
			return drill.Undone{What: f.text("body", i.What, maxNote), At: f.when("body", i.At), Took: f.length("body", i.Took), OK: i.OK,
				Note: f.text("body", i.Note, maxNote)}
		})
	case partMessages:
		r.Messages = each(&f, p.body, func(i messageItem) drill.Message {
			return drill.Message{Incident: f.text("body", i.Incident, maxName), Kind: f.text("body", i.Kind, maxWord), Level: f.text("body", i.Level, maxWord),
				Channel: f.text("body", i.Channel, maxName), Text: f.lines("body", i.Text, maxReason), Made: f.when("body", i.Made), Accepted: f.when("body", i.Accepted)}
		})
	}
	return f.bad
}

func (f *fields) hypothesis(i hypothesisItem) drill.Hypothesis {
	return drill.Hypothesis{
		Expectation: drill.Expectation{
			Measure: drill.Measure(f.text("body", i.Measure, maxWord)), Compare: drill.Compare(f.text("body", i.Compare, maxWord)),
			Limit: i.Limit, Unit: f.text("body", i.Unit, maxWord),
		},
		Known: i.Known, Value: i.Value, Margin: i.Margin, Passed: i.Passed,
		Evidence: f.text("body", i.Evidence, maxNote), Why: f.text("body", i.Why, maxNote),
	}
}

// each reads a list that items has written; nil if it is empty.
func each[I, T any](f *fields, body string, from func(I) T) []T {
	var all []I
	if err := strictJSON(body, &all); err != nil || len(all) > maxItems {
		f.fail("body")
		return nil
	}
	var out []T
	for _, i := range all {
		out = append(out, from(i))
	}
	return out
}

// strictJSON reads one value and nothing else.
func strictJSON(text string, v any) error {
	dec := json.NewDecoder(strings.NewReader(text))
	if err := dec.Decode(v); err != nil {
		return err
	}
	if dec.More() {
		return errors.New("more than one value")
	}
	return nil
}

// lines is text for several lines.
func (f *fields) lines(column string, v any, most int) string {
	s, _ := v.(string)
	all := strings.Split(s, "\n")
	for n := range all {
		all[n] = f.text(column, all[n], most)
	}
	return strings.Join(all, "\n")
}

// spec reads a frozen spec. Whether it could run is not asked: it has.
func (f *fields) spec(body string) drill.Spec {
	var s drill.Spec
	if err := strictJSON(body, &s); err != nil {
		f.fail("body")
		return drill.Spec{}
	}
	for _, text := range []*string{&s.ID, &s.Name, &s.Note, &s.Owner, &s.Schedule, &s.Zone, &s.Pool, &s.Scenario.Service} {
		*text = f.lines("body", *text, maxReason)
	}
	for _, es := range [][]drill.Expectation{s.Expect, s.AbortIf} {
		for n := range es {
			es[n].Measure, es[n].Compare, es[n].Unit = shown(f, es[n].Measure), shown(f, es[n].Compare), shown(f, es[n].Unit)
		}
	}
	for _, is := range [][]drill.Injection{s.Scenario.Faults, s.Scenario.Slack} {
		for n := range is {
			is[n].Kind = shown(f, is[n].Kind)
		}
	}
	for n := range s.Scenario.Steps {
		s.Scenario.Steps[n].Kind = shown(f, s.Scenario.Steps[n].Kind)
	}
	s.Target = shown(f, s.Target)
	return s
}

// shown reads a word of a spec, which must be fit to be shown.
func shown[T ~string](f *fields, v T) T { return T(f.text("body", string(v), maxName)) }
