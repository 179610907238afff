package watch

import (
	"fmt"
	"testing"
	"time"

	"headgate/e2e/alerttest"
	"headgate/e2e/harness"
	"headgate/internal/fakeslack"
)

// slackFault is a failure of Slack.
type slackFault struct {
	name  string
	fault fakeslack.Fault // no kind: Slack is offline
	// done: messages arrive although the answer is an error.
	delivered bool
}

func slackFaults() []slackFault {
	return []slackFault{
		{name: "not there"},
		{name: "429 with Retry-After", fault: fakeslack.Fault{Kind: fakeslack.TooManyRequests, RetryAfter: "2"}},
		{name: "429 without", fault: fakeslack.Fault{Kind: fakeslack.TooManyRequests}},
		{name: "429 with a fraction", fault: fakeslack.Fault{Kind: fakeslack.TooManyRequests, RetryAfter: "0.5"}},
		{name: "ratelimited in a 200", fault: fakeslack.Fault{Kind: fakeslack.RateLimitedBody}},
		{name: "500", fault: fakeslack.Fault{Kind: fakeslack.ServerError}},
		{name: "an empty answer", fault: fakeslack.Fault{Kind: fakeslack.EmptyResponse}},
		{name: "slow", fault: fakeslack.Fault{Kind: fakeslack.Slow, Delay: time.Minute}, delivered: true},
		{name: "drops before", fault: fakeslack.Fault{Kind: fakeslack.DropBefore}},
		{name: "drops after", fault: fakeslack.Fault{Kind: fakeslack.DropAfter}, delivered: true},
		{name: "500 after", fault: fakeslack.Fault{Kind: fakeslack.ErrorAfter}, delivered: true},
	}
}

// inject makes Slack fail until end is called.
func (x slackFault) inject(t *testing.T, s *alerttest.Slack) (end func()) {
	t.Helper()
	if x.fault.Kind == "" {
		s.GoOffline()
		return func() { s.GoOnline(t) }
	}
	x.fault.Method = "chat.postMessage"
	return s.Inject(x.fault)
}

// A page opens and ends while Slack fails. Afterwards there is one message with the times of
// both: a combined one if nothing had arrived before, else the first one, edited.
func TestSlackFailsWhileIncidentOpensAndEnds(t *testing.T) {
	for _, x := range slackFaults() {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			slack := alerttest.StartSlack(t, 1)
			d := alerttest.Options{Rules: []alerttest.Rule{alerttest.WorkersRule("workers", 0, 3)}}.Start(t, slack)
			end := x.inject(t, slack)
			d.SetWorkers(t, 1, 3)
			fired := d.AwaitFiring(t, "workers", "page")
			d.AwaitIncident(t, "workers", "tried", func(i harness.Incident) bool { return i.Deliveries[0].Attempts > 0 })
			d.SetWorkers(t, 3, 1)
			over := d.AwaitEnded(t, "workers")
			end()
			d.AwaitSettled(t, fired.ID)
			root, thread := slack.OnlyPost(t, alerttest.PageChannel, fired.ID)
			wantText(t, root, "RESOLVED", slackDate(fired), fmt.Sprintf("<!date^%d^", over.Ended.Unix()))
			if got := len(root.Pings); got != 1 {
				t.Errorf("the message has %d mentions, want one: %q", got, root.Text)
			}
			replies := 0 // combined: the message itself says it
			if x.delivered {
				replies = 1
			}
			if len(thread) != replies || len(d.Incidents(t)) != 1 {
				t.Errorf("the thread is %+v, incidents are %+v", thread, d.Incidents(t))
			}
			if combined := len(root.Versions) == 0; combined == x.delivered {
				t.Errorf("the message was combined: %v; versions %+v", combined, root.Versions)
			}
		})
	}
}

// An incident that opens while Slack fails, and is still open afterwards, is sent then and goes
// on as usual.
func TestSlackRecoversWhileIncidentIsOpen(t *testing.T) {
	t.Parallel()
	slack := alerttest.StartSlack(t, 1)
	d := alerttest.Options{Rules: []alerttest.Rule{alerttest.WorkersRule("workers", 0, 3)}}.Start(t, slack)
	slack.GoOffline()
	d.SetWorkers(t, 1, 3)
	fired := d.AwaitFiring(t, "workers", "page")
	d.AwaitIncident(t, "workers", "tried twice", func(i harness.Incident) bool { return i.Deliveries[0].Attempts > 1 })
	slack.GoOnline(t)
	d.AwaitSettled(t, fired.ID)
	root, _ := slack.OnlyPost(t, alerttest.PageChannel, fired.ID)
	wantText(t, root, "PAGE", slackDate(fired))
	d.SetWorkers(t, 3, 1)
	d.AwaitEnded(t, "workers")
	d.AwaitSettled(t, fired.ID)
	root, thread := slack.OnlyPost(t, alerttest.PageChannel, fired.ID)
	wantText(t, root, "RESOLVED", slackDate(fired))
	if len(thread) != 1 {
		t.Errorf("the thread is %+v", thread)
	}
}
