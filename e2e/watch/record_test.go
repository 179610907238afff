package watch

import (
	"os"
	"testing"

	"headgate/e2e/alerttest"
	"headgate/e2e/harness"
	"headgate/e2e/rollbacktest"
)

const unrecordedMark = "*Not recorded:*"

// While another process holds the database, pages go out all the same and say that
// they are not recorded. Once it is free they are, and nothing is sent twice.
func TestPagesGoOutWhileTheDatabaseIsHeld(t *testing.T) {
	t.Parallel()
	slack := alerttest.StartSlack(t, 1)
	d := alerttest.Options{Rules: []alerttest.Rule{alerttest.WorkersRule("knob", 0, 3), alerttest.WorkersRule("higher", 0, 4)}}.Start(t, slack)
	d.AwaitEvaluations(t, 1)
	free := rollbacktest.LockDatabase(t, d.Dir())
	d.SetWorkers(t, 1, 3)
	alerttest.Eventually(t, "a page goes out", func() bool { return len(slack.Posts(t, alerttest.PageChannel)) == 1 })
	post := slack.Posts(t, alerttest.PageChannel)[0]
	wantText(t, post, "PAGE", unrecordedMark)
	if open := listOpen(t, d); len(open) != 1 || open[0].ID != post.Incident {
		t.Errorf("while the database is held, the API shows %+v", open)
	}
	if now := d.Incident(t, post.Incident); now.Recorded {
		t.Errorf("the API says that it is recorded: %+v", now)
	}
	d.SetWorkers(t, 3, 1)
	alerttest.Eventually(t, "its end is told", func() bool {
		_, replies := slack.PostsAbout(t, alerttest.PageChannel, post.Incident)
		return len(replies) == 1
	})
	if n := d.Metric(t, "headgate_journal_errors_total", "op", "save_incidents"); n == 0 {
		t.Error("no metric tells of what could not be recorded")
	}
	free()
	over := d.AwaitSettled(t, post.Incident)
	if over.Open() || !over.Has("opened") || !over.Has("resolved") {
		t.Errorf("what was told is not recorded: %+v", over)
	}
	d.AwaitEvaluations(t, extraEvaluations)
	root, thread := slack.OnlyPost(t, alerttest.PageChannel, over.ID)
	wantText(t, root, "RESOLVED", slackDate(over))
	if len(thread) != 1 {
		t.Errorf("the thread is %+v", thread)
	}
	d = restart(t, d, os.Kill)
	d.AwaitEvaluations(t, extraEvaluations)
	if n := len(slack.Posts(t, alerttest.PageChannel)); n != 2 {
		t.Errorf("after a restart there are %d posts, want 2", n)
	}
}

// A gate that headgate takes out while nothing can be recorded is told of, with the
// fact that a restart would forget it. Once it is recorded, the thread has it as ever.
func TestRollbackIsToldWhileTheDatabaseIsHeld(t *testing.T) {
	t.Parallel()
	slack := alerttest.StartSlack(t, 1)
	knob := alerttest.WorkersRule("knob", 0, 3)
	knob.Rollback = true
	d := alerttest.Options{Rules: []alerttest.Rule{knob}}.Start(t, slack)
	d.AwaitEvaluations(t, 1)
	free := rollbacktest.LockDatabase(t, d.Dir())
	d.SetWorkers(t, 1, 3)
	alerttest.Eventually(t, "it is rolled back and told", func() bool { return len(slack.Posts(t, alerttest.PageChannel)) == 2 })
	page, notice := slack.Posts(t, alerttest.PageChannel)[0], slack.Posts(t, alerttest.PageChannel)[1]
	wantText(t, page, "PAGE", unrecordedMark)
	wantText(t, notice, "Pool main was rolled back automatically at ", "rule knob: 3 workers", "a restart would forget it", "headgate restore --pool main")
	if s := d.Status(t)["main"]; s.Mode != "passthrough" || *s.ModeRecorded {
		t.Errorf("the pool stands so: %+v", s)
	}
	free()
	alerttest.Eventually(t, "the thread has it", func() bool {
		_, replies := slack.PostsAbout(t, alerttest.PageChannel, page.Incident)
		return len(replies) == 1
	})
	_, replies := slack.PostsAbout(t, alerttest.PageChannel, page.Incident)
	wantText(t, replies[0], "set by engine", "headgate restore --pool main")
	d.AwaitEvaluations(t, extraEvaluations)
	if all := slack.Posts(t, alerttest.PageChannel); len(all) != 3 {
		t.Errorf("told %d times: %+v", len(all), all)
	}
}

// listOpen returns the open incidents, which the API has in memory.
func listOpen(t *testing.T, d *alerttest.Instance) []harness.Incident {
	t.Helper()
	return harness.Get[harness.List[harness.Incident]](t, d.Gate, "incidents?open=true").Items
}

// A full disk takes neither record nor samples. Tasks go on, the metrics tell of it,
// and who waits for a heartbeat waits in vain. `make proof` waits until people are
// told.
func TestFullDiskStopsNoTasks(t *testing.T) {
	t.Parallel()
	alerttest.FullDisk{}.Run(t)
}
