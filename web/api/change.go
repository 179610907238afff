package api

import (
	"time"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

// timeLayout is RFC 3339 to the millisecond; times are UTC.
const timeLayout = "2006-01-02T15:04:05.000Z07:00"

// Change is one change of mode, as the audit and the reply to an order show it.
type Change struct {
	ID      string  `json:"id"` // UUIDv7; empty if the pool was in the mode already, or in a dry run
	At      string  `json:"at"` // UTC, to the millisecond
	Pool    string  `json:"pool"`
	Action  string  `json:"action"` // rollback, restore, mode or first
	From    string  `json:"from"`
	To      string  `json:"to"`
	Before  *string `json:"before"` // what a later restore returns to; null unless To is passthrough
	Actor   string  `json:"actor"`
	Via     string  `json:"via"` // a control.ViaFromContext
	Reason  string  `json:"reason"`
	Running int     `json:"running"` // tasks in flight at that moment, all kept
	Queued  int     `json:"queued"`  // tasks waiting at that moment, kept but for Dropped
	Dropped int     `json:"dropped"` // waiting tasks that drop_overdue turned away
	Request int64   `json:"request"` // number of the request left in the database, 0 if none was
	Writer  string  `json:"writer"`  // the process that made the change
}

// ChangeOf returns a change in the shape of the API.
func ChangeOf(c control.ModeChange) Change {
	shown := Change{
		ID: c.ID, At: c.At.UTC().Format(timeLayout), Pool: c.Pool, Action: string(c.Action),
		From: c.From.String(), To: c.To.String(), Actor: c.Actor, Via: string(c.Via), Reason: c.Reason,
		Running: c.Running, Queued: c.Queued, Dropped: c.Dropped, Request: c.RequestNumber, Writer: c.Writer,
	}
	if c.To == admission.PassThrough {
		before := c.RestoreMode.String()
		shown.Before = &before
	}
	return shown
}

// Time returns when the change was made; the zero time if At is not a time.
func (c Change) Time() time.Time {
	t, err := time.Parse(time.RFC3339, c.At)
	if err != nil {
		return time.Time{}
	}
	return t
}
