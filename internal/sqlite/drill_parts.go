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
	partRollbacks  = "undo"
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

// upsertPartSQL leaves what has not changed alone: a run is saved every second or so.
func upsertPartSQL() string {
	return partTable.upsertSQL() + " WHERE excluded.body <> drill_parts.body"
}

// phaseJSON and the others are how things are written down. Times are milliseconds,
// lengths nanoseconds.
type phaseJSON struct {
	Name  string `json:"name"`
	Began int64  `json:"began_ms"`
	Ended int64  `json:"ended_ms"`
	Note  string `json:"note"`
}

type hypothesisJSON struct {
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

type rollbackJSON struct {
	What string `json:"what"`
	At   int64  `json:"at_ms"`
	Took int64  `json:"took_ns"`
	OK   bool   `json:"ok"`
	Note string `json:"note"`
}

type messageJSON struct {
	Incident string `json:"incident"`
	Kind     string `json:"kind"`
	Level    string `json:"level"`
	Channel  string `json:"channel"`
	Text     string `json:"text"`
	Made     int64  `json:"made_ms"`
	Accepted int64  `json:"accepted_ms"`
}

// encodeItems writes a list, as much of it as fits.
func encodeItems[T, I any](all []T, item func(T) I) string {
	var out strings.Builder
	out.WriteByte('[')
	for n, v := range all[:min(len(all), maxItems)] {
		text, err := encodeJSON(item(v))
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

func encodeJSON(v any) (string, error) {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(v)
	return strings.TrimSuffix(out.String(), "\n"), err
}

// encodeParts writes the parts of a run.
func encodeParts(r drill.Run) map[string]string {
	return map[string]string{
		partPhases: encodeItems(r.Phases, func(p drill.Phase) phaseJSON {
			return phaseJSON{cleanWord(string(p.Name)), ms(p.Started), ms(p.Ended), clean(p.Note, maxNote)}
		}),
		partHypotheses: encodeItems(r.Hypotheses, func(h drill.Hypothesis) hypothesisJSON {
			return hypothesisJSON{
				cleanWord(string(h.Measure)), clean(string(h.Compare), maxWord), finiteOrZero(h.Limit), clean(h.Unit, maxWord),
				h.Measured, finiteOrZero(h.Value), finiteOrZero(h.Margin), h.Passed, clean(h.Evidence, maxNote), clean(h.Reason, maxNote),
			}
		}),
		partRollbacks: encodeItems(r.UndoResults, func(u drill.UndoResult) rollbackJSON {
			return rollbackJSON{clean(u.What, maxNote), ms(u.At), int64(max(u.Took, 0)), u.OK, clean(u.Note, maxNote)}
		}),
		partMessages: encodeItems(r.Messages, func(m drill.Message) messageJSON {
			return messageJSON{cleanName(m.Incident), cleanWord(m.Kind), cleanWord(m.Level), cleanName(m.Channel), cleanLines(m.Text, maxReason), ms(m.FirstAttempt), ms(m.Accepted)}
		}),
	}
}

// cleanWord writes a word that the program has made.
func cleanWord(s string) string { return clean(s, maxWord) }

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

// encodeSpec writes a spec, as it is frozen with a run.
func encodeSpec(s drill.Spec) (string, error) {
	text, err := encodeJSON(s)
	if err != nil {
		return "", err
	}
	if len(text) > maxBody {
		return "", fmt.Errorf("the spec of a drill must have at most %d bytes, has %d", maxBody, len(text))
	}
	return text, nil
}

// saveParts writes the parts of a run. The spec was written with its claim.
func (l *txWriter) saveParts(ctx context.Context, r drill.Run) error {
	for part, body := range encodeParts(r) {
		if _, err := l.writeRow(ctx, upsertPartSQL(), []any{r.ID, part, body}); err != nil {
			return err
		}
	}
	return l.saveSeries(ctx, r.ID, r.Series)
}

// partRow is a part of some run.
type partRow struct{ run, part, body string }

func decodePart(v []any) (partRow, error) {
	f := rowDecoder{table: partTable.name}
	p := partRow{f.id("run", v[0]), f.word("part", v[1]), f.raw("body", v[2])}
	return p, f.err
}

// applyTo puts a part where it belongs. Parts that later versions add are left out.
func (p partRow) applyTo(r *drill.Run) error {
	f := rowDecoder{table: partTable.name}
	switch p.part {
	case partSpec:
		r.Spec = f.spec(p.body)
	case partPhases:
		r.Phases = decodeItems(&f, p.body, func(i phaseJSON) drill.Phase {
			return drill.Phase{Name: drill.PhaseName(f.word("body", i.Name)), Started: f.optionalTime("body", i.Began), Ended: f.optionalTime("body", i.Ended),
				Note: f.text("body", i.Note, maxNote)}
		})
	case partHypotheses:
		r.Hypotheses = decodeItems(&f, p.body, f.hypothesis)
	case partRollbacks:
		r.UndoResults = decodeItems(&f, p.body, func(i rollbackJSON) drill.UndoResult {
			return drill.UndoResult{What: f.text("body", i.What, maxNote), At: f.optionalTime("body", i.At), Took: f.duration("body", i.Took), OK: i.OK,
				Note: f.text("body", i.Note, maxNote)}
		})
	case partMessages:
		r.Messages = decodeItems(&f, p.body, func(i messageJSON) drill.Message {
			return drill.Message{Incident: f.text("body", i.Incident, maxName), Kind: f.text("body", i.Kind, maxWord), Level: f.text("body", i.Level, maxWord),
				Channel: f.text("body", i.Channel, maxName), Text: f.lines("body", i.Text, maxReason), FirstAttempt: f.optionalTime("body", i.Made), Accepted: f.optionalTime("body", i.Accepted)}
		})
	}
	return f.err
}

func (f *rowDecoder) hypothesis(i hypothesisJSON) drill.Hypothesis {
	return drill.Hypothesis{
		Expectation: drill.Expectation{
			Measure: drill.Measure(f.text("body", i.Measure, maxWord)), Compare: drill.Compare(f.text("body", i.Compare, maxWord)),
			Limit: i.Limit, Unit: f.text("body", i.Unit, maxWord),
		},
		Measured: i.Known, Value: i.Value, Margin: i.Margin, Passed: i.Passed,
		Evidence: f.text("body", i.Evidence, maxNote), Reason: f.text("body", i.Why, maxNote),
	}
}

// decodeItems reads a list that items has written; nil if it is empty.
func decodeItems[I, T any](f *rowDecoder, body string, from func(I) T) []T {
	var all []I
	if err := decodeStrict(body, &all); err != nil || len(all) > maxItems {
		f.fail("body")
		return nil
	}
	var out []T
	for _, i := range all {
		out = append(out, from(i))
	}
	return out
}

// decodeStrict reads one value and nothing else.
func decodeStrict(text string, v any) error {
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
func (f *rowDecoder) lines(column string, v any, most int) string {
	s, _ := v.(string)
	all := strings.Split(s, "\n")
	for n := range all {
		all[n] = f.text(column, all[n], most)
	}
	return strings.Join(all, "\n")
}

// spec reads a frozen spec. Whether it could run is not asked: it has.
func (f *rowDecoder) spec(body string) drill.Spec {
	var s drill.Spec
	if err := decodeStrict(body, &s); err != nil {
		f.fail("body")
		return drill.Spec{}
	}
	for _, text := range []*string{&s.ID, &s.Name, &s.Note, &s.Owner, &s.Schedule, &s.Zone, &s.Pool, &s.Scenario.Service} {
		*text = f.lines("body", *text, maxReason)
	}
	for _, es := range [][]drill.Expectation{s.Expect, s.AbortIf} {
		for n := range es {
			es[n].Measure, es[n].Compare, es[n].Unit = cleanSpecWord(f, es[n].Measure), cleanSpecWord(f, es[n].Compare), cleanSpecWord(f, es[n].Unit)
		}
	}
	for _, is := range [][]drill.Injection{s.Scenario.Faults, s.Scenario.Slack} {
		for n := range is {
			is[n].Kind = cleanSpecWord(f, is[n].Kind)
		}
	}
	for n := range s.Scenario.Steps {
		s.Scenario.Steps[n].Kind = cleanSpecWord(f, s.Scenario.Steps[n].Kind)
	}
	s.Target = cleanSpecWord(f, s.Target)
	return s
}

// cleanSpecWord reads a word of a spec, which must be fit to be shown.
func cleanSpecWord[T ~string](f *rowDecoder, v T) T { return T(f.text("body", string(v), maxName)) }
