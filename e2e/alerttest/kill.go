package alerttest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"headgate/internal/fakeslack"
)

// KillTest is a gate that is killed, as kill -9 does, again and again at random moments,
// while incidents open and end and every third call to Slack fails.
type KillTest struct {
	Rounds int
	Seed   uint64
}

// KillSummary is what the rounds came to.
type KillSummary struct {
	Kills, Incidents, Messages, Replies int
	Repeats                             int // posts beyond one for each event and incident
	Calls, FailedCalls                  int // of Slack
	InFlight                            int // deliveries that were under way at a kill
}

const (
	// maxUptime is how long the gate lives in a round at most: rules fire after 5 s.
	maxUptime = 6 * time.Second
	// roundsPerGeneration is for how many rounds the rules of a generation are there.
	roundsPerGeneration = 3
)

// faultKinds are the failures, each as likely as the others.
func faultKinds() []fakeslack.FaultKind {
	return []fakeslack.FaultKind{
		fakeslack.ServerError, fakeslack.TooManyRequests, fakeslack.DropBefore, fakeslack.DropAfter, fakeslack.ErrorAfter,
	}
}

// failOneInThree has one call in three fail.
func failOneInThree(s *Slack) {
	rest := 1.0 // of the calls that no failure before has hit
	share := 1.0 / 3 / float64(len(faultKinds()))
	for _, k := range faultKinds() {
		s.Inject(fakeslack.Fault{Kind: k, Probability: share / rest})
		rest -= share
	}
}

// rules of a round: some that fire and clear by the clock and stay, and some that
// are replaced from time to time, so that their incidents end with them.
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

// Run kills and looks, and at the end holds Slack and the record against each other.
func (c KillTest) Run(t testing.TB) KillSummary {
	t.Helper()
	random := rand.New(rand.NewPCG(c.Seed, 0))
	slack := StartSlack(t, c.Seed)
	failOneInThree(slack)
	dir := t.TempDir()
	setup := Options{Rules: c.rules(0)}
	setup.WriteSettings(t, dir, slack)
	tally := KillSummary{Kills: c.Rounds}
	for n := range c.Rounds {
		WriteRules(t, dir, c.rules(n)...)
		d := Start(t, dir, slack)
		time.Sleep(time.Duration(random.Int64N(int64(maxUptime)))) // the random moment
		tally.InFlight += d.pendingDeliveries(t)
		d.Kill(t)
		slack.checkThreads(t)
		if t.Failed() {
			t.Fatalf("round %d of seed %d", n, c.Seed)
		}
	}
	for _, call := range slack.Calls() {
		tally.Calls++
		for _, k := range faultKinds() {
			if call.Error == string(k) {
				tally.FailedCalls++
			}
		}
	}
	slack.ClearFaults()
	WriteRules(t, dir, WorkersRule("calm", 50, 0)) // everything else ends
	d := Start(t, dir, slack)
	d.checkAgainstSlack(t, &tally)
	if tally.Repeats > tally.Kills || tally.Incidents == 0 || tally.FailedCalls == 0 {
		t.Errorf("more repeats than kills, or nothing is shown, seed %d: %s", c.Seed, tally)
	}
	return tally
}

// pendingDeliveries counts deliveries that are being sent or whose outcome is not known.
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

// checkThreads sees to it that nobody reads an end without its beginning: a reply
// stands below a message about the same incident.
func (s *Slack) checkThreads(t testing.TB) {
	t.Helper()
	about := map[string]string{}
	for _, p := range s.Posts(t, PageChannel) {
		switch {
		case p.Thread == "" && p.Kind == "reply":
			t.Errorf("a reply stands in the channel, without its message: %+v", p)
		case p.Thread == "":
			about[p.TS] = p.Incident
		case about[p.Thread] != p.Incident:
			t.Errorf("a reply about %s stands below a message about %q", p.Incident, about[p.Thread])
		}
	}
}

// checkAgainstSlack sees to it that every incident in the record was told of, that its
// message says how it ended, and that nothing else was told.
func (d *Instance) checkAgainstSlack(t testing.TB, tally *KillSummary) {
	t.Helper()
	known := map[string]bool{}
	for _, i := range d.Incidents(t) {
		known[i.ID] = true
		Eventually(t, "the incident ends", func() bool { return !d.Incident(t, i.ID).Open() })
		if i = d.AwaitSettled(t, i.ID); !i.Has("opened") || !i.Has("resolved") {
			t.Errorf("the record lacks events: %+v", i)
		}
		tally.Incidents++
		roots, replies := d.Slack.PostsAbout(t, PageChannel, i.ID)
		if len(roots) == 0 {
			t.Errorf("nobody was told of %+v", i)
		}
		for n, r := range roots {
			if n == 0 && !strings.Contains(r.Text, "RESOLVED") {
				t.Errorf("the message of an incident that is over says %q; %+v", r.Text, i)
			}
		}
		tally.Messages += len(roots)
		tally.Replies += len(replies)
		tally.Repeats += max(len(roots)-1, 0) + countRepeats(replies)
		i.checkDeliveries(t)
	}
	for _, p := range d.Slack.Posts(t, PageChannel) {
		if !known[p.Incident] {
			t.Errorf("told, and not in the record: %+v", p)
		}
	}
	d.Slack.checkThreads(t)
}

// checkDeliveries sees to it that no message was given up.
func (i Incident) checkDeliveries(t testing.TB) {
	t.Helper()
	for _, x := range i.Deliveries {
		if x.State == "dead" {
			t.Errorf("a message was given up: %+v", x)
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

// String tells a tally in one line.
func (y KillSummary) String() string {
	return fmt.Sprintf("%d kills, %d deliveries under way at them; %d incidents, told by %d messages and %d replies, of which %d were repeats; Slack was called %d times and failed %d times",
		y.Kills, y.InFlight, y.Incidents, y.Messages, y.Replies, y.Repeats, y.Calls, y.FailedCalls)
}
