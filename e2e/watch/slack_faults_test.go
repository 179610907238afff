package watch

import (
	"fmt"
	"testing"
	"time"

	"headgate/e2e/alerttest"
	"headgate/e2e/harness"
	"headgate/internal/fakeslack"
)

// slackFault is a way in which Slack does not take what it is sent.
type slackFault struct {
	name  string
	fault fakeslack.Fault // no kind: it is not there at all
	// done: what was sent has arrived although nobody said so.
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

// inject makes the trouble, until end is called.
func (x slackFault) inject(t *testing.T, s *alerttest.Slack) (end func()) {
	t.Helper()
	if x.fault.Kind == "" {
		s.GoOffline()
		return func() { s.GoOnline(t) }
	}
	x.fault.Method = "chat.postMessage"
	return s.Inject(x.fault)
}

// A page opens and is over while Slack is in trouble. Afterwards there is one
// message, with the times at which it happened: one that says both if nothing had
// arrived before, and one that was kept up if it had.
func TestSlackInTroubleWhileItFiresAndClears(t *testing.T) {
	for _, x := range slackFaults() {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			slack := alerttest.StartSlack(t, 1)
			d := alerttest.Options{Rules: []alerttest.Rule{alerttest.WorkersRule("knob", 0, 3)}}.Start(t, slack)
			end := x.inject(t, slack)
			d.SetWorkers(t, 1, 3)
			fired := d.AwaitFiring(t, "knob", "page")
			d.AwaitIncident(t, "knob", "tried", func(i harness.Incident) bool { return i.Deliveries[0].Attempts > 0 })
			d.SetWorkers(t, 3, 1)
			over := d.AwaitEnded(t, "knob")
			end()
			d.AwaitSettled(t, fired.ID)
			root, thread := slack.OnlyPost(t, alerttest.PageChannel, fired.ID)
			wantText(t, root, "RESOLVED", slackDate(fired), fmt.Sprintf("<!date^%d^", over.Ended.Unix()))
			if got := len(root.Pings); got != 1 {
				t.Errorf("the message calls %d times, want once: %q", got, root.Text)
			}
			told := 0 // combined: the message itself has said it
			if x.delivered {
				told = 1
			}
			if len(thread) != told || len(d.Incidents(t)) != 1 {
				t.Errorf("the thread is %+v, incidents are %+v", thread, d.Incidents(t))
			}
			if combined := len(root.Versions) == 0; combined == x.delivered {
				t.Errorf("the message was combined: %v; versions %+v", combined, root.Versions)
			}
		})
	}
}

// What fires while Slack is in trouble and is still so afterwards is told then, and
// goes on as any other.
func TestSlackComesBackWhileItFires(t *testing.T) {
	t.Parallel()
	slack := alerttest.StartSlack(t, 1)
	d := alerttest.Options{Rules: []alerttest.Rule{alerttest.WorkersRule("knob", 0, 3)}}.Start(t, slack)
	slack.GoOffline()
	d.SetWorkers(t, 1, 3)
	fired := d.AwaitFiring(t, "knob", "page")
	d.AwaitIncident(t, "knob", "tried twice", func(i harness.Incident) bool { return i.Deliveries[0].Attempts > 1 })
	slack.GoOnline(t)
	d.AwaitSettled(t, fired.ID)
	root, _ := slack.OnlyPost(t, alerttest.PageChannel, fired.ID)
	wantText(t, root, "PAGE", slackDate(fired))
	d.SetWorkers(t, 3, 1)
	d.AwaitEnded(t, "knob")
	d.AwaitSettled(t, fired.ID)
	root, thread := slack.OnlyPost(t, alerttest.PageChannel, fired.ID)
	wantText(t, root, "RESOLVED", slackDate(fired))
	if len(thread) != 1 {
		t.Errorf("the thread is %+v", thread)
	}
}
