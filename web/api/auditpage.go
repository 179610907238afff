package api

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"headgate/runbooks/control"
)

// AuditPage is the reply to GET /api/v1/audit.
type AuditPage struct {
	Items []AuditItem `json:"items"`
	Next  string      `json:"next"` // for ?after=; empty if this is the last page
}

// AuditItem is a change of mode, or an entry: exactly one of the two is there. In
// JSON it is that one's object, with its kind.
type AuditItem struct {
	Change *Change
	Entry  *AuditEntry
}

// AuditEntry is what was done, withheld or refused, but for changes of mode.
type AuditEntry struct {
	Kind    string            `json:"kind"` // press, decision, action, access or drill
	ID      string            `json:"id"`
	At      string            `json:"at"`      // UTC, to the millisecond
	Action  string            `json:"action"`  // what was asked for
	Result  string            `json:"ending"`  // done, refused, withheld or failed
	Pool    string            `json:"pool"`    // empty: none in particular
	Subject string            `json:"subject"` // ID of an incident, a run or a change; empty: none
	Actor   string            `json:"actor"`
	Via     string            `json:"via"`
	Reason  string            `json:"reason"`
	Inputs  map[string]string `json:"inputs"` // what the decision rests on
	Writer  string            `json:"writer"`
}

// itemKind reads the kind of an item.
type itemKind struct {
	Kind string `json:"kind"`
}

// changeItem is a change with its kind.
type changeItem struct {
	itemKind
	Change
}

// MarshalJSON writes the change or the entry.
func (i AuditItem) MarshalJSON() ([]byte, error) {
	if i.Change != nil {
		return json.Marshal(changeItem{itemKind{KindMode}, *i.Change})
	}
	return json.Marshal(i.Entry)
}

// UnmarshalJSON reads the change or the entry. What has no kind is a change, as
// earlier versions had them.
func (i *AuditItem) UnmarshalJSON(text []byte) error {
	var k itemKind
	if err := json.Unmarshal(text, &k); err != nil {
		return err
	}
	if k.Kind != "" && k.Kind != KindMode {
		i.Change, i.Entry = nil, &AuditEntry{}
		return json.Unmarshal(text, i.Entry)
	}
	i.Change, i.Entry = &Change{}, nil
	return json.Unmarshal(text, i.Change)
}

// Time returns when it was; the zero time if that cannot be read.
func (i AuditItem) Time() time.Time {
	if i.Change != nil {
		return i.Change.Time()
	}
	return Change{At: i.Entry.At}.Time()
}

// AuditPageOf returns a page in the shape of the API: one list, newest first.
func AuditPageOf(p AuditRecords) AuditPage {
	shown := AuditPage{Items: make([]AuditItem, 0, len(p.Changes)+len(p.Entries)), Next: p.Next}
	for _, c := range p.Changes {
		change := ChangeOf(c)
		shown.Items = append(shown.Items, AuditItem{Change: &change})
	}
	for _, e := range p.Entries {
		entry := auditEntryOf(e)
		shown.Items = append(shown.Items, AuditItem{Entry: &entry})
	}
	if len(p.Entries) > 0 {
		slices.SortStableFunc(shown.Items, func(a, b AuditItem) int {
			return cmp.Or(b.Time().Compare(a.Time()), cmp.Compare(b.id(), a.id()))
		})
	}
	return shown
}

func (i AuditItem) id() string {
	if i.Change != nil {
		return i.Change.ID
	}
	return i.Entry.ID
}

func auditEntryOf(e control.AuditEntry) AuditEntry {
	shown := AuditEntry{
		Kind: string(e.Kind), ID: e.ID, At: e.At.UTC().Format(timeLayout), Action: e.Action, Result: string(e.Result), Pool: e.Pool,
		Subject: e.Subject, Actor: e.Actor, Via: string(e.Via), Reason: e.Reason, Inputs: e.Inputs, Writer: e.Writer,
	}
	if shown.Inputs == nil {
		shown.Inputs = map[string]string{}
	}
	return shown
}

// AuditKinds returns what the kind of an item may be, in a fixed order.
func AuditKinds() []string {
	kinds := []string{KindMode}
	for _, k := range control.AuditKinds() {
		kinds = append(kinds, string(k))
	}
	return kinds
}
