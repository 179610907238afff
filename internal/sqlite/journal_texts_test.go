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
	c := some("p", admission.PassThrough)
	c.Reason = strings.Repeat("é", maxReason) // twice as many bytes
	c.Actor = "an\x00na\n\x1b[31m\u202e\xff"
	c.Writer = strings.Repeat("w", 10_000)
	c.Running, c.Queued, c.Dropped, c.Request = -1, 1<<40, 2, -3
	c.At = time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)
	record(t, s, 0, c)
	got := all(t, s)[0]
	want := c
	want.Reason, want.Actor, want.Writer = strings.Repeat("é", maxReason/2), "an na  [31m ?", strings.Repeat("w", maxName)
	want.Running, want.Queued, want.Request, want.At = 0, 1<<31-1, 0, time.UnixMilli(0).UTC()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if standings, err := s.Standings(t.Context()); err != nil || standings[0].Reason != want.Reason || standings[0].By != want.Actor {
		t.Errorf("%v, %v", standings, err)
	}
}

func testUnwritable(t *testing.T, s *Store) {
	for name, spoil := range map[string]func(*control.Change){
		"no ID":          func(c *control.Change) { c.ID = "" },
		"a long ID":      func(c *control.Change) { c.ID = strings.Repeat("a", maxID+1) },
		"a strange ID":   func(c *control.Change) { c.ID = "a.b" },
		"no action":      func(c *control.Change) { c.Action = "" },
		"no way":         func(c *control.Change) { c.Via = "" },
		"no mode":        func(c *control.Change) { c.To = 9 },
		"no mode before": func(c *control.Change) { c.Before = 9 },
		"no mode from":   func(c *control.Change) { c.From = 9 },
	} {
		c := some("p", admission.Observe)
		spoil(&c)
		if err := s.Record(t.Context(), []control.Change{c}, 0); err == nil {
			t.Errorf("%s: recorded", name)
		}
	}
	if c := all(t, s); len(c) != 0 {
		t.Errorf("recorded: %v", c)
	}
}
