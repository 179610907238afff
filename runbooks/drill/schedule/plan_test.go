package schedule

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"headgate/runbooks/drill"
)

// planSummary writes actions on one line.
func planSummary(all []PlannedAction) string {
	var parts []string
	for _, a := range all {
		text := a.Spec.ID
		if a.Missed.Count > 0 {
			text += fmt.Sprintf(" missed %d to %s", a.Missed.Count, a.Missed.Last.Format("01-02T15:04"))
		}
		if a.Run != "" {
			text += fmt.Sprintf(" %s %s", a.Run, a.At.At.Format("01-02T15:04"))
		}
		if a.Delete {
			text += " drop"
		} else {
			text += " next " + a.Next.Next.Format("01-02T15:04")
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, "; ")
}

func TestPlan(t *testing.T) {
	weekly := drill.Spec{ID: "w", Name: "weekly", Schedule: "0 3 * * 1", CatchUp: 2 * time.Hour}
	due := func(text string) drill.DueTime {
		return drill.DueTime{Drill: "w", Schedule: "0 3 * * 1", Zone: "UTC", Next: instant(t, text)}
	}
	with := func(s drill.Spec, edit func(*drill.Spec)) drill.Spec {
		edit(&s)
		return s
	}
	minutely := with(weekly, func(s *drill.Spec) { s.Schedule, s.CatchUp = "@every 1m", 0 })
	every := func(text string) drill.DueTime {
		return drill.DueTime{Drill: "w", Schedule: "@every 1m", Zone: "UTC", Next: instant(t, text)}
	}
	tests := []struct {
		name string
		now  string
		spec drill.Spec
		due  drill.DueTime
		want string
	}{
		{"new: counts from now on", "2026-11-30T03:00:00Z", weekly, drill.DueTime{}, "w next 12-07T03:00"},
		{"edited: not retroactively", "2026-11-30T04:00:00Z", with(weekly, func(s *drill.Spec) { s.Schedule = "30 3 * * 1" }), due("2026-11-30T03:00:00Z"), "w next 12-07T03:30"},
		{"zone edited", "2026-11-30T01:30:00Z", with(weekly, func(s *drill.Spec) { s.Zone = "Europe/Berlin" }), due("2026-11-30T03:00:00Z"), "w next 11-30T02:00"},
		{"renamed: goes on", "2026-11-30T03:00:00Z", with(weekly, func(s *drill.Spec) { s.Name = "other" }), due("2026-11-30T03:00:00Z"), "w schedule 11-30T03:00 next 12-07T03:00"},
		{"by hand from now on", "2026-11-30T03:00:00Z", with(weekly, func(s *drill.Spec) { s.Schedule = "" }), due("2026-11-30T03:00:00Z"), "w drop"},
		{"not yet", "2026-11-30T02:59:59Z", weekly, due("2026-11-30T03:00:00Z"), ""},
		{"due", "2026-11-30T03:00:00Z", weekly, due("2026-11-30T03:00:00Z"), "w schedule 11-30T03:00 next 12-07T03:00"},
		{"a little late", "2026-11-30T03:00:59Z", weekly, due("2026-11-30T03:00:00Z"), "w schedule 11-30T03:00 next 12-07T03:00"},
		{"caught up with", "2026-11-30T04:59:00Z", weekly, due("2026-11-30T03:00:00Z"), "w catch_up 11-30T03:00 next 12-07T03:00"},
		{"too late", "2026-11-30T05:00:01Z", weekly, due("2026-11-30T03:00:00Z"), "w missed 1 to 11-30T03:00 next 12-07T03:00"},
		{"three weeks down, back in time", "2026-11-30T03:30:00Z", weekly, due("2026-11-16T03:00:00Z"), "w missed 2 to 11-23T03:00 catch_up 11-30T03:00 next 12-07T03:00"},
		{"three weeks down", "2026-12-02T00:00:00Z", weekly, due("2026-11-16T03:00:00Z"), "w missed 3 to 11-30T03:00 next 12-07T03:00"},
		{"no catching up", "2026-11-30T03:02:00Z", with(weekly, func(s *drill.Spec) { s.CatchUp = 0 }), due("2026-11-30T03:00:00Z"), "w missed 1 to 11-30T03:00 next 12-07T03:00"},
		{"two weeks of minutes", "2026-11-30T00:00:10Z", minutely, every("2026-11-16T00:00:00Z"), "w missed 20160 to 11-29T23:59 schedule 11-30T00:00 next 11-30T00:01"},
		{"every keeps its phase", "2026-11-30T00:00:10Z", minutely, every("2026-11-30T00:00:05Z"), "w schedule 11-30T00:00 next 11-30T00:01"},
		{"the clock went back", "2026-11-30T02:00:00Z", weekly, due("2026-12-07T03:00:00Z"), "w next 11-30T03:00"},
		{"the clock was years ahead", "2026-11-30T02:00:00Z", minutely, every("2031-01-01T00:00:00Z"), "w next 11-30T02:01"},
		{"one that cannot be read", "2026-11-30T03:00:00Z", with(weekly, func(s *drill.Spec) { s.Schedule = "TZ=0" }), drill.DueTime{}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dues := map[string]drill.DueTime{}
			if tt.due != (drill.DueTime{}) {
				dues["w"] = tt.due
			}
			all := Plan(instant(t, tt.now), []drill.Spec{tt.spec}, dues)
			if got := planSummary(all); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestPlanInTheOrderOfDueTimes(t *testing.T) {
	now := instant(t, "2026-11-30T04:00:00Z")
	specs := []drill.Spec{
		{ID: "c", Schedule: "0 3 * * *", CatchUp: 2 * time.Hour}, {ID: "b", Schedule: "0 3 * * *", CatchUp: 2 * time.Hour},
		{ID: "a", Schedule: "30 3 * * *", CatchUp: 2 * time.Hour}, {ID: "hand"},
	}
	dues := map[string]drill.DueTime{"gone": {Drill: "gone", Next: now}}
	for _, s := range specs[:3] {
		dues[s.ID] = drill.DueTime{Drill: s.ID, Schedule: s.Schedule, Zone: "UTC", Next: now.Add(-time.Hour)}
	}
	dues["a"] = drill.DueTime{Drill: "a", Schedule: "30 3 * * *", Zone: "UTC", Next: now.Add(-30 * time.Minute)}
	want := "gone drop; b catch_up 11-30T03:00 next 12-01T03:00; c catch_up 11-30T03:00 next 12-01T03:00; a catch_up 11-30T03:30 next 12-01T03:30"
	if got := planSummary(Plan(now, specs, dues)); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Years of minutes are not counted for ever, and the latest one still runs.
func TestPlanIsBounded(t *testing.T) {
	now := instant(t, "2026-11-30T04:00:00Z")
	s := drill.Spec{ID: "a", Schedule: "* * * * *", CatchUp: time.Hour}
	all := Plan(now, []drill.Spec{s}, map[string]drill.DueTime{"a": {Drill: "a", Schedule: s.Schedule, Zone: "UTC", Next: now.AddDate(-1, 0, 0)}})
	if len(all) != 1 || !all[0].At.At.Equal(now) || !all[0].Missed.Truncated || all[0].Missed.Count != maxMissedCounted {
		t.Fatalf("%+v", all)
	}
	if got := all[0].Missed.reason(); !strings.HasPrefix(got, "more than 100000 times passed while nothing ran, from 2025-11-30 04:00 UTC") {
		t.Errorf("%q", got)
	}
}

// In zones with clocks that change, what is shifted runs once, and is marked.
func TestPlanOverChangingClocks(t *testing.T) {
	s := drill.Spec{ID: "a", Schedule: "30 2 * * *", Zone: "Europe/Berlin"}
	now := instant(t, "2026-03-29T01:00:10Z") // 03:00:10 there, and 02:30 never was
	all := Plan(now, []drill.Spec{s}, map[string]drill.DueTime{"a": {Drill: "a", Schedule: s.Schedule, Zone: s.Zone, Next: instant(t, "2026-03-29T01:00:00Z")}})
	if len(all) != 1 || all[0].Run != drill.BySchedule || !all[0].At.Shifted || !all[0].Next.Next.Equal(instant(t, "2026-03-30T00:30:00Z")) {
		t.Errorf("%+v", all)
	}
}

func TestUpcoming(t *testing.T) {
	now := instant(t, "2026-11-30T00:00:20Z")
	s := drill.Spec{ID: "a", Schedule: "@every 1h"}
	kept := drill.DueTime{Drill: "a", Schedule: "@every 1h", Zone: "UTC", Next: now.Add(10 * time.Minute)}
	got := Upcoming(s, kept, now, 5)
	if len(got) != 5 || !got[0].At.Equal(kept.Next) || !got[4].At.Equal(kept.Next.Add(4*time.Hour)) {
		t.Errorf("%v", got)
	}
	s.Schedule = "0 3 * * 1"
	if got := Upcoming(s, kept, now, 5); len(got) != 5 || !got[0].At.Equal(instant(t, "2026-11-30T03:00:00Z")) {
		t.Errorf("%v", got)
	}
	for _, text := range []string{"", "TZ=0"} {
		s.Schedule = text
		if got := Upcoming(s, kept, now, 5); got != nil {
			t.Errorf("%q: %v", text, got)
		}
	}
}
