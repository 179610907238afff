package desk

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"headgate/internal/fakeslack"
)

// Crash is a gate that is killed, as kill -9 does, again and again at random moments,
// while incidents open and end and every third call to Slack fails.
type Crash struct {
	Rounds int
	Seed   uint64
}

// Tally is what the rounds came to.
type Tally struct {
	Kills, Incidents, Messages, Replies int
	Repeats                             int // posts beyond one for each event and incident
	Calls, Failed                       int // of Slack
	InFlight                            int // deliveries that were under way at a kill
}

const (
	// longest is how long the gate lives in a round at most: rules fire after 5 s.
	longest = 6 * time.Second
	// each is for how many rounds the rules of a generation are there.
	each = 3
)

// kinds are the failures, each as likely as the others.
func kinds() []fakeslack.FaultKind {
	return []fakeslack.FaultKind{
		fakeslack.ServerError, fakeslack.TooMany, fakeslack.DropBefore, fakeslack.DropAfter, fakeslack.ErrorAfter,
	}
}

// failOneInThree has one call in three fail.
func failOneInThree(s *Slack) {
	rest := 1.0 // of the calls that no failure before has hit
	share := 1.0 / 3 / float64(len(kinds()))
	for _, k := range kinds() {
		s.Inject(fakeslack.Fault{Kind: k, Probability: share / rest})
		rest -= share
	}
}

// rules of a round: some that fire and clear by the clock and stay, and some that
// are replaced from time to time, so that their incidents end with them.
func (c Crash) rules(round int) []Rule {
	swing := func(name string, period, offset int) Rule {
		phase := fmt.Sprintf("((time() + %d) %% %d)", offset, period)
		return Rule{
			Name: name, Warn: 1, Page: 2, Below: 1,
			// Above 0 for three fifths of the period, above 1 for the last of them.
			Signal: fmt.Sprintf(`clamp_min(headgate_workers{pool="$pool"} * 0, 0) + (%s < bool %d) + ((%[1]s > bool %d) * (%[1]s < bool %[2]d))`,
				phase, period*3/5, period*3/10),
		}
	}
	g := round / each
	return []Rule{
		swing("tide", 30, 0), swing("wave", 40, 20),
		swing(fmt.Sprintf("gust_%d", g), 20, 5), swing(fmt.Sprintf("squall_%d", g), 24, 12),
		Knob("calm", 50, 0),
	}
}

// Run kills and looks, and at the end holds Slack and the record against each other.
func (c Crash) Run(t testing.TB) Tally {
	t.Helper()
	random := rand.New(rand.NewPCG(c.Seed, 0))
	slack := StartSlack(t, c.Seed)
	failOneInThree(slack)
	dir := t.TempDir()
	setup := Setup{Rules: c.rules(0)}
	setup.Write(t, dir, slack)
	tally := Tally{Kills: c.Rounds}
	for n := range c.Rounds {
		WriteRules(t, dir, c.rules(n)...)
		d := Start(t, dir, slack)
		time.Sleep(time.Duration(random.Int64N(int64(longest)))) // the random moment
		tally.InFlight += d.underWay(t)
		d.Kill(t)
		slack.checkOrder(t)
		if t.Failed() {
			t.Fatalf("round %d of seed %d", n, c.Seed)
		}
	}
	for _, call := range slack.Calls() {
		tally.Calls++
		for _, k := range kinds() {
			if call.Error == string(k) {
				tally.Failed++
			}
		}
	}
	slack.Heal()
	WriteRules(t, dir, Knob("calm", 50, 0)) // everything else ends
	d := Start(t, dir, slack)
	d.compare(t, &tally)
	if tally.Repeats > tally.Kills || tally.Incidents == 0 || tally.Failed == 0 {
		t.Errorf("more repeats than kills, or nothing is shown, seed %d: %s", c.Seed, tally)
	}
	return tally
}

// underWay counts deliveries that are being sent or whose outcome is not known.
func (d *Desk) underWay(t testing.TB) (n int) {
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

// checkOrder sees to it that nobody reads an end without its beginning: a reply
// stands below a message about the same incident.
func (s *Slack) checkOrder(t testing.TB) {
	t.Helper()
	about := map[string]string{}
	for _, p := range s.Posts(t, Page) {
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

// compare sees to it that every incident in the record was told of, that its
// message says how it ended, and that nothing else was told.
func (d *Desk) compare(t testing.TB, tally *Tally) {
	t.Helper()
	known := map[string]bool{}
	for _, i := range d.Incidents(t) {
		known[i.ID] = true
		Until(t, "the incident ends", func() bool { return !d.Incident(t, i.ID).Open() })
		if i = d.AwaitSettled(t, i.ID); !i.Has("opened") || !i.Has("resolved") {
			t.Errorf("the record lacks events: %+v", i)
		}
		tally.Incidents++
		roots, replies := d.Slack.About(t, Page, i.ID)
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
		tally.Repeats += max(len(roots)-1, 0) + repeats(replies)
		i.checkDeliveries(t)
	}
	for _, p := range d.Slack.Posts(t, Page) {
		if !known[p.Incident] {
			t.Errorf("told, and not in the record: %+v", p)
		}
	}
	d.Slack.checkOrder(t)
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

func repeats(replies []Post) (n int) {
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
func (y Tally) String() string {
	return fmt.Sprintf("%d kills, %d deliveries under way at them; %d incidents, told by %d messages and %d replies, of which %d were repeats; Slack was called %d times and failed %d times",
		y.Kills, y.InFlight, y.Incidents, y.Messages, y.Replies, y.Repeats, y.Calls, y.Failed)
}
