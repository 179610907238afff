package watch

import (
	"os"
	"testing"

	"headgate/e2e/rollback/rig"
	"headgate/e2e/watch/desk"
)

const unrecorded = "*Not recorded:*"

// While another process holds the database, pages go out all the same and say that
// they are not recorded. Once it is free they are, and nothing is sent twice.
func TestPagesGoOutWhileTheDatabaseIsHeld(t *testing.T) {
	t.Parallel()
	slack := desk.StartSlack(t, 1)
	d := desk.Setup{Rules: []desk.Rule{desk.Knob("knob", 0, 3), desk.Knob("higher", 0, 4)}}.Open(t, slack)
	d.Evaluated(t, 1)
	free := rig.Hold(t, d.Dir)
	d.Turn(t, 1, 3)
	desk.Until(t, "a page goes out", func() bool { return len(slack.Posts(t, desk.Page)) == 1 })
	post := slack.Posts(t, desk.Page)[0]
	wantWords(t, post, "PAGE", unrecorded)
	if open := listOpen(t, d); len(open) != 1 || open[0].ID != post.Incident {
		t.Errorf("while the database is held, the API shows %+v", open)
	}
	if now := d.Incident(t, post.Incident); now.Recorded {
		t.Errorf("the API says that it is recorded: %+v", now)
	}
	d.Turn(t, 3, 1)
	desk.Until(t, "its end is told", func() bool {
		_, replies := slack.About(t, desk.Page, post.Incident)
		return len(replies) == 1
	})
	if n := d.Count(t, "headgate_journal_errors_total", "op", "save_incidents"); n == 0 {
		t.Error("no metric tells of what could not be recorded")
	}
	free()
	over := d.AwaitSettled(t, post.Incident)
	if over.Open() || !over.Has("opened") || !over.Has("resolved") {
		t.Errorf("what was told is not recorded: %+v", over)
	}
	d.Evaluated(t, enough)
	root, thread := slack.OnlyPost(t, desk.Page, over.ID)
	wantWords(t, root, "RESOLVED", unix(over))
	if len(thread) != 1 {
		t.Errorf("the thread is %+v", thread)
	}
	d = again(t, d, os.Kill)
	d.Evaluated(t, enough)
	if n := len(slack.Posts(t, desk.Page)); n != 2 {
		t.Errorf("after a restart there are %d posts, want 2", n)
	}
}

// A gate that headgate takes out while nothing can be recorded is told of, with the
// fact that a restart would forget it. Once it is recorded, the thread has it as ever.
func TestRollbackIsToldWhileTheDatabaseIsHeld(t *testing.T) {
	t.Parallel()
	slack := desk.StartSlack(t, 1)
	knob := desk.Knob("knob", 0, 3)
	knob.Acts = true
	d := desk.Setup{Rules: []desk.Rule{knob}}.Open(t, slack)
	d.Evaluated(t, 1)
	free := rig.Hold(t, d.Dir)
	d.Turn(t, 1, 3)
	desk.Until(t, "it is rolled back and told", func() bool { return len(slack.Posts(t, desk.Page)) == 2 })
	page, notice := slack.Posts(t, desk.Page)[0], slack.Posts(t, desk.Page)[1]
	wantWords(t, page, "PAGE", unrecorded)
	wantWords(t, notice, "Pool main was rolled back automatically at ", "rule knob: 3 workers", "a restart would forget it", "headgate restore --pool main")
	if s := d.Status(t)["main"]; s.Mode != "passthrough" || *s.ModeRecorded {
		t.Errorf("the pool stands so: %+v", s)
	}
	free()
	desk.Until(t, "the thread has it", func() bool {
		_, replies := slack.About(t, desk.Page, page.Incident)
		return len(replies) == 1
	})
	_, replies := slack.About(t, desk.Page, page.Incident)
	wantWords(t, replies[0], "set by engine", "headgate restore --pool main")
	d.Evaluated(t, enough)
	if all := slack.Posts(t, desk.Page); len(all) != 3 {
		t.Errorf("told %d times: %+v", len(all), all)
	}
}

// listOpen returns the open incidents, which the API has in memory.
func listOpen(t *testing.T, d *desk.Desk) []desk.Incident {
	t.Helper()
	var page struct{ Items []desk.Incident }
	if err := d.Call("GET", "incidents?open=true", "", &page); err != nil {
		t.Fatal(err)
	}
	return page.Items
}

// A full disk takes neither record nor samples. Tasks go on, the metrics tell of it,
// and who waits for a heartbeat waits in vain. `make proof` waits until people are
// told.
func TestFullDiskStopsNoTasks(t *testing.T) {
	t.Parallel()
	desk.FullDisk{}.Run(t)
}
