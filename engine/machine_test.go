package engine

import (
	"math"
	"testing"
	"time"
)

// The life of one rule's incident, sentence by sentence. Each run is so many
// evaluations, a second apart, of one value.
func TestStates(t *testing.T) {
	type run struct {
		n int
		v Value
	}
	tests := map[string]struct {
		runs []run
		want []string
	}{
		"below the warn threshold nothing happens":     {[]run{{100, Value{V: 14.999}}}, nil},
		"at the warn threshold, just not long enough":  {[]run{{5, warn}, {1, low}, {5, warn}}, nil},
		"at the warn threshold, for just long enough":  {[]run{{6, warn}}, []string{"5 opened warn"}},
		"below the page threshold it stays a warning":  {[]run{{60, Value{V: 24.999}}}, []string{"5 opened warn"}},
		"at the page threshold, just not long enough":  {[]run{{10, page}, {1, warn}, {10, page}}, []string{"5 opened warn"}},
		"at the page threshold, for just long enough":  {[]run{{11, page}}, []string{"5 opened warn", "10 escalated page"}},
		"an incident opens once":                       {[]run{{300, page}}, []string{"5 opened warn", "10 escalated page"}},
		"between clear and warn a pending rule holds":  {[]run{{3, warn}, {50, hold}, {4, warn}}, []string{"56 opened warn"}},
		"between clear and warn nothing begins":        {[]run{{50, hold}, {5, warn}}, nil},
		"between clear and warn an incident is held":   {[]run{{6, warn}, {5000, hold}}, []string{"5 opened warn"}},
		"at clear is not below it":                     {[]run{{6, warn}, {500, Value{V: 12}}}, []string{"5 opened warn"}},
		"below clear, just not long enough":            {[]run{{6, warn}, {5, low}, {1, warn}}, []string{"5 opened warn", "6 recovering warn", "11 refired warn"}},
		"below clear, for just long enough":            {[]run{{6, warn}, {6, low}}, []string{"5 opened warn", "6 recovering warn", "11 resolved warn recovered"}},
		"the hold zone stops the way to resolved":      {[]run{{6, warn}, {3, low}, {90, hold}, {4, low}}, []string{"5 opened warn", "6 recovering warn", "102 resolved warn recovered"}},
		"a page resolves as a page":                    {[]run{{11, page}, {6, low}}, []string{"5 opened warn", "10 escalated page", "11 recovering page", "16 resolved page recovered"}},
		"page to warn takes as long as to clear":       {[]run{{11, page}, {5, warn}, {1, page}, {6, warn}}, []string{"5 opened warn", "10 escalated page", "22 deescalated warn"}},
		"between clear and warn a page is held":        {[]run{{11, page}, {600, hold}}, []string{"5 opened warn", "10 escalated page"}},
		"a warning can be raised again":                {[]run{{11, page}, {6, warn}, {11, page}}, []string{"5 opened warn", "10 escalated page", "16 deescalated warn", "27 escalated page"}},
		"a missing value opens nothing":                {[]run{{100, noSignal}}, nil},
		"while it is missing a pending rule waits":     {[]run{{3, warn}, {60, noSignal}, {3, warn}}, nil},
		"what was seen before and after it adds up":    {[]run{{3, warn}, {60, noSignal}, {4, warn}}, []string{"66 opened warn"}},
		"while it is missing an incident is held":      {[]run{{6, warn}, {119, noSignal}, {3, warn}}, []string{"5 opened warn"}},
		"while it is missing nothing clears":           {[]run{{6, warn}, {3, low}, {60, noSignal}, {3, low}}, []string{"5 opened warn", "6 recovering warn"}},
		"not a number is missing":                      {[]run{{100, Value{V: math.NaN()}}}, nil},
		"infinity is missing":                          {[]run{{100, Value{V: math.Inf(1)}}}, nil},
		"an unknown quality is missing":                {[]run{{100, Value{Quality: 9, V: 99}}}, nil},
		"idle opens nothing":                           {[]run{{9000, idle}}, nil},
		"idle holds an incident, just not long enough": {[]run{{6, warn}, {1800, idle}, {1, warn}}, []string{"5 opened warn"}},
		"idle closes an incident after half an hour":   {[]run{{6, warn}, {1801, idle}}, []string{"5 opened warn", "1806 resolved warn no_traffic"}},
		"idle closes a recovering incident":            {[]run{{6, warn}, {2, low}, {1801, idle}}, []string{"5 opened warn", "6 recovering warn", "1808 resolved warn no_traffic"}},
		"idle lets a pending rule go":                  {[]run{{5, warn}, {1801, idle}, {5, warn}}, nil},
		"a missing value does not end being idle":      {[]run{{6, warn}, {900, idle}, {100, noSignal}, {902, idle}}, []string{"5 opened warn", "1907 resolved warn no_traffic"}},
		"traffic does": {[]run{{6, warn}, {1700, idle}, {1, hold}, {1700, idle}}, []string{"5 opened warn"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := newScript(t, nil)
			for _, r := range test.runs {
				s.run(r.n, r.v)
			}
			s.wantEvents(test.want...)
		})
	}
}

// Warn and page that become true together are one page, not a warning first.
func TestPageInhibitsWarn(t *testing.T) {
	r := ageRule()
	r.Page.For = r.Warn.For
	s := newScript(t, nil, r).run(6, page)
	s.wantEvents("5 opened page")
	if inc := s.incident(); inc.Level != LevelPage || inc.Peak != LevelPage || inc.Threshold != 25 {
		t.Errorf("incident %+v", inc)
	}
	s = newScript(t, nil).run(5, page)
	s.m.states[ruleKey].PageFor = 10 * time.Second
	s.store.states[ruleKey] = s.m.states[ruleKey].State
	s.restart(time.Hour).run(2, page)
	s.wantEvents("3605 opened page") // at the first evaluation
}

