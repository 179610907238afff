package engine

import (
	"testing"
	"time"
)

// A restart while firing says nothing anew.
func TestRestartWhileFiring(t *testing.T) {
	s := newScript(t, nil).run(11, page).restart(3*time.Minute).run(300, page)
	s.wantEvents("5 opened warn", "10 escalated page")
}

// Downtime adds nothing to what has been dwelt, on the way in and on the way out.
func TestDowntimeAddsNothing(t *testing.T) {
	s := newScript(t, nil).run(4, warn).restart(time.Hour).run(2, warn)
	s.wantEvents()
	s.run(1, warn)
	s.wantEvents("3606 opened warn")
	s.run(3, low).restart(time.Hour).run(3, low)
	s.wantEvents("3606 opened warn", "3607 recovering warn")
	s.run(1, low)
	s.wantEvents("3606 opened warn", "3607 recovering warn", "7213 resolved warn recovered")
}

// Neither does it count towards the grace of a missing signal or of no traffic.
func TestDowntimeIsNeitherMissingNorIdle(t *testing.T) {
	s := newScript(t, nil).run(6, warn).run(120, noSignal).restart(time.Hour).run(1, noSignal)
	s.wantEvents("5 opened warn")
	s.run(1, noSignal)
	s.wantEvents("5 opened warn", "3727 opened signal_missing warn")
	s = newScript(t, nil).run(6, warn).run(1800, idle).restart(time.Hour).run(1, idle)
	s.wantEvents("5 opened warn")
	s.run(1, idle)
	s.wantEvents("5 opened warn", "5407 resolved warn no_traffic")
}

// A process that is restarted after every step is as good as one that is not,
// but for the time that it does not see.
func TestRestartAtEveryPoint(t *testing.T) {
	values := []Value{low, warn, warn, page, page, page, page, noSignal, noSignal, page, warn, warn, warn, hold, idle, low, low, low, warn, low, low, low}
	for at := range values {
		restarted, steady := newScript(t, nil), newScript(t, nil)
		for _, s := range []*script{restarted, steady} {
			s.rules[0].Warn.For, s.rules[0].Page.For, s.rules[0].Clear.For = 0, 2*time.Second, 2*time.Second
			for n, v := range values {
				if n == at {
					s.next = 0
					if s == restarted {
						s.restart(0)
					}
				}
				s.run(1, v)
			}
		}
		restarted.wantEvents(steady.emitted...)
		if got, want := restarted.m.Incidents(), steady.m.Incidents(); len(got) != 1 || got[0] != want[0] {
			t.Errorf("restarted before step %d: incidents %+v, want %+v", at, got, want)
		}
	}
}

// A record that contradicts itself is put right, and neither hides trouble nor
// makes two of one.
func TestLoadRepairs(t *testing.T) {
	open := func(id string, age time.Duration) Incident {
		return Incident{ID: id, Key: ruleKey, Level: LevelPage, Opened: epoch.Add(-age), Seq: 3}
	}
	firing := State{Key: ruleKey, Phase: Firing, Level: LevelPage, Incident: "a", LastNotified: epoch}
	late := epoch.Add(1000 * time.Hour)
	tests := map[string]struct {
		saved SavedState
		wrong int
		runs  int
		v     Value
		want  []string
	}{
		"nothing":                                   {SavedState{}, 0, 6, warn, []string{"5 opened warn"}},
		"as it should be":                           {SavedState{States: []State{firing}, Incidents: []Incident{open("a", time.Hour)}}, 0, 6, page, nil},
		"firing without an incident":                {SavedState{States: []State{firing}}, 1, 6, warn, []string{"5 opened warn"}},
		"an incident without a state":               {SavedState{Incidents: []Incident{open("a", time.Hour)}}, 1, 6, page, nil},
		"an incident that its state takes for over": {SavedState{States: []State{{Key: ruleKey}}, Incidents: []Incident{open("a", time.Hour)}}, 1, 6, page, nil},
		"two open incidents": {
			SavedState{States: []State{firing}, Incidents: []Incident{open("b", time.Minute), open("a", time.Hour)}}, 2, 6, page,
			[]string{"0 resolved page rule_deleted"},
		},
		"an incident twice":  {SavedState{States: []State{firing}, Incidents: []Incident{open("a", 0), open("a", 0)}}, 1, 6, page, nil},
		"a state twice":      {SavedState{States: []State{firing, firing}, Incidents: []Incident{open("a", 0)}}, 1, 6, page, nil},
		"an ID that is none": {SavedState{Incidents: []Incident{open("", 0)}}, 1, 6, low, nil},
		"a phase that there is not": {
			SavedState{States: []State{{Key: ruleKey, Phase: 77, Level: 99}}}, 1, 6, warn, []string{"5 opened warn"},
		},
		"times that have not come": {
			SavedState{States: []State{{Key: ruleKey, Phase: Firing, Incident: "a", LastNotified: late, LastDigest: late, FlapTimes: []time.Time{late}}}, Incidents: []Incident{open("a", 0)}},
			0, 3601, page, []string{"3600 reminder page"},
		},
		"lengths that cannot be": {
			SavedState{States: []State{{Key: ruleKey, Phase: Pending, WarnFor: -1, PageFor: -1, IdleFor: -1, MissingFor: -1}}}, 0, 6, warn, []string{"5 opened warn"},
		},
		"an acknowledgement without an end": {
			SavedState{States: []State{firing}, Incidents: []Incident{{ID: "a", Key: ruleKey, Level: LevelPage, Opened: epoch, AckedBy: "ann", AckUntil: late}}},
			0, 86401, page, []string{"86400 ack_expired page"},
		},
		"a silence without an end": {
			SavedState{Silences: []Silence{{ID: "s", Rule: "age", From: epoch, Until: epoch.AddDate(1000, 0, 0)}}}, 0, 6, warn, []string{"5 opened warn muted"},
		},
		"silences that are over or none": {
			SavedState{Silences: []Silence{{ID: "s", Rule: "age", EndHandled: true}, {Rule: "age", Until: late}}}, 2, 6, warn, []string{"5 opened warn"},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, nil)
			for _, i := range test.saved.Incidents {
				s.store.incidents[i.ID] = i
			}
			if wrong := s.m.Load(epoch, test.saved); len(wrong) != test.wrong {
				t.Errorf("said %d things: %q, want %d", len(wrong), wrong, test.wrong)
			}
			s.run(test.runs, test.v)
			s.wantEvents(test.want...)
			open := 0
			for _, i := range s.m.Incidents() {
				if i.Open() {
					open++
				}
			}
			if open > 1 {
				t.Errorf("%d open incidents of one key", open)
			}
		})
	}
}
