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

// extraEvaluations is after how many evaluations anything would have been sent.
const extraEvaluations = 8

// restart ends the gate of an instance by a signal and starts it again.
func restart(t *testing.T, d *alerttest.Instance, how os.Signal) *alerttest.Instance {
	t.Helper()
	if how == os.Kill {
		d.Kill(t)
	} else {
		d.Stop(t)
	}
	return alerttest.Start(t, d.Dir(), d.Slack)
}

// Neither a restart while a rule fires nor a new threshold sends anything, and the incident
// stays the same.
func TestRestartAndEditWhileFiring(t *testing.T) {
	t.Parallel()
	slack := alerttest.StartSlack(t, 1)
	d := alerttest.Options{Rules: []alerttest.Rule{alerttest.WorkersRule("workers", 0, 3)}, Workers: 4}.Start(t, slack)
	fired := d.AwaitFiring(t, "workers", "page")
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
	alerttest.WriteRules(t, d.Dir(), alerttest.WorkersRule("workers", 0, 2))
	d.Reload(t)
	d.AwaitEvaluations(t, extraEvaluations)
	edited := d.AwaitFiring(t, "workers", "page")
	if edited.ID != fired.ID || len(d.Incidents(t)) != 1 || len(edited.Events) != 1 {
		t.Errorf("after a new threshold the incident is %+v, was %+v", edited, fired)
	}
	d.SetWorkers(t, 4, 1)
	if over := d.AwaitEnded(t, "workers"); over.ID != fired.ID || *over.EndReason != "recovered" {
		t.Errorf("the incident ended as %+v", over)
	}
	d.AwaitSettled(t, fired.ID)
	root, thread := slack.OnlyPost(t, alerttest.PageChannel, fired.ID)
	wantText(t, root, "RESOLVED", slackDate(fired))
	if len(thread) != 1 {
		t.Errorf("the thread is %+v", thread)
	}
}

// The deletion of a rule ends its incident with that reason.
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
		wantText(t, root, "RESOLVED", "rule or pool was removed")
	}
}

// An acknowledgement by command is sent to Slack, survives a restart, and does not keep a
// warning from escalating to a page.
func TestAcknowledgeByCommand(t *testing.T) {
	t.Parallel()
	slack := alerttest.StartSlack(t, 1)
	d := alerttest.Options{Rules: []alerttest.Rule{alerttest.WorkersRule("workers", 2, 4)}, Workers: 2}.Start(t, slack)
	fired := d.AwaitFiring(t, "workers", "warn")
	d.AwaitSettled(t, fired.ID)
	if done := d.Command(t, "incident", "ack", fired.ID, "--for", "1h"); done.ExitCode != 0 {
		t.Fatalf("incident ack: %+v", done)
	}
	acked := d.AwaitIncident(t, "workers", "acknowledged", func(i harness.Incident) bool { return i.Has("acknowledged") })
	d.AwaitSettled(t, fired.ID)
	root, thread := slack.OnlyPost(t, alerttest.PageChannel, fired.ID)
	wantText(t, root, "Acknowledged by")
	if len(thread) != 1 || !strings.Contains(thread[0].Text, "Acknowledged by") || len(thread[0].Pings) != 0 {
		t.Errorf("the thread is %+v", thread)
	}
	d = restart(t, d, syscall.SIGTERM)
	if now := d.Incident(t, fired.ID); now.AckedBy == nil || *now.AckedBy != *acked.AckedBy {
		t.Errorf("the acknowledgement is lost after a restart: %+v", now)
	}
	d.SetWorkers(t, 2, 4)
	d.AwaitFiring(t, "workers", "page")
	d.AwaitSettled(t, fired.ID)
	_, thread = slack.OnlyPost(t, alerttest.PageChannel, fired.ID)
	if len(thread) != 2 || !slices.Equal(thread[1].Pings, []string{alerttest.Mention}) {
		t.Errorf("the escalation to page is not sent: %+v", thread)
	}
}

// A silence by command keeps messages back, not records. When it is lifted, the current state
// is sent.
func TestSilenceByCommand(t *testing.T) {
	t.Parallel()
	slack := alerttest.StartSlack(t, 1)
	d := alerttest.Options{Rules: []alerttest.Rule{alerttest.WorkersRule("workers", 0, 3), alerttest.WorkersRule("other", 0, 3)}}.Start(t, slack)
	if done := d.Command(t, "incident", "silence", "workers", "--for", "1h", "--reason", "a test"); done.ExitCode != 0 {
		t.Fatalf("incident silence: %+v", done)
	}
	d.SetWorkers(t, 1, 3)
	fired, other := d.AwaitFiring(t, "workers", "page"), d.AwaitFiring(t, "other", "page")
	d.AwaitSettled(t, other.ID)
	if roots, replies := slack.PostsAbout(t, alerttest.PageChannel, fired.ID); len(roots)+len(replies) != 0 || !fired.Silenced {
		t.Errorf("messages about a silenced rule: %+v, %+v", roots, replies)
	}
	d = restart(t, d, os.Kill)
	d.AwaitEvaluations(t, extraEvaluations)
	if roots, _ := slack.PostsAbout(t, alerttest.PageChannel, fired.ID); len(roots) != 0 {
		t.Errorf("messages about a silenced rule after a restart: %+v", roots)
	}
	liftSilence(t, d)
	d.AwaitIncident(t, "workers", "not silenced", func(i harness.Incident) bool { return i.Has("silence_ended") })
	d.AwaitSettled(t, fired.ID)
	root, _ := slack.OnlyPost(t, alerttest.PageChannel, fired.ID)
	wantText(t, root, "PAGE", slackDate(fired))
	if len(root.Pings) != 1 {
		t.Errorf("a page after a silence has no mention: %+v", root)
	}
}

// liftSilence ends the only silence.
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
