package drill_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"headgate/runbooks/drill"
)

// TestWhatIsSeenIsNamed changes what was seen of a run that passes.
func TestWhatIsSeenIsNamed(t *testing.T) {
	for _, c := range []struct {
		name, drill string
		change      func(*drill.Evidence)
		want        string
	}{
		{"called after its deadline", "burst", func(e *drill.Evidence) {
			i := slices.IndexFunc(e.Tasks, func(t drill.Task) bool { return t.Due > 100*time.Second && t.End == drill.Served })
			e.Tasks[i].Due -= 80 * time.Second
			e.Tasks[i].Sent -= 80 * time.Second
		}, "1 tasks went to the endpoint after their deadline"},
		{"overtaken, and still waiting", "burst", func(e *drill.Evidence) {
			for n := range 8 {
				at := time.Duration(20+n) * time.Second
				e.Tasks = append(e.Tasks, drill.Task{ID: 10_000 + n, Due: at, Sent: at})
			}
		}, "8 of "},
	} {
		t.Run(c.name, func(t *testing.T) {
			spec, _ := drill.Find(builtIn(t), c.drill)
			f := factsOf(spec, sabotage{})
			c.change(&f.Evidence)
			if verdict, reason, _ := drill.Judge(f); verdict == drill.Passed || !strings.Contains(reason, c.want) {
				t.Errorf("%s: %s, want %q", verdict, reason, c.want)
			}
		})
	}
}
