package watch

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"headgate/e2e/alerttest"
	"headgate/e2e/harness"
	"headgate/e2e/rollbacktest"
)

// depthRule is a rule on the number of queued tasks.
var depthRule = alerttest.Rule{
	Name: "depth", Signal: `headgate_queue_depth{pool="$pool"}`, Unit: "tasks", Warn: 2, Page: 5, Below: 2,
}

// newBurst starts an endpoint that holds all calls, and an instance with one worker.
func newBurst(t *testing.T, slack *alerttest.Slack, more ...alerttest.Rule) (*alerttest.Instance, *rollbacktest.Clients, *harness.HeldUpstream) {
	t.Helper()
	upstream := harness.StartHeldUpstream(t)
	d := alerttest.Options{
		Upstream: upstream.URL, Rules: append(more, depthRule), Pool: []string{"mode: observe"},
	}.Start(t, slack)
	return d, rollbacktest.NewClients(d.URL), upstream
}

// A burst opens an incident, and one message shows its states: warn, page, resolved.
func TestOneMessagePerIncident(t *testing.T) {
	t.Parallel()
	slack := alerttest.StartSlack(t, 1)
	d, clients, upstream := newBurst(t, slack)

	clients.Start(4) // one runs, three wait
	warned := d.AwaitFiring(t, "depth", "warn")
	d.AwaitSettled(t, warned.ID)
	root, thread := slack.OnlyPost(t, alerttest.PageChannel, warned.ID)
	if len(thread) != 0 || len(root.Pings) != 0 {
		t.Errorf("a warning has a mention or a thread: %+v, %+v", root, thread)
	}
	wantText(t, root, "WARNING", "3 tasks, limit 2 tasks")

	clients.Start(3)
	paged := d.AwaitFiring(t, "depth", "page")
	d.AwaitSettled(t, paged.ID)
	root, thread = slack.OnlyPost(t, alerttest.PageChannel, warned.ID)
	if paged.ID != warned.ID || len(root.Pings) != 0 || len(root.Versions) == 0 {
		t.Errorf("incident %s became %s; the message is %+v", warned.ID, paged.ID, root)
	}
	wantText(t, root, "PAGE", "6 tasks, limit 5 tasks", alerttest.Summary, alerttest.Impact, alerttest.Runbook, "pool main",
		"observe:", "headgate rollback --pool main", "headgate incident ack "+warned.ID, slackDate(warned))
	if len(thread) != 1 || !slices.Equal(thread[0].Pings, []string{alerttest.Mention}) {
		t.Errorf("the escalation to page has one mention, in the thread: %+v", thread)
	}

	upstream.Release()
	over := d.AwaitEnded(t, "depth")
	d.AwaitSettled(t, over.ID)
	root, thread = slack.OnlyPost(t, alerttest.PageChannel, warned.ID)
	wantText(t, root, "RESOLVED", "below the limit", slackDate(warned), fmt.Sprintf("<!date^%d^", over.Ended.Unix()))
	if strings.Contains(root.AllText(), "headgate incident ack") {
		t.Errorf("the message of a resolved incident has a button to acknowledge: %s", root.AllText())
	}
	last := thread[len(thread)-1]
	wantText(t, last, "Resolved after")
	if len(thread) != 2 || len(last.Pings) != 1 || len(slack.Posts(t, alerttest.PageChannel)) != 3 {
		t.Errorf("the end of a page has one reply: %+v", thread)
	}
	if over.Peak != "page" || *over.EndReason != "recovered" || len(d.Incidents(t)) != 1 {
		t.Errorf("the record has %+v", d.Incidents(t))
	}
}

func slackDate(i harness.Incident) string { return fmt.Sprintf("<!date^%d^", i.Opened.Unix()) }

func wantText(t *testing.T, p alerttest.Post, words ...string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(p.AllText(), w) {
			t.Errorf("%q is not in the message:\n%s", w, p.AllText())
		}
	}
}
