package watch

import (
	"fmt"
	"testing"
	"time"

	"headgate/e2e/watch/desk"
	"headgate/internal/fakeslack"
)

// trouble is a way in which Slack does not take what it is sent.
type trouble struct {
	name  string
	fault fakeslack.Fault // no kind: it is not there at all
	// done: what was sent has arrived although nobody said so.
	done bool
}

func troubles() []trouble {
	return []trouble{
		{name: "not there"},
		{name: "429 with Retry-After", fault: fakeslack.Fault{Kind: fakeslack.TooMany, RetryAfter: "2"}},
		{name: "429 without", fault: fakeslack.Fault{Kind: fakeslack.TooMany}},
		{name: "429 with a fraction", fault: fakeslack.Fault{Kind: fakeslack.TooMany, RetryAfter: "0.5"}},
		{name: "ratelimited in a 200", fault: fakeslack.Fault{Kind: fakeslack.TooManyInBody}},
		{name: "500", fault: fakeslack.Fault{Kind: fakeslack.ServerError}},
		{name: "an empty answer", fault: fakeslack.Fault{Kind: fakeslack.EmptyAnswer}},
		{name: "slow", fault: fakeslack.Fault{Kind: fakeslack.Slow, Delay: time.Minute}, done: true},
		{name: "drops before", fault: fakeslack.Fault{Kind: fakeslack.DropBefore}},
		{name: "drops after", fault: fakeslack.Fault{Kind: fakeslack.DropAfter}, done: true},
		{name: "500 after", fault: fakeslack.Fault{Kind: fakeslack.ErrorAfter}, done: true},
	}
}

// begin makes the trouble, until end is called.
func (x trouble) begin(t *testing.T, s *desk.Slack) (end func()) {
	t.Helper()
	if x.fault.Kind == "" {
		s.GoAway()
		return func() { s.ComeBack(t) }
	}
	x.fault.Method = "chat.postMessage"
	return s.Inject(x.fault)
}

// A page opens and is over while Slack is in trouble. Afterwards there is one
// message, with the times at which it happened: one that says both if nothing had
// arrived before, and one that was kept up if it had.
func TestSlackInTroubleWhileItFiresAndClears(t *testing.T) {
	for _, x := range troubles() {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			slack := desk.StartSlack(t, 1)
			d := desk.Setup{Rules: []desk.Rule{desk.Knob("knob", 0, 3)}}.Open(t, slack)
			end := x.begin(t, slack)
			d.Turn(t, 1, 3)
			fired := d.AwaitFiring(t, "knob", "page")
			d.AwaitIncident(t, "knob", "tried", func(i desk.Incident) bool { return i.Deliveries[0].Attempts > 0 })
			d.Turn(t, 3, 1)
			over := d.AwaitOver(t, "knob")
			end()
			d.AwaitSettled(t, fired.ID)
			root, thread := slack.OnlyPost(t, desk.Page, fired.ID)
			wantWords(t, root, "RESOLVED", unix(fired), fmt.Sprintf("<!date^%d^", over.Ended.Unix()))
			if got := len(root.Pings); got != 1 {
				t.Errorf("the message calls %d times, want once: %q", got, root.Text)
			}
			told := 0 // combined: the message itself has said it
			if x.done {
				told = 1
			}
			if len(thread) != told || len(d.Incidents(t)) != 1 {
				t.Errorf("the thread is %+v, incidents are %+v", thread, d.Incidents(t))
			}
			if combined := len(root.Versions) == 0; combined == x.done {
				t.Errorf("the message was combined: %v; versions %+v", combined, root.Versions)
			}
		})
	}
}

// What fires while Slack is in trouble and is still so afterwards is told then, and
// goes on as any other.
func TestSlackComesBackWhileItFires(t *testing.T) {
	t.Parallel()
	slack := desk.StartSlack(t, 1)
	d := desk.Setup{Rules: []desk.Rule{desk.Knob("knob", 0, 3)}}.Open(t, slack)
	slack.GoAway()
	d.Turn(t, 1, 3)
	fired := d.AwaitFiring(t, "knob", "page")
	d.AwaitIncident(t, "knob", "tried twice", func(i desk.Incident) bool { return i.Deliveries[0].Attempts > 1 })
	slack.ComeBack(t)
	d.AwaitSettled(t, fired.ID)
	root, _ := slack.OnlyPost(t, desk.Page, fired.ID)
	wantWords(t, root, "PAGE", unix(fired))
	d.Turn(t, 3, 1)
	d.AwaitOver(t, "knob")
	d.AwaitSettled(t, fired.ID)
	root, thread := slack.OnlyPost(t, desk.Page, fired.ID)
	wantWords(t, root, "RESOLVED", unix(fired))
	if len(thread) != 1 {
		t.Errorf("the thread is %+v", thread)
	}
}
