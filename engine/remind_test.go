package engine

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// Reminders of a page are an hour apart, whatever else happens.
func TestReminders(t *testing.T) {
	s := newScript(t, nil).run(11+2*3600, page)
	s.wantEvents("5 opened warn", "10 escalated page", "3610 reminder page", "7210 reminder page")
}

// There are none of a warning, unless settings say so.
func TestRemindersOfWarnings(t *testing.T) {
	newScript(t, nil).run(9000, warn).wantEvents("5 opened warn")
	s := newScript(t, func(c *Config) { c.Remind.Warn = time.Minute }).run(130, warn)
	s.wantEvents("5 opened warn", "65 reminder warn", "125 reminder warn")
}

// Also across restarts: ten of them, and a long downtime.
func TestRemindersAcrossRestarts(t *testing.T) {
	s := newScript(t, nil).run(11, page)
	for range 10 {
		s.restart(time.Second).run(300, page)
	}
	s.wantEvents("5 opened warn", "10 escalated page")
	s.restart(10*time.Hour).run(3600, page)
	if n := countKind(s.emitted, EventReminder); n != 1 {
		t.Errorf("%d reminders in the first hour after a downtime, want 1: %q", n, s.emitted)
	}
}

// Every notification postpones the next reminder.
func TestRemindersAfterOtherEvents(t *testing.T) {
	s := newScript(t, nil).run(3500, page).run(6, low).run(11, page)
	if n := countKind(s.emitted, EventReminder); n != 0 {
		t.Errorf("a reminder right after a reopening: %q", s.emitted)
	}
	s.run(3599, page)
	if n := countKind(s.emitted, EventReminder); n != 0 {
		t.Errorf("a reminder less than an hour after the escalation: %q", s.emitted)
	}
	s.run(1, page)
	if n := countKind(s.emitted, EventReminder); n != 1 {
		t.Errorf("%d reminders an hour after it, want 1: %q", n, s.emitted)
	}
}

// An acknowledgement stops reminders until it expires, which is an event.
func TestAck(t *testing.T) {
	s := newScript(t, nil).run(11, page)
	if a := s.ack("ann", 0); !a.Applied || a.By != "ann" || !a.Until.Equal(s.now.Add(2*time.Hour)) {
		t.Errorf("ack %+v", a)
	}
	s.run(7200, page)
	s.wantEvents("5 opened warn", "10 escalated page", "11 acknowledged page")
	s.run(1, page)
	s.wantEvents("5 opened warn", "10 escalated page", "11 acknowledged page", "7211 ack_expired page")
	if last := s.all[3]; last.By != "ann" {
		t.Errorf("the expiry names %q", last.By)
	}
	if inc := s.incident(); inc.AckedBy != "" || !inc.AckUntil.IsZero() {
		t.Errorf("incident %+v", inc)
	}
	s.run(3600, page)
	if got := s.emitted[len(s.emitted)-1]; got != "10811 reminder page" {
		t.Errorf("said %q", got)
	}
}

// A second acknowledgement, by the same person or another, returns the first one.
func TestAckTwice(t *testing.T) {
	s := newScript(t, nil).run(11, page)
	first := s.ack("ann", time.Hour)
	for _, by := range []string{"bob", "ann"} {
		if a := s.ack(by, 3*time.Hour); a.Applied || a.By != "ann" || !a.Until.Equal(first.Until) {
			t.Errorf("second ack %+v", a)
		}
	}
	s.wantEvents("5 opened warn", "10 escalated page", "11 acknowledged page")
}

// An acknowledged warning that becomes a page counts as unacknowledged.
func TestEscalationPiercesAck(t *testing.T) {
	s := newScript(t, nil).run(6, warn)
	s.ack("ann", 0)
	s.run(11, page)
	s.wantEvents("5 opened warn", "6 acknowledged warn", "16 escalated page")
	if inc := s.incident(); inc.AckedBy != "" {
		t.Errorf("still acknowledged by %q", inc.AckedBy)
	}
	if a := s.ack("bob", 0); !a.Applied {
		t.Errorf("ack %+v", a)
	}
}

// Nothing else does.
func TestAckStays(t *testing.T) {
	s := newScript(t, nil).run(11, page)
	s.ack("ann", 0)
	s.run(6, warn).run(2, low).run(2, warn).restart(time.Minute).run(100, warn)
	if inc := s.incident(); inc.AckedBy != "ann" {
		t.Errorf("incident %+v", inc)
	}
	s.run(6, low).run(6, warn)
	if inc := s.incident(); inc.AckedBy != "" || inc.ReopenCount != 1 {
		t.Errorf("a new turn is acknowledged already: %+v", inc)
	}
}

func TestAckRefused(t *testing.T) {
	s := newScript(t, nil).run(11, page)
	id := s.incident().ID
	tests := map[string]struct {
		id, by string
		length time.Duration
		want   error
		says   string
	}{
		"unknown":        {"id-x", "ann", 0, ErrNoIncident, `"id-x"`},
		"no name":        {id, "", 0, ErrRefused, "name is missing"},
		"too long":       {id, "ann", 25 * time.Hour, ErrRefused, "up to 24h0m0s"},
		"negative":       {id, "ann", -1, ErrRefused, "up to 24h0m0s"},
		"a novel":        {id, strings.Repeat("a", 201), 0, ErrRefused, "201 bytes"},
		"not even UTF-8": {id, "\xff", 0, ErrRefused, "UTF-8"},
	}
	for name, test := range tests {
		_, b, err := s.m.Ack(s.now, test.id, test.by, test.length)
		if !errors.Is(err, test.want) || !strings.Contains(err.Error(), test.says) || !b.Empty() {
			t.Errorf("%s: %v, batch %+v", name, err, b)
		}
	}
	s.run(6, low)
	if _, _, err := s.m.Ack(s.now, id, "ann", 0); !errors.Is(err, ErrNoIncident) {
		t.Errorf("of a resolved incident: %v", err)
	}
}
