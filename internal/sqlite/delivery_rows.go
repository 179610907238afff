package sqlite

import (
	"errors"
	"fmt"
	"slices"

	"headgate/alerts"
)

var deliveryTable = table{name: "deliveries", key: []string{"incident", "seq", "kind", "destination"}, columns: []string{
	"id", "incident", "seq", "kind", "destination", "created_ms", "state", "attempts", "tried_ms", "not_before_ms", "reason",
	"plain", "doubts", "channel", "ts", "diverted", "note",
}}

var rootTable = table{name: "delivery_roots", key: []string{"incident", "destination"}, columns: []string{
	"incident", "destination", "channel", "ts",
}}

func deliveryKinds() []string {
	return []string{string(alerts.Post), string(alerts.Edit), string(alerts.Reply)}
}

func destinations() []string {
	return []string{string(alerts.ToWarn), string(alerts.ToPage), string(alerts.ToDrills), string(alerts.ToFallback)}
}

func deliveryStates() []string {
	return []string{
		string(alerts.Queued), string(alerts.Sending), string(alerts.Retry), string(alerts.Uncertain),
		string(alerts.Sent), string(alerts.Dead), string(alerts.Dropped),
	}
}

// writableDelivery refuses what could not be read back.
func writableDelivery(d alerts.Delivery) error {
	switch {
	case d.ID != "" && !validID(d.ID):
		return fmt.Errorf("the ID of a delivery must be at most %d letters, digits and dashes", maxID)
	case !isName(d.Incident):
		return fmt.Errorf("the incident of a delivery must be a name of 1 to %d bytes", maxName)
	case d.Seq < 0 || d.Seq != count(d.Seq):
		return fmt.Errorf("no such sequence of a delivery: %d", d.Seq)
	case !slices.Contains(deliveryKinds(), string(d.Kind)):
		return fmt.Errorf("no such kind of a delivery: %.40q", d.Kind)
	case !slices.Contains(destinations(), string(d.Destination)):
		return fmt.Errorf("no such destination: %.40q", d.Destination)
	case !slices.Contains(deliveryStates(), string(d.State)):
		return fmt.Errorf("no such state of a delivery: %.40q", d.State)
	}
	return nil
}

func writableChanges(c alerts.Changes) error {
	var errs []error
	for _, d := range slices.Concat(c.Add, c.Update) {
		errs = append(errs, writableDelivery(d))
	}
	for _, r := range c.Roots {
		if !isName(r.Incident) || !slices.Contains(destinations(), string(r.Destination)) {
			errs = append(errs, fmt.Errorf("the root of a message has no incident, or no such destination: %.40q", r.Destination))
		}
	}
	return errors.Join(errs...)
}

func deliveryValues(d alerts.Delivery) ([]any, error) {
	note, err := encodeNote(d.Note)
	return []any{
		d.ID, d.Incident, tally(d.Seq), string(d.Kind), string(d.Destination), ms(d.Created), string(d.State), tally(d.Attempts),
		ms(d.Tried), ms(d.NotBefore), clean(d.Reason, maxReason), bit(d.Plain), tally(d.Doubts),
		short(d.Ref.Channel), short(d.Ref.TS), bit(d.Note.Diverted != ""), note,
	}, err
}

func deliveryRow(v []any) (alerts.Delivery, error) {
	f := fields{table: deliveryTable.name}
	d := alerts.Delivery{
		ID: f.idOrNone("id", v[0]), Incident: f.named("incident", v[1]), Seq: f.count("seq", v[2]),
		Kind:        alerts.Kind(f.one("kind", v[3], deliveryKinds())),
		Destination: alerts.Destination(f.one("destination", v[4], destinations())),
		Created:     f.when("created_ms", v[5]), State: alerts.State(f.one("state", v[6], deliveryStates())),
		Attempts: f.count("attempts", v[7]), Tried: f.when("tried_ms", v[8]), NotBefore: f.when("not_before_ms", v[9]),
		Reason: f.text("reason", v[10], maxReason), Plain: f.flag("plain", v[11]), Doubts: f.count("doubts", v[12]),
		Ref: ref(&f, v[13:15]),
	}
	f.flag("diverted", v[15])
	d.Note = f.note("note", v[16])
	return d, f.bad
}

func rootValues(r alerts.Root) []any {
	return []any{r.Incident, string(r.Destination), short(r.Ref.Channel), short(r.Ref.TS)}
}

// ref reads channel and ts.
func ref(f *fields, v []any) alerts.Ref {
	return alerts.Ref{Channel: f.text("channel", v[0], maxName), TS: f.text("ts", v[1], maxName)}
}

func refRow(v []any) (alerts.Ref, error) {
	f := fields{table: rootTable.name}
	r := ref(&f, v)
	return r, f.bad
}
