package alerttest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"headgate/e2e/harness"
	"headgate/internal/fakeslack"
)

// KillTest kills a gate (SIGKILL) at random times while incidents open and end and every
// third call to Slack fails.
type KillTest struct {
	Rounds int
	Seed   uint64
}

// KillSummary counts the results of the rounds.
type KillSummary struct {
	Kills, Incidents, Messages, Replies int
	Repeats                             int // posts beyond one for each event and incident
	Calls, FailedCalls                  int // of Slack
	InFlight                            int // deliveries in flight at a kill
}

const (
	// maxUptime limits the life of the gate in a round: rules fire after 5 s.
	maxUptime = 6 * time.Second
	// roundsPerGeneration is how many rounds the rules of a generation last.
	roundsPerGeneration = 3
)

// faultKinds are the failures, all equally likely.
func faultKinds() []fakeslack.FaultKind {
	return []fakeslack.FaultKind{
		fakeslack.ServerError, fakeslack.TooManyRequests, fakeslack.DropBefore, fakeslack.DropAfter, fakeslack.ErrorAfter,
	}
}

// failOneInThree makes one call in three fail.
func failOneInThree(s *Slack) {
	rest := 1.0 // share of the calls that no earlier fault affects
	share := 1.0 / 3 / float64(len(faultKinds()))
	for _, k := range faultKinds() {
		s.Inject(fakeslack.Fault{Kind: k, Probability: share / rest})
		rest -= share
	}
}

// rules returns the rules of a round: some fire and clear by the clock and stay, others are
// replaced from time to time, so that their incidents end with them.
func (c KillTest) rules(round int) []Rule {
	swing := func(name string, period, offset int) Rule {
		phase := fmt.Sprintf("((time() + %d) %% %d)", offset, period)
		return Rule{
			Name: name, Warn: 1, Page: 2, Below: 1,
			// Above 0 for three fifths of the period, above 1 for the last of them.
			Signal: fmt.Sprintf(`clamp_min(headgate_workers{pool="$pool"} * 0, 0) + (%s < bool %d) + ((%[1]s > bool %d) * (%[1]s < bool %[2]d))`,
				phase, period*3/5, period*3/10),
		}
	}
	g := round / roundsPerGeneration
	return []Rule{
		swing("tide", 30, 0), swing("wave", 40, 20),
		swing(fmt.Sprintf("gust_%d", g), 20, 5), swing(fmt.Sprintf("squall_%d", g), 24, 12),
		WorkersRule("calm", 50, 0),
	}
}

// Run kills the gate in each round, and at the end compares Slack with the record.
func (c KillTest) Run(t testing.TB) KillSummary {
	t.Helper()
	random := rand.New(rand.NewPCG(c.Seed, 0))
	slack := StartSlack(t, c.Seed)
	failOneInThree(slack)
	dir := t.TempDir()
	setup := Options{Rules: c.rules(0)}
	setup.WriteSettings(t, dir, slack)
	summary := KillSummary{Kills: c.Rounds}
	for n := range c.Rounds {
		WriteRules(t, dir, c.rules(n)...)
		d := Start(t, dir, slack)
		time.Sleep(time.Duration(random.Int64N(int64(maxUptime)))) // the random time
		summary.InFlight += d.pendingDeliveries(t)
		d.Kill(t)
		slack.checkThreads(t)
		if t.Failed() {
			t.Fatalf("round %d of seed %d", n, c.Seed)
		}
	}
	for _, call := range slack.Calls() {
		summary.Calls++
		for _, k := range faultKinds() {
			if call.Error == string(k) {
				summary.FailedCalls++
			}
		}
	}
	slack.ClearFaults()
	WriteRules(t, dir, WorkersRule("calm", 50, 0)) // all other incidents end
	d := Start(t, dir, slack)
	d.checkAgainstSlack(t, &summary)
	if summary.Repeats > summary.Kills || summary.Incidents == 0 || summary.FailedCalls == 0 {
		t.Errorf("more repeats than kills, or no incidents or failed calls, seed %d: %s", c.Seed, summary)
	}
	return summary
}

// pendingDeliveries counts deliveries that are being sent or whose result is unknown.
func (d *Instance) pendingDeliveries(t testing.TB) (n int) {
	t.Helper()
	for _, i := range d.Incidents(t) {
		for _, x := range d.Incident(t, i.ID).Deliveries {
			if x.State == "sending" || x.State == "uncertain" {
				n++
			}
		}
	}
	return n
}

// checkThreads checks that each reply is in the thread of a message about the same
// incident.
func (s *Slack) checkThreads(t testing.TB) {
	t.Helper()
	about := map[string]string{}
	for _, p := range s.Posts(t, PageChannel) {
		switch {
		case p.Thread == "" && p.Kind == "reply":
			t.Errorf("a reply is in the channel and not in a thread: %+v", p)
		case p.Thread == "":
			about[p.TS] = p.Incident
		case about[p.Thread] != p.Incident:
			t.Errorf("a reply about %s is in the thread of a message about %q", p.Incident, about[p.Thread])
		}
	}
}

// checkAgainstSlack checks that Slack has a message on every incident of the record, that
// the message reports the end, and that Slack has no other messages.
func (d *Instance) checkAgainstSlack(t testing.TB, summary *KillSummary) {
	t.Helper()
	known := map[string]bool{}
	for _, i := range d.Incidents(t) {
		known[i.ID] = true
		Eventually(t, "the incident ends", func() bool { return !d.Incident(t, i.ID).Open() })
		if i = d.AwaitSettled(t, i.ID); !i.Has("opened") || !i.Has("resolved") {
			t.Errorf("events are missing in the record: %+v", i)
		}
		summary.Incidents++
		roots, replies := d.Slack.PostsAbout(t, PageChannel, i.ID)
		if len(roots) == 0 {
			t.Errorf("there is no message about %+v", i)
		}
		for n, r := range roots {
			if n == 0 && !strings.Contains(r.Text, "RESOLVED") {
				t.Errorf("the message about an incident that has ended says %q; %+v", r.Text, i)
			}
		}
		summary.Messages += len(roots)
		summary.Replies += len(replies)
		summary.Repeats += max(len(roots)-1, 0) + countRepeats(replies)
		checkDeliveries(t, i)
	}
	for _, p := range d.Slack.Posts(t, PageChannel) {
		if !known[p.Incident] {
			t.Errorf("a message about an incident that the record does not have: %+v", p)
		}
	}
	d.Slack.checkThreads(t)
}

// checkDeliveries checks that no message failed permanently.
func checkDeliveries(t testing.TB, i harness.Incident) {
	t.Helper()
	for _, x := range i.Deliveries {
		if x.State == "dead" {
			t.Errorf("a message failed permanently: %+v", x)
		}
	}
}

func countRepeats(replies []Post) (n int) {
	seen := map[int]bool{}
	for _, r := range replies {
		if seen[r.Seq] {
			n++
		}
		seen[r.Seq] = true
	}
	return n
}

// String returns the counts as one line.
func (s KillSummary) String() string {
	return fmt.Sprintf("%d kills with %d deliveries in flight; %d incidents with %d messages and %d replies, %d of them repeated; %d calls to Slack, %d of them failed",
		s.Kills, s.InFlight, s.Incidents, s.Messages, s.Replies, s.Repeats, s.Calls, s.FailedCalls)
}
