package watch

import (
	"os"
	"testing"

	"headgate/e2e/alerttest"
	"headgate/e2e/harness"
	"headgate/e2e/rollbacktest"
)

const unrecordedMark = "*Not recorded:*"

// While the database is locked, pages are sent and say that they are not recorded. After the
// unlock they are recorded, and nothing is sent twice.
func TestPagesWhileDatabaseIsLocked(t *testing.T) {
	t.Parallel()
	slack := alerttest.StartSlack(t, 1)
	d := alerttest.Options{Rules: []alerttest.Rule{alerttest.WorkersRule("workers", 0, 3), alerttest.WorkersRule("higher", 0, 4)}}.Start(t, slack)
	d.AwaitEvaluations(t, 1)
	free := rollbacktest.LockDatabase(t, d.Dir())
	d.SetWorkers(t, 1, 3)
	alerttest.Eventually(t, "a page is sent", func() bool { return len(slack.Posts(t, alerttest.PageChannel)) == 1 })
	post := slack.Posts(t, alerttest.PageChannel)[0]
	wantText(t, post, "PAGE", unrecordedMark)
	if open := listOpen(t, d); len(open) != 1 || open[0].ID != post.Incident {
		t.Errorf("while the database is locked, the API shows %+v", open)
	}
	if now := d.Incident(t, post.Incident); now.Recorded {
		t.Errorf("the API reports the incident as recorded: %+v", now)
	}
	d.SetWorkers(t, 3, 1)
	alerttest.Eventually(t, "its end is sent", func() bool {
		_, replies := slack.PostsAbout(t, alerttest.PageChannel, post.Incident)
		return len(replies) == 1
	})
	if n := d.Metric(t, "headgate_journal_errors_total", "op", "save_incidents"); n == 0 {
		t.Error("no metric reports what could not be recorded")
	}
	free()
	over := d.AwaitSettled(t, post.Incident)
	if over.Open() || !over.Has("opened") || !over.Has("resolved") {
		t.Errorf("what was sent is not recorded: %+v", over)
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

// An automatic rollback while the database is locked is reported, with a warning that a restart
// would lose it. Once it is recorded, the thread has it as usual.
func TestAutoRollbackWhileDatabaseIsLocked(t *testing.T) {
	t.Parallel()
	slack := alerttest.StartSlack(t, 1)
	rule := alerttest.WorkersRule("workers", 0, 3)
	rule.Rollback = true
	d := alerttest.Options{Rules: []alerttest.Rule{rule}}.Start(t, slack)
	d.AwaitEvaluations(t, 1)
	free := rollbacktest.LockDatabase(t, d.Dir())
	d.SetWorkers(t, 1, 3)
	alerttest.Eventually(t, "it is rolled back and reported", func() bool { return len(slack.Posts(t, alerttest.PageChannel)) == 2 })
	page, notice := slack.Posts(t, alerttest.PageChannel)[0], slack.Posts(t, alerttest.PageChannel)[1]
	wantText(t, page, "PAGE", unrecordedMark)
	wantText(t, notice, "Pool main was rolled back automatically at ", "rule workers: 3 workers", "a restart would lose it", "headgate restore --pool main")
	if s := d.Status(t)["main"]; s.Mode != "passthrough" || *s.ModeRecorded {
		t.Errorf("the status is %+v", s)
	}
	free()
	alerttest.Eventually(t, "the thread has the rollback", func() bool {
		_, replies := slack.PostsAbout(t, alerttest.PageChannel, page.Incident)
		return len(replies) == 1
	})
	_, replies := slack.PostsAbout(t, alerttest.PageChannel, page.Incident)
	wantText(t, replies[0], "set by engine", "headgate restore --pool main")
	d.AwaitEvaluations(t, extraEvaluations)
	if all := slack.Posts(t, alerttest.PageChannel); len(all) != 3 {
		t.Errorf("%d messages: %+v", len(all), all)
	}
}

// listOpen returns the open incidents, which the API reads from memory.
func listOpen(t *testing.T, d *alerttest.Instance) []harness.Incident {
	t.Helper()
	return harness.Get[harness.List[harness.Incident]](t, d.Gate, "incidents?open=true").Items
}

// With a full disk, neither record nor samples are written. Tasks go on, the metrics report it,
// and heartbeats are withheld. `make proof` waits for the alert too.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	alerttest.FullDisk{}.Run(t)
}
