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

var threadTable = table{name: "delivery_roots", key: []string{"incident", "destination"}, columns: []string{
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

// validateDelivery refuses what could not be read back.
func validateDelivery(d alerts.Delivery) error {
	switch {
	case d.ID != "" && !validID(d.ID):
		return fmt.Errorf("the ID of a delivery must be at most %d letters, digits and dashes", maxID)
	case !isName(d.Incident):
		return fmt.Errorf("the incident of a delivery must be a name of 1 to %d bytes", maxName)
	case d.Seq < 0 || d.Seq != clampCount(d.Seq):
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

func validateOutboxChanges(c alerts.Changes) error {
	var errs []error
	for _, d := range slices.Concat(c.Add, c.Update) {
		errs = append(errs, validateDelivery(d))
	}
	for _, r := range c.Threads {
		if !isName(r.Incident) || !slices.Contains(destinations(), string(r.Destination)) {
			errs = append(errs, fmt.Errorf("the root of a message has no incident, or no such destination: %.40q", r.Destination))
		}
	}
	return errors.Join(errs...)
}

func deliveryValues(d alerts.Delivery) ([]any, error) {
	note, err := encodeNote(d.Notification)
	return []any{
		d.ID, d.Incident, countValue(d.Seq), string(d.Kind), string(d.Destination), ms(d.Created), string(d.State), countValue(d.Attempts),
		ms(d.LastAttempt), ms(d.NotBefore), clean(d.Reason, maxReason), btoi(d.PlainText), countValue(d.AmbiguousAttempts),
		cleanName(d.Ref.Channel), cleanName(d.Ref.TS), btoi(d.Notification.FallbackReason != ""), note,
	}, err
}

func decodeDelivery(v []any) (alerts.Delivery, error) {
	f := rowDecoder{table: deliveryTable.name}
	d := alerts.Delivery{
		ID: f.optionalID("id", v[0]), Incident: f.keyName("incident", v[1]), Seq: f.count("seq", v[2]),
		Kind:        alerts.Kind(f.oneOf("kind", v[3], deliveryKinds())),
		Destination: alerts.Destination(f.oneOf("destination", v[4], destinations())),
		Created:     f.optionalTime("created_ms", v[5]), State: alerts.State(f.oneOf("state", v[6], deliveryStates())),
		Attempts: f.count("attempts", v[7]), LastAttempt: f.optionalTime("tried_ms", v[8]), NotBefore: f.optionalTime("not_before_ms", v[9]),
		Reason: f.text("reason", v[10], maxReason), PlainText: f.flag("plain", v[11]), AmbiguousAttempts: f.count("doubts", v[12]),
		Ref: refFrom(&f, v[13:15]),
	}
	f.flag("diverted", v[15])
	d.Notification = f.note("note", v[16])
	return d, f.err
}

func threadValues(r alerts.Thread) []any {
	return []any{r.Incident, string(r.Destination), cleanName(r.Ref.Channel), cleanName(r.Ref.TS)}
}

// refFrom reads channel and ts.
func refFrom(f *rowDecoder, v []any) alerts.Ref {
	return alerts.Ref{Channel: f.text("channel", v[0], maxName), TS: f.text("ts", v[1], maxName)}
}

func decodeRef(v []any) (alerts.Ref, error) {
	f := rowDecoder{table: threadTable.name}
	r := refFrom(&f, v)
	return r, f.err
}
