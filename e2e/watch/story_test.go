package watch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"headgate/e2e/harness"
	"headgate/e2e/rollback/rig"
	"headgate/e2e/watch/desk"
)

// depth is a rule on how many tasks wait.
var depth = desk.Rule{
	Name: "depth", Signal: `headgate_queue_depth{pool="$pool"}`, Unit: "tasks", Warn: 2, Page: 5, Below: 2,
}

// burst is an endpoint that holds everything, and a desk with one worker before it.
func burst(t *testing.T, slack *desk.Slack, more ...desk.Rule) (*desk.Desk, *rig.Crowd, *harness.Held) {
	t.Helper()
	upstream := harness.StartHeld(t)
	d := desk.Setup{
		Upstream: upstream.URL, Rules: append(more, depth), Pool: []string{"mode: observe"},
	}.Open(t, slack)
	return d, rig.NewCrowd(d.URL), upstream
}

// A burst opens an incident, and one message follows it from warn through page to
// its end.
func TestOneMessageFollowsABurst(t *testing.T) {
	t.Parallel()
	slack := desk.StartSlack(t, 1)
	d, crowd, upstream := burst(t, slack)

	crowd.Join(4) // one runs, three wait
	warned := d.AwaitFiring(t, "depth", "warn")
	d.AwaitSettled(t, warned.ID)
	root, thread := slack.OnlyPost(t, desk.Page, warned.ID)
	if len(thread) != 0 || len(root.Pings) != 0 {
		t.Errorf("a warning pings or has a thread: %+v, %+v", root, thread)
	}
	wantWords(t, root, "WARNING", "3 tasks, limit 2 tasks")

	crowd.Join(3)
	paged := d.AwaitFiring(t, "depth", "page")
	d.AwaitSettled(t, paged.ID)
	root, thread = slack.OnlyPost(t, desk.Page, warned.ID)
	if paged.ID != warned.ID || len(root.Pings) != 0 || len(root.Versions) == 0 {
		t.Errorf("incident %s became %s; the message is %+v", warned.ID, paged.ID, root)
	}
	wantWords(t, root, "PAGE", "6 tasks, limit 5 tasks", desk.Summary, desk.Feel, desk.Runbook, "pool main",
		"observe: refusals are only counted", "headgate rollback --pool main", "headgate incident ack "+warned.ID, unix(warned))
	if len(thread) != 1 || !slices.Equal(thread[0].Pings, []string{desk.Mention}) {
		t.Errorf("the rise to page calls people once, in the thread: %+v", thread)
	}

	upstream.Finish()
	over := d.AwaitOver(t, "depth")
	d.AwaitSettled(t, over.ID)
	root, thread = slack.OnlyPost(t, desk.Page, warned.ID)
	wantWords(t, root, "RESOLVED", "the value went back below the limit", unix(warned), fmt.Sprintf("<!date^%d^", over.Ended.Unix()))
	if strings.Contains(root.Words(), "headgate incident ack") {
		t.Errorf("an incident that is over can be acknowledged: %s", root.Words())
	}
	last := thread[len(thread)-1]
	wantWords(t, last, "Resolved after")
	if len(thread) != 2 || len(last.Pings) != 1 || len(slack.Posts(t, desk.Page)) != 3 {
		t.Errorf("the end of a page is told once, to those it called: %+v", thread)
	}
	if over.Peak != "page" || *over.Ending != "recovered" || len(d.Incidents(t)) != 1 {
		t.Errorf("the record has %+v", d.Incidents(t))
	}
}

func unix(i desk.Incident) string { return fmt.Sprintf("<!date^%d^", i.Opened.Unix()) }

func wantWords(t *testing.T, p desk.Post, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(p.Words(), w) {
			t.Errorf("%q is not in the message:\n%s", w, p.Words())
		}
	}
}
