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

// noteJSON is a note in JSON. Its values go through the same checks as those of
// columns.
type noteJSON struct {
	Incident map[string]any `json:"incident"`
	Event    map[string]any `json:"event"`
	Note     map[string]any `json:"note"`
}

// encodeNote writes a note. Its texts are made fit, so that it is never too long
// for a row.
func encodeNote(n alerts.Notification) (string, error) {
	var out strings.Builder
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	err := enc.Encode(noteJSON{
		Incident: incidentTable.toMap(incidentValues(n.Incident)),
		Event:    eventTable.toMap(eventValues(n.Event)),
		Note: noteTable.toMap([]any{
			cleanName(n.Mode), ms(n.ModeSince), btoi(n.Ping), btoi(n.Combined), btoi(n.Unrecorded), btoi(n.Drill), btoi(n.Silenced),
			btoi(n.Late), btoi(n.PossibleDuplicate), cleanName(string(n.FallbackFrom)), clean(n.FallbackReason, maxReason),
			countValue(n.Running), countValue(n.Queued), btoi(n.LoadKnown),
		}),
	})
	return strings.TrimSuffix(out.String(), "\n"), err
}

// note reads a note. Whatever is wrong with it is wrong with its column.
func (f *rowDecoder) note(column string, v any) alerts.Notification {
	in := rowDecoder{table: f.table}
	n, err := decodeNote(&in, f.raw(column, v))
	if err != nil || in.err != nil {
		f.fail(column)
		return alerts.Notification{}
	}
	return n
}

func decodeNote(f *rowDecoder, s string) (n alerts.Notification, err error) {
	var text noteJSON
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
	if _, ok := text.Note["running"]; !ok && text.Note != nil { // as version 2 wrote it
		text.Note["running"], text.Note["queued"], text.Note["counted"] = int64(0), int64(0), int64(0)
	}
	for _, o := range []map[string]any{text.Incident, text.Event, text.Note} {
		normalizeNumbers(o)
	}
	n.Incident = incidentFrom(f, incidentTable.fromMap(text.Incident))
	n.Event = eventFrom(f, eventTable.fromMap(text.Event))
	f.noteFields(&n, noteTable.fromMap(text.Note))
	return n, nil
}

func (f *rowDecoder) noteFields(n *alerts.Notification, v []any) {
	n.Mode, n.ModeSince = f.text("mode", v[0], maxName), f.optionalTime("mode_since_ms", v[1])
	n.Ping, n.Combined, n.Unrecorded = f.flag("ping", v[2]), f.flag("combined", v[3]), f.flag("unrecorded", v[4])
	n.Drill, n.Silenced, n.Late, n.PossibleDuplicate = f.flag("drill", v[5]), f.flag("silenced", v[6]), f.flag("late", v[7]), f.flag("repeat", v[8])
	n.FallbackFrom, n.FallbackReason = alerts.Destination(f.text("from", v[9], maxName)), f.text("diverted", v[10], maxReason)
	n.Running, n.Queued, n.LoadKnown = f.count("running", v[11]), f.count("queued", v[12]), f.flag("counted", v[13])
}

// normalizeNumbers makes numbers what SQLite would return: whole if they can be.
func normalizeNumbers(o map[string]any) {
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
