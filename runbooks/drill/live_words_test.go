package drill_test

import (
	"strings"
	"testing"

	"headgate/proxy/fault"
	"headgate/runbooks/drill"
)

// What a live run would touch is said before it begins, with its bound; and what it
// saw was seen at production's door, since it sends nothing itself.
func TestLiveOutlineAndSources(t *testing.T) {
	f := newFacts(func(f *drill.Facts) {
		f.Run.Spec.Target, f.Run.Spec.Share = drill.Live, 0.25
		f.Run.Spec.Scenario.Faults = []drill.Injection{{Fault: fault.Fault{Kind: fault.Status, Code: 503, Share: 1}, For: sec}}
		addTasks(f, 30, 0, sec, drill.Served)
	})
	if got := drill.ReadMeasure(f, drill.ErrorShare); got.Source != "production's door" || !got.Measured {
		t.Errorf("seen by %q, known %t", got.Source, got.Measured)
	}
	if got := drill.ReadMeasure(f, drill.TasksLost); got.Source != "production's door and endpoint" {
		t.Errorf("seen by %q", got.Source)
	}
	for marked, want := range map[bool]string{
		false: "25% of the tasks at most, 200 in all", true: "a signed drill header and of no others, 200 at most",
	} {
		f.Run.Spec.Marked = marked
		text := strings.Join(f.Run.Spec.Outline(), "\n")
		if !strings.Contains(text, want) || strings.Contains(text, "100% of calls to the endpoint") == marked {
			t.Errorf("marked %t: %s", marked, text)
		}
	}
}
