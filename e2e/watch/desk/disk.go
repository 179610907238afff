package desk

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"headgate/e2e/harness"
	"headgate/e2e/rollback/rig"
	"headgate/internal/modelstub"
)

// FullDisk is a data directory without room.
type FullDisk struct {
	// Told waits until people are told that signals are missing, and that they are
	// not any more: some minutes.
	Told bool
}

// Run fills the disk of a gate, and makes room again.
func (f FullDisk) Run(t testing.TB) {
	t.Helper()
	dir := t.TempDir()
	if !rig.SmallDisk(t, dir) {
		return
	}
	slack := StartSlack(t, 1)
	var beats atomic.Int64
	waiting := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { beats.Add(1) }))
	t.Cleanup(waiting.Close)
	Setup{
		Rules: []Rule{Knob("knob", 0, 3)}, Upstream: harness.StartStub(t, modelstub.Config{}).URL, Workers: 2,
		Top: "heartbeat: {url: \"" + waiting.URL + "\", interval: 10s}\n",
	}.Write(t, dir, slack)
	d := Start(t, dir, slack)
	Until(t, "its heart beats", func() bool { return beats.Load() > 0 })
	d.Evaluated(t, 2)
	free := rig.Fill(t, rig.Data(dir))
	Until(t, "samples cannot be kept", func() bool { return d.Logged("samples are not kept") })
	d.serves(t)
	Until(t, "heartbeats are withheld", func() bool { return d.Count(t, "headgate_heartbeats_total", "result", "withheld") > 0 })
	if n := d.Count(t, "headgate_samples_append_errors_total"); n == 0 {
		t.Error("no metric tells that samples are not kept")
	}
	if f.Told {
		d.awaitBlind(t)
	}
	d.serves(t)
	free()
	Until(t, "samples are kept again", func() bool { return d.Logged("samples are kept again") })
	d.Turn(t, 2, 3)
	fired := d.AwaitFiring(t, "knob", "page")
	d.AwaitSettled(t, fired.ID)
	slack.OnlyPost(t, Page, fired.ID)
	if f.Told {
		d.checkSighted(t)
	}
}

func (d *Desk) serves(t testing.TB) {
	t.Helper()
	if a := rig.NewCrowd(d.URL).Send(); a.Status != http.StatusOK || !a.Whole {
		t.Errorf("with a full disk a task ends with %+v", a)
	}
}

// awaitBlind waits until somebody is told that signals are missing.
func (d *Desk) awaitBlind(t testing.TB) {
	t.Helper()
	Until(t, "somebody is told that signals are missing", func() bool {
		for _, p := range d.Slack.Posts(t, Page) {
			if words := p.Words(); strings.Contains(words, "signals cannot be read") && strings.Contains(words, "*Not recorded:*") {
				return true
			}
		}
		return false
	})
}

// checkSighted sees to it that what was told is over, and recorded.
func (d *Desk) checkSighted(t testing.TB) {
	t.Helper()
	over := d.AwaitOver(t, "signal_missing")
	d.AwaitSettled(t, over.ID)
	if root, _ := d.Slack.OnlyPost(t, Page, over.ID); !strings.Contains(root.Text, "RESOLVED") {
		t.Errorf("the end is not told: %q", root.Text)
	}
}