// A rule may have one threshold only.
func TestOneThreshold(t *testing.T) {
	only := ageRule()
	only.Warn = Threshold{}
	s := newScript(t, nil, only).run(6, page).run(100, hold).run(6, page).run(60, Value{V: 24}).run(6, low)
	s.wantEvents("111 opened page", "172 recovering page", "177 resolved page recovered")
	only = ageRule()
	only.Page = Threshold{}
	s = newScript(t, nil, only).run(100, Value{V: 1e9}).run(6, low)
	s.wantEvents("5 opened warn", "100 recovering warn", "105 resolved warn recovered")
}

// Thresholds without a for count at once.
func TestWithoutFor(t *testing.T) {
	r := ageRule()
	r.Warn.For, r.Page.For, r.Clear.For = 0, 0, 0
	s := newScript(t, nil, r).run(1, page).run(1, warn).run(1, low)
	s.wantEvents("0 opened page", "1 deescalated warn", "2 resolved warn recovered")
}

// An incident says what the rule said when its level was last set.
func TestIncidentFields(t *testing.T) {
	s := newScript(t, nil).run(6, Value{V: 17})
	want := Incident{
		ID: "id-000001", Key: ruleKey, Level: LevelWarn, Peak: LevelWarn, Opened: epoch.Add(5 * time.Second),
		Changed: epoch.Add(5 * time.Second), Value: 17, Threshold: 15, Unit: "s", Summary: "old", Impact: "waits",
		Runbook: "age", Action: "rollback", Seq: 1, Notified: true,
	}
	if got := s.incident(); got != want {
		t.Fatalf("got  %+v\nwant %+v", got, want)
	}
	s.rules[0].Summary = "older"
	s.run(11, Value{V: 26.5})
	if got := s.incident(); got.Summary != "older" || got.Threshold != 25 || got.Value != 26.5 || got.Peak != LevelPage {
		t.Errorf("after the escalation: %+v", got)
	}
	s.run(1, noSignal)
	if got := s.incident(); got.Value != 26.5 {
		t.Errorf("the latest known value is %v, want 26.5", got.Value)
	}
}

// Of a step that comes late, two intervals count; of one that goes back, nothing.
func TestElapsedIsCapped(t *testing.T) {
	s := newScript(t, nil).run(1, warn)
	for range 2 {
		s.next = time.Hour
		s.run(1, warn)
	}
	s.next = -time.Hour
	s.run(1, warn)
	s.wantEvents()
	if got := s.m.states[ruleKey].WarnFor; got != 4*time.Second {
		t.Errorf("dwelt for %s, want 4s", got)
	}
	s.run(1, warn)
	s.wantEvents("4 opened warn")
}

// An edited threshold keeps the incident and decides how it goes on.
func TestEditedThreshold(t *testing.T) {
	s := newScript(t, nil).run(6, warn)
	id := s.incident().ID
	s.rules[0].Warn.At, s.rules[0].Page.At, s.rules[0].Clear.Below = 150, 250, 120
	s.run(6, Value{V: 100})
	s.wantEvents("5 opened warn", "6 recovering warn", "11 resolved warn recovered")
	if got := s.incident(); got.ID != id || got.Open() {
		t.Errorf("incident %+v, want %s resolved", got, id)
	}
}

// Taking a level out of a rule does not end its incident.
func TestRemovedThreshold(t *testing.T) {
	s := newScript(t, nil).run(11, page)
	s.rules[0].Page.Set = false
	s.run(7, page)
	s.wantEvents("5 opened warn", "10 escalated page", "16 deescalated warn")
	s.rules[0].Warn.Set, s.rules[0].Page.Set = false, true
	s.run(50, warn).run(6, low)
	s.wantEvents("5 opened warn", "10 escalated page", "16 deescalated warn", "68 recovering warn", "73 resolved warn recovered")
}

// A rule that is deleted, or whose pool is gone, resolves what it opened.
func TestDeletedRule(t *testing.T) {
	s := newScript(t, nil).run(6, warn)
	s.rules = nil
	s.run(2, warn)
	s.wantEvents("5 opened warn", "6 resolved warn rule_deleted")
	s.run(1900, warn) // its turns for the worse are remembered for half an hour
	if got := s.m.States(); len(got) != 0 {
		t.Errorf("states %+v remain", got)
	}
	if len(s.m.states) != 0 || len(s.m.incidents) != 0 || len(s.store.states) != 0 {
		t.Errorf("%d slots, %d incidents, %d saved states remain", len(s.m.states), len(s.m.incidents), len(s.store.states))
	}
}

// A deleted rule that is restored in time continues its incident.
func TestDeletedRuleComesBack(t *testing.T) {
	s := newScript(t, nil).run(6, warn)
	rules := s.rules
	s.rules = nil
	s.run(60, warn)
	s.rules = rules
	s.run(6, warn)
	s.wantEvents("5 opened warn", "6 resolved warn rule_deleted", "71 reopened warn")
}

// Of two rules with one key the first counts.
func TestRuleTwice(t *testing.T) {
	other := ageRule()
	other.Warn.At = 1
	s := newScript(t, nil, ageRule(), other).run(20, Value{V: 14})
	s.wantEvents()
}
