package sqlite

import (
	"encoding/json"
	"io"
	"strings"

	"headgate/alerts"
)

// noteTable names the parts of a note besides the incident and the event, as if they
// were columns.
var noteTable = table{name: "note", columns: []string{
	"mode", "mode_since_ms", "ping", "combined", "unrecorded", "drill", "silenced", "late", "repeat", "from", "diverted",
	"running", "queued", "counted",
}}

// noteText is a note in JSON. Its values go through the same checks as those of
// columns.
type noteText struct {
	Incident map[string]any `json:"incident"`
	Event    map[string]any `json:"event"`
	Rest     map[string]any `json:"note"`
}

// encodeNote writes a note. Its texts are made fit, so that it is never too long
// for a row.
func encodeNote(n alerts.Note) (string, error) {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(noteText{
		Incident: incidentTable.object(incidentValues(n.Incident)),
		Event:    eventTable.object(eventValues(n.Event)),
		Rest: noteTable.object([]any{
			short(n.Mode), ms(n.ModeSince), bit(n.Ping), bit(n.Combined), bit(n.Unrecorded), bit(n.Drill), bit(n.Silenced),
			bit(n.Late), bit(n.Repeat), short(string(n.From)), clean(n.Diverted, maxReason),
			tally(n.Running), tally(n.Queued), bit(n.Counted),
		}),
	})
	return strings.TrimSuffix(out.String(), "\n"), err
}

// note reads a note. Whatever is wrong with it is wrong with its column.
func (f *fields) note(column string, v any) alerts.Note {
	in := fields{table: f.table}
	n, err := decodeNote(&in, f.raw(column, v))
	if err != nil || in.bad != nil {
		f.fail(column)
		return alerts.Note{}
	}
	return n
}

func decodeNote(f *fields, s string) (n alerts.Note, err error) {
	var text noteText
	dec := json.NewDecoder(strings.NewReader(s))
	dec.UseNumber()
	dec.DisallowUnknownFields()
	if err := dec.Decode(&text); err != nil {
		return n, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return n, ErrCorrupt
	}
	if _, ok := text.Event["words"]; !ok && text.Event != nil {
		text.Event["words"] = "" // as version 2 wrote it
	}
	if _, ok := text.Rest["running"]; !ok && text.Rest != nil { // as version 2 wrote it
		text.Rest["running"], text.Rest["queued"], text.Rest["counted"] = int64(0), int64(0), int64(0)
	}
	for _, o := range []map[string]any{text.Incident, text.Event, text.Rest} {
		plainNumbers(o)
	}
	n.Incident = incidentOf(f, incidentTable.values(text.Incident))
	n.Event = eventOf(f, eventTable.values(text.Event))
	f.noteRest(&n, noteTable.values(text.Rest))
	return n, nil
}

func (f *fields) noteRest(n *alerts.Note, v []any) {
	n.Mode, n.ModeSince = f.text("mode", v[0], maxName), f.when("mode_since_ms", v[1])
	n.Ping, n.Combined, n.Unrecorded = f.flag("ping", v[2]), f.flag("combined", v[3]), f.flag("unrecorded", v[4])
	n.Drill, n.Silenced, n.Late, n.Repeat = f.flag("drill", v[5]), f.flag("silenced", v[6]), f.flag("late", v[7]), f.flag("repeat", v[8])
	n.From, n.Diverted = alerts.Destination(f.text("from", v[9], maxName)), f.text("diverted", v[10], maxReason)
	n.Running, n.Queued, n.Counted = f.count("running", v[11]), f.count("queued", v[12]), f.flag("counted", v[13])
}

// plainNumbers makes numbers what SQLite would return: whole if they can be.
func plainNumbers(o map[string]any) {
	for key, v := range o {
		number, ok := v.(json.Number)
		if !ok {
			continue
		}
		if n, err := number.Int64(); err == nil {
			o[key] = n
		} else if x, err := number.Float64(); err == nil {
			o[key] = x
		}
	}
}
