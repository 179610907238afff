package spec_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"
	"time"

	"headgate/proxy/fault"
	"headgate/runbooks/drill"
	"headgate/runbooks/drill/spec"
)

const fullSpec = `
id: weekly
name: Weekly drill
note: all that there is
owner: "@oncall"
schedule: "30 4 * * 1"
zone: Europe/Berlin
catch_up: 6h
speed: 5
target: twin
pool: default
scenario:
  duration: 5m
  workers: 16
  baseline: 60s
  arrivals: {rate: 0.8, rest: 0.4, large_share: 10%, stream: true, bursts: [{from: 120s, to: 4m, times: 2}]}
  service: uniform:5s-30s
  seed: 7
  faults: [{kind: latency, share: 50%, from: 10s, for: 60s, delay: 2s, jitter: 500ms}, {kind: status, share: 0.1, from: 10s, for: 1m, code: 503}]
  slack: [{kind: refuse, from: 1s, for: 2s}]
  steps: [{do: rollback, at: 100s, for: 30s}, {do: lose_slots, at: 10s, count: 2}]
expect:
  - p95_turnaround <= 60s
  - late_share <= 5%
  - pages == 1
abort_if: [error_share >= 0.5]
recovery: 300s
`

func parse(t *testing.T, text string) drill.Spec {
	t.Helper()
	s, err := spec.Parse("weekly.yaml", []byte(text), spec.Settings{})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestParseReadsAllSettings(t *testing.T) {
	got := parse(t, fullSpec)
	want := drill.Spec{
		ID: "weekly", Name: "Weekly drill", Note: "all that there is", Owner: "@oncall",
		Schedule: "30 4 * * 1", Zone: "Europe/Berlin", CatchUp: 6 * time.Hour, Speed: 5,
		Target: drill.Twin, Pool: "default",
		Scenario: drill.Scenario{
			Duration: 5 * time.Minute, Workers: 16, Baseline: time.Minute, Service: "uniform:5s-30s", Seed: 7,
			Arrivals: drill.Arrivals{Rate: 0.8, Rest: 0.4, LargeShare: 0.1, Stream: true,
				Bursts: []drill.Burst{{From: 2 * time.Minute, To: 4 * time.Minute, Multiple: 2}}},
			Faults: []drill.Injection{
				{Fault: fault.Fault{Kind: fault.Latency, Share: 0.5, Delay: 2 * time.Second, Jitter: 500 * time.Millisecond}, From: 10 * time.Second, For: time.Minute},
				{Fault: fault.Fault{Kind: fault.Status, Share: 0.1, Code: 503}, From: 10 * time.Second, For: time.Minute},
			},
			Slack: []drill.Injection{{Fault: fault.Fault{Kind: fault.Refuse, Share: 1}, From: time.Second, For: 2 * time.Second}},
			Steps: []drill.Step{{Kind: drill.StepRollback, At: 100 * time.Second, For: 30 * time.Second}, {Kind: drill.StepLoseSlots, At: 10 * time.Second, Count: 2}},
		},
		Expect: []drill.Expectation{
			{Measure: drill.P95, Compare: drill.AtMost, Limit: 60, Unit: "s"},
			{Measure: drill.LateShare, Compare: drill.AtMost, Limit: 0.05, Unit: "ratio"},
			{Measure: drill.Pages, Compare: drill.Equal, Limit: 1, Unit: "messages"},
		},
		AbortIf:  []drill.Expectation{{Measure: drill.ErrorShare, Compare: drill.AtLeast, Limit: 0.5, Unit: "ratio"}},
		Recovery: 5 * time.Minute,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v\nwant\n%+v", got, want)
	}
}

func TestSpecRoundTripsJSONAndYAML(t *testing.T) {
	for _, s := range append(builtIn(t), parse(t, fullSpec)) {
		data, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back drill.Spec
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, s) {
			t.Errorf("%s: JSON gives\n%+v\nwant\n%+v", s.ID, back, s)
		}
		text, err := s.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := spec.Parse("again", text, spec.Settings{})
		if err != nil {
			t.Fatalf("%s\n%v", text, err)
		}
		again.BuiltIn = s.BuiltIn
		if !reflect.DeepEqual(again, s) {
			t.Errorf("%s: YAML gives\n%+v\nwant\n%+v", s.ID, again, s)
		}
	}
}

