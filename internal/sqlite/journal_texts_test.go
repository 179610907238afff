package sqlite

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/proxy/admission"
	"headgate/runbooks/control"
)

func testTexts(t *testing.T, s *Store) {
	c := newModeChange("p", admission.PassThrough)
	c.Reason = strings.Repeat("é", maxReason) // twice as many bytes
	c.Actor = "an\x00na\n\x1b[31m\u202e\xff"
	c.Writer = strings.Repeat("w", 10_000)
	c.Running, c.Queued, c.Dropped, c.RequestNumber = -1, 1<<40, 2, -3
	c.At = time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)
	mustRecord(t, s, 0, c)
	got := allModeChanges(t, s)[0]
	want := c
	want.Reason, want.Actor, want.Writer = strings.Repeat("é", maxReason/2), "an na  [31m ?", strings.Repeat("w", maxName)
	want.Running, want.Queued, want.RequestNumber, want.At = 0, 1<<31-1, 0, time.UnixMilli(0).UTC()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if standings, err := s.ModeStates(t.Context()); err != nil || standings[0].Reason != want.Reason || standings[0].Actor != want.Actor {
		t.Errorf("%v, %v", standings, err)
	}
}

func testUnwritable(t *testing.T, s *Store) {
	for name, spoil := range map[string]func(*control.ModeChange){
		"no ID":          func(c *control.ModeChange) { c.ID = "" },
		"a long ID":      func(c *control.ModeChange) { c.ID = strings.Repeat("a", maxID+1) },
		"a strange ID":   func(c *control.ModeChange) { c.ID = "a.b" },
		"no action":      func(c *control.ModeChange) { c.Action = "" },
		"no way":         func(c *control.ModeChange) { c.Via = "" },
		"no mode":        func(c *control.ModeChange) { c.To = 9 },
		"no mode before": func(c *control.ModeChange) { c.RestoreMode = 9 },
		"no mode from":   func(c *control.ModeChange) { c.From = 9 },
	} {
		c := newModeChange("p", admission.Observe)
		spoil(&c)
		if err := s.RecordChanges(t.Context(), []control.ModeChange{c}, 0); err == nil {
			t.Errorf("%s: recorded", name)
		}
	}
	if c := allModeChanges(t, s); len(c) != 0 {
		t.Errorf("recorded: %v", c)
	}
}
