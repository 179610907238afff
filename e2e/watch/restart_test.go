package watch

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"

	"headgate/e2e/alerttest"
	"headgate/e2e/harness"
)

// extraEvaluations evaluations for anything that would be sent to have been sent.
const extraEvaluations = 8

// restart starts a desk's gate again after it was ended by a signal.
func restart(t *testing.T, d *alerttest.Instance, how os.Signal) *alerttest.Instance {
	t.Helper()
	if how == os.Kill {
		d.Kill(t)
	} else {
		d.Stop(t)
	}
	return alerttest.Start(t, d.Dir(), d.Slack)
}

// A restart while something fires sends nothing, however the process ended; nor does
// a threshold that is edited meanwhile, and the incident stays the same.
func TestRestartAndEditWhileFiring(t *testing.T) {
	t.Parallel()
	slack := alerttest.StartSlack(t, 1)
	d := alerttest.Options{Rules: []alerttest.Rule{alerttest.WorkersRule("knob", 0, 3)}, Workers: 4}.Start(t, slack)
	fired := d.AwaitFiring(t, "knob", "page")
	d.AwaitSettled(t, fired.ID)
	for _, how := range []os.Signal{syscall.SIGTERM, os.Kill} {
		d = restart(t, d, how)
		d.AwaitEvaluations(t, extraEvaluations)
		d.AwaitSettled(t, fired.ID)
		root, thread := slack.OnlyPost(t, alerttest.PageChannel, fired.ID)
		if len(root.Versions)+len(thread) != 0 || len(slack.Posts(t, alerttest.PageChannel)) != 1 {
			t.Errorf("a restart by %v sent something: %+v, %+v", how, root, thread)
		}
	}
	alerttest.WriteRules(t, d.Dir(), alerttest.WorkersRule("knob", 0, 2))
	d.Reload(t)
	d.AwaitEvaluations(t, extraEvaluations)
	edited := d.AwaitFiring(t, "knob", "page")
	if edited.ID != fired.ID || len(d.Incidents(t)) != 1 || len(edited.Events) != 1 {
		t.Errorf("a new threshold made %+v of %+v", edited, fired)
	}
	d.SetWorkers(t, 4, 1)
	if over := d.AwaitEnded(t, "knob"); over.ID != fired.ID || *over.EndReason != "recovered" {
		t.Errorf("it ended as %+v", over)
	}
	d.AwaitSettled(t, fired.ID)
	root, thread := slack.OnlyPost(t, alerttest.PageChannel, fired.ID)
	wantText(t, root, "RESOLVED", slackDate(fired))
	if len(thread) != 1 {
		t.Errorf("the thread is %+v", thread)
	}
}

// A rule that is deleted while it fires ends its incident, and says why.
func TestDeletedRuleEndsItsIncident(t *testing.T) {
	t.Parallel()
	slack := alerttest.StartSlack(t, 1)
	stays := alerttest.WorkersRule("stays", 50, 0)
	d := alerttest.Options{Rules: []alerttest.Rule{stays, alerttest.WorkersRule("goes", 0, 3), alerttest.WorkersRule("goes_at_start", 0, 3)}, Workers: 4}.Start(t, slack)
	first, second := d.AwaitFiring(t, "goes", "page"), d.AwaitFiring(t, "goes_at_start", "page")
	d.AwaitSettled(t, first.ID)
	d.AwaitSettled(t, second.ID)
	alerttest.WriteRules(t, d.Dir(), stays, alerttest.WorkersRule("goes_at_start", 0, 3))
	d.Reload(t)
	d.AwaitEnded(t, "goes")
	alerttest.WriteRules(t, d.Dir(), stays)
	d = restart(t, d, os.Kill)
	d.AwaitEnded(t, "goes_at_start")
	for _, id := range []string{first.ID, second.ID} {
		if over := d.AwaitSettled(t, id); over.EndReason == nil || *over.EndReason != "rule_deleted" {
			t.Errorf("the incident ended as %+v", over)
		}
		root, _ := slack.OnlyPost(t, alerttest.PageChannel, id)
		wantText(t, root, "RESOLVED", "its rule or pool is gone from the settings")
	}
}