func builtIn(t *testing.T) []drill.Spec {
	t.Helper()
	all, err := spec.BuiltIn()
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func TestBuiltInsAreThere(t *testing.T) {
	var ids []string
	for _, s := range builtIn(t) {
		ids = append(ids, s.ID)
		if s.Note == "" || s.Scenario.Duration == 0 || !s.BuiltIn || s.Schedule != "" {
			t.Errorf("%s has no note, duration or mark, or has a schedule", s.ID)
		}
		if (s.Scenario.Baseline == 0) != (s.ID == "overload") {
			t.Errorf("%s: baseline %v", s.ID, s.Scenario.Baseline)
		}
		if text, ok := spec.BuiltInText(s.ID); !ok || !strings.Contains(string(text), "id: "+s.ID) {
			t.Errorf("%s has no text", s.ID)
		}
	}
	want := "alert-path burst database-locked hung-upstream overload rollback slack-outage slow-upstream truncated-streams upstream-errors worker-loss"
	if got := strings.Join(ids, " "); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ name, old, new, want string }{
		{"no expectation", "expect:\n  - p95_turnaround <= 60s\n  - late_share <= 5%\n  - pages == 1\n", "", "must have at least one expectation"},
		{"empty expectation", "expect:\n  - p95_turnaround <= 60s\n  - late_share <= 5%\n  - pages == 1\n", "expect: []\n", "weekly.yaml:22:1: expect: must have at least one expectation"},
		{"no stop condition", "abort_if: [error_share >= 0.5]", "", "abort_if: must say when the drill is to stop"},
		{"stop at once", "error_share >= 0.5", "error_share >= 0", "holds at once"},
		{"stop the wrong way", "error_share >= 0.5", "error_share <= 0.5", "must be written with >="},
		{"stop too late", "error_share >= 0.5", "tasks_lost >= 5", "known only at the end"},
		{"always holds", "late_share <= 5%", "late_share <= 100%", "always holds"},
		{"unknown measure", "late_share <= 5%", "lateness <= 5%", `unknown measure "lateness"; known: late_share`},
		{"no comparator", "late_share <= 5%", "late_share", "must be a measure, one of"},
		{"not a time", "p95_turnaround <= 60s", "p95_turnaround <= 60", "must be a duration such as"},
		{"not a share", "late_share <= 5%", "late_share <= 500%", "must be 0 to 1"},
		{"not whole", "pages == 1", "pages == 1.5", "must be a whole number"},
		{"twice", "pages == 1", "late_share <= 6%", "sets late_share <= twice"},
		{"unknown key", "owner:", "owners:", `weekly.yaml:5:1: unknown key "owners"; did you mean owner?`},
		{"repeated key", "note: all that there is", "name: x", "is repeated: it is already set in line 3"},
		{"no ID", "id: weekly", "id: Weekly Drill", "must be a word that stays"},
		{"bidirectional text", "name: Weekly drill", "name: \"a\u202eb\"", "control characters"},
		{"overlapping bursts", "[{from: 120s, to: 4m, times: 2}]", "[{from: 120s, to: 4m, times: 2}, {from: 3m, to: 5m, times: 3}]", "must not overlap"},
		{"burst backwards", "to: 4m", "to: 1m", "must end after it begins"},
		{"burst too late", "to: 4m", "to: 6m", "must be at most the duration, 5m"},
		{"fault after the end", "for: 60s, delay", "for: 10m, delay", "must end within the duration, 5m"},
		{"fault for ever", "for: 60s, delay", "for: 0s, delay", "must be above 0: every fault has a time limit"},
		{"fault without share", "share: 50%", "share: 0%", "a share of 0 has no effect"},
		{"unknown fault", "kind: refuse", "kind: explode", "kind: unknown fault"},
		{"latency without delay", "delay: 2s, jitter: 500ms", "jitter: 0s", "delay: latency needs one above 0s"},
		{"status without code", ", code: 503", "", "code: 0, want 400 to 599"},
		{"delay of status", "code: 503", "code: 503, delay: 1s", "delay: does not apply to status"},
		{"same fault twice", "kind: status, share: 0.1", "kind: latency, delay: 1s, share: 0.1", "two faults latency at the same time"},
		{"unknown step", "do: rollback", "do: reboot", "must be one of rollback, restore"},
		{"lost restore", "do: rollback, at: 100s, for: 30s", "do: restore, at: 100s", "has nothing to restore"},
		{"no service", "uniform:5s-30s", "quick", "must be the time that calls take"},
		{"no load", "rate: 0.8", "rate: 0", "without load nothing can be seen"},
		{"too much", "rate: 0.8", "rate: 900", "must send at most 50000 tasks"},
		{"too long", "duration: 5m", "duration: 3h", "must be at most 2h"},
		{"too short", "duration: 5m", "duration: 1s", "must be at least 10s"},
		{"no recovery", "recovery: 300s", "recovery: 0s", "must be at least 10s: the time limit"},
		{"bad zone", "Europe/Berlin", "Europe/Atlantis", "must be a time zone such as"},
		{"bad schedule", "30 4 * * 1", "30 4 30 2 *", "never comes"},
		{"zone without schedule", "schedule: \"30 4 * * 1\"\n", "", "has no effect without a schedule"},
		{"live is not allowed", "target: twin", "target: live", "needs allow_live: true"},
		{"share of a twin", "target: twin", "share: 10%", "are for target: live"},
		{"unknown target", "target: twin", "target: prod", "must be twin or live"},
		{"too fast", "speed: 5", "speed: 500", "must be a number from 1 to 100"},
		{"flip without rollback", "pages == 1", "restore_time <= 1s\n  - flip_time <= 1s\n  - refused_in_baseline == 0", ""},
		{"an alias", "note: all that there is", "note: *x", "YAML aliases are not supported"},
		{"two documents", "recovery: 300s", "recovery: 300s\n---\na: b", "must hold one YAML document"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(fullSpec, c.old, c.new, 1)
			if text == fullSpec {
				t.Fatal("nothing was replaced")
			}
			_, err := spec.Parse("weekly.yaml", []byte(text), spec.Settings{})
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var problems spec.SpecErrors
			if !errors.As(err, &problems) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

func TestLiveIsBounded(t *testing.T) {
	const live = `
id: canary
target: live
share: 5%
scenario:
  duration: 60s
  faults: [{kind: latency, from: 10s, for: 20s, delay: 1s}]
expect: [late_share <= 5%]
abort_if: [error_share >= 5%]
recovery: 60s
`
	allowed := spec.Settings{AllowLive: true, Pools: []string{"default"}}
	s, err := spec.Parse("live.yaml", []byte(live), allowed)
	if err != nil || s.Speed != 1 || s.Name != "canary" {
		t.Fatalf("got %+v, %v", s, err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"share: 5%", "share: 50%", "must be at most 0.25"},
		{"share: 5%", "marked: true", ""},
		{"share: 5%\n", "", "must say how much of production may be touched"},
		{"share: 5%", "share: 5%\nspeed: 3", "must be 1 for a live drill"},
		{"share: 5%", "share: 5%\npool: other", "must be one of default"},
		{"late_share <= 5%", "time_to_page <= 5s", "cannot be seen by a live drill"},
		{"duration: 60s", "duration: 60s\n  workers: 3", "must leave out workers"},
		{"duration: 60s", "duration: 60s\n  steps: [{do: rollback, at: 1s}]", "must have only faults"},
	} {
		_, err := spec.Parse("live.yaml", []byte(strings.Replace(live, c.old, c.new, 1)), allowed)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s → %s: got %v, want %q", c.old, c.new, err, c.want)
		}
	}
}

func TestMerge(t *testing.T) {
	own := parse(t, fullSpec)
	replaced := own
	replaced.ID, replaced.Name = "burst", "My burst"
	all, err := spec.Merge(builtIn(t), []drill.Spec{own, replaced})
	if err != nil || len(all) != 12 {
		t.Fatalf("%d drills, %v", len(all), err)
	}
	if s, ok := spec.Find(all, "burst"); !ok || s.Name != "My burst" || s.BuiltIn {
		t.Errorf("burst is %+v", s)
	}
	if s, ok := spec.Find(all, "weekly DRILL"); !ok || s.ID != "weekly" {
		t.Errorf("by name: %+v", s)
	}
	if _, ok := spec.Find(all, "../burst"); ok {
		t.Error("found what is not there")
	}
	if _, err := spec.Merge(nil, []drill.Spec{own, own}); err == nil || !strings.Contains(err.Error(), `two drills have the ID "weekly"`) {
		t.Errorf("two of one ID: %v", err)
	}
	replaced.Name = "WEEKLY drill"
	if _, err := spec.Merge(nil, []drill.Spec{own, replaced}); err == nil || !strings.Contains(err.Error(), "two drills have the name") {
		t.Errorf("two of one name: %v", err)
	}
}

// TestLiveOutline: an outline of a live run says how much of production it touches at most.
func TestLiveOutline(t *testing.T) {
	live := drill.Spec{Target: drill.Live, Share: 0.25, Scenario: drill.Scenario{
		Faults: []drill.Injection{{Fault: fault.Fault{Kind: fault.Status, Code: 503, Share: 1}, For: time.Second}},
	}}
	for marked, want := range map[bool]string{
		false: "25% of the tasks at most, 200 in all", true: "a signed drill header and of no others, 200 at most",
	} {
		live.Marked = marked
		text := strings.Join(spec.Outline(live), "\n")
		if !strings.Contains(text, want) || strings.Contains(text, "100% of calls to the endpoint") == marked {
			t.Errorf("marked %t: %s", marked, text)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(fullSpec)
	for _, id := range []string{"burst", "rollback", "slack-outage"} {
		text, _ := spec.BuiltInText(id)
		f.Add(string(text))
	}
	f.Add("id: [")
	f.Add("expect: [late_share <= 1e999%]")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := spec.Parse("f", []byte(text), spec.Settings{AllowLive: true})
		if err != nil {
			return
		}
		out, err := s.YAML()
		if err != nil {
			t.Fatal(err)
		}
		again, err := spec.Parse("g", out, spec.Settings{AllowLive: true})
		if err != nil {
			t.Fatalf("%s\n%v", out, err)
		}
		if !reflect.DeepEqual(again, s) {
			t.Errorf("got %+v\nwant %+v", again, s)
		}
		if _, err := json.Marshal(s); err != nil {
			t.Error(err)
		}
		if len(spec.Outline(s)) < 4 {
			t.Error("no outline")
		}
	})
}