// An acknowledgement from the command line is told, keeps through a restart, and
// does not stop a warning from becoming a page.
func TestAcknowledgedFromTheCommandLine(t *testing.T) {
	t.Parallel()
	slack := alerttest.StartSlack(t, 1)
	d := alerttest.Options{Rules: []alerttest.Rule{alerttest.WorkersRule("knob", 2, 4)}, Workers: 2}.Start(t, slack)
	fired := d.AwaitFiring(t, "knob", "warn")
	d.AwaitSettled(t, fired.ID)
	if done := d.Command(t, "incident", "ack", fired.ID, "--for", "1h"); done.ExitCode != 0 {
		t.Fatalf("incident ack: %+v", done)
	}
	acked := d.AwaitIncident(t, "knob", "acknowledged", func(i harness.Incident) bool { return i.Has("acknowledged") })
	d.AwaitSettled(t, fired.ID)
	root, thread := slack.OnlyPost(t, alerttest.PageChannel, fired.ID)
	wantText(t, root, "Acknowledged by")
	if len(thread) != 1 || !strings.Contains(thread[0].Text, "Acknowledged by") || len(thread[0].Pings) != 0 {
		t.Errorf("the thread is %+v", thread)
	}
	d = restart(t, d, syscall.SIGTERM)
	if now := d.Incident(t, fired.ID); now.AckedBy == nil || *now.AckedBy != *acked.AckedBy {
		t.Errorf("a restart forgot who had taken it on: %+v", now)
	}
	d.SetWorkers(t, 2, 4)
	d.AwaitFiring(t, "knob", "page")
	d.AwaitSettled(t, fired.ID)
	_, thread = slack.OnlyPost(t, alerttest.PageChannel, fired.ID)
	if len(thread) != 2 || !slices.Equal(thread[1].Pings, []string{alerttest.Mention}) {
		t.Errorf("the rise to page is not told: %+v", thread)
	}
}

// A silence from the command line mutes what is sent, not what is recorded. When it
// is lifted, the truth of that moment is sent.
func TestSilencedFromTheCommandLine(t *testing.T) {
	t.Parallel()
	slack := alerttest.StartSlack(t, 1)
	d := alerttest.Options{Rules: []alerttest.Rule{alerttest.WorkersRule("knob", 0, 3), alerttest.WorkersRule("other", 0, 3)}}.Start(t, slack)
	if done := d.Command(t, "incident", "silence", "knob", "--for", "1h", "--reason", "a test"); done.ExitCode != 0 {
		t.Fatalf("incident silence: %+v", done)
	}
	d.SetWorkers(t, 1, 3)
	fired, other := d.AwaitFiring(t, "knob", "page"), d.AwaitFiring(t, "other", "page")
	d.AwaitSettled(t, other.ID)
	if roots, replies := slack.PostsAbout(t, alerttest.PageChannel, fired.ID); len(roots)+len(replies) != 0 || !fired.Silenced {
		t.Errorf("a silenced rule was told of: %+v, %+v", roots, replies)
	}
	d = restart(t, d, os.Kill)
	d.AwaitEvaluations(t, extraEvaluations)
	if roots, _ := slack.PostsAbout(t, alerttest.PageChannel, fired.ID); len(roots) != 0 {
		t.Errorf("a restart told of a silenced rule: %+v", roots)
	}
	liftSilence(t, d)
	d.AwaitIncident(t, "knob", "not silenced", func(i harness.Incident) bool { return i.Has("silence_ended") })
	d.AwaitSettled(t, fired.ID)
	root, _ := slack.OnlyPost(t, alerttest.PageChannel, fired.ID)
	wantText(t, root, "PAGE", slackDate(fired))
	if len(root.Pings) != 1 {
		t.Errorf("a page that goes on after a silence calls nobody: %+v", root)
	}
}

// liftSilence ends the one silence that there is.
func liftSilence(t *testing.T, d *alerttest.Instance) {
	t.Helper()
	silences := harness.Get[harness.List[struct{ ID string }]](t, d.Gate, "silences").Items
	if len(silences) != 1 {
		t.Fatalf("silences: %+v, want one", silences)
	}
	if done := d.Command(t, "incident", "silence", "--lift", silences[0].ID); done.ExitCode != 0 {
		t.Fatalf("incident silence --lift: %+v", done)
	}
}
