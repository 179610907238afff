package alerttest

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"headgate/e2e/harness"
	"headgate/e2e/rollbacktest"
	"headgate/internal/modelstub"
)

// FullDisk is a data directory without room.
type FullDisk struct {
	// Told waits until people are told that signals are missing, and that they are
	// not any more: some minutes.
	AwaitAlert bool
}

// Run fills the disk of a gate, and makes room again.
func (f FullDisk) Run(t testing.TB) {
	t.Helper()
	dir := t.TempDir()
	if !rollbacktest.SmallDisk(t, dir) {
		return
	}
	slack := StartSlack(t, 1)
	var beats atomic.Int64
	waiting := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { beats.Add(1) }))
	t.Cleanup(waiting.Close)
	Options{
		Rules: []Rule{WorkersRule("knob", 0, 3)}, Upstream: harness.StartStub(t, modelstub.Config{}).URL, Workers: 2,
		Top: "heartbeat: {url: \"" + waiting.URL + "\", interval: 10s}\n",
	}.WriteSettings(t, dir, slack)
	d := Start(t, dir, slack)
	Eventually(t, "its heart beats", func() bool { return beats.Load() > 0 })
	d.AwaitEvaluations(t, 2)
	free := rollbacktest.FillDisk(t, rollbacktest.DataDir(dir))
	Eventually(t, "samples cannot be kept", func() bool { return d.Logged("samples are not kept") })
	d.checkServes(t)
	Eventually(t, "heartbeats are withheld", func() bool { return d.Metric(t, "headgate_heartbeats_total", "result", "withheld") > 0 })
	if n := d.Metric(t, "headgate_samples_append_errors_total"); n == 0 {
		t.Error("no metric tells that samples are not kept")
	}
	if f.AwaitAlert {
		d.awaitSignalsMissing(t)
	}
	d.checkServes(t)
	free()
	Eventually(t, "samples are kept again", func() bool { return d.Logged("samples are kept again") })
	d.SetWorkers(t, 2, 3)
	fired := d.AwaitFiring(t, "knob", "page")
	d.AwaitSettled(t, fired.ID)
	slack.OnlyPost(t, PageChannel, fired.ID)
	if f.AwaitAlert {
		d.checkSignalsBack(t)
	}
}

func (d *Instance) checkServes(t testing.TB) {
	t.Helper()
	if a := rollbacktest.NewClients(d.URL).Send(); a.Status != http.StatusOK || !a.Complete {
		t.Errorf("with a full disk a task ends with %+v", a)
	}
}

// awaitSignalsMissing waits until somebody is told that signals are missing.
func (d *Instance) awaitSignalsMissing(t testing.TB) {
	t.Helper()
	Eventually(t, "somebody is told that signals are missing", func() bool {
		for _, p := range d.Slack.Posts(t, PageChannel) {
			if words := p.AllText(); strings.Contains(words, "signals cannot be read") && strings.Contains(words, "*Not recorded:*") {
				return true
			}
		}
		return false
	})
}

// checkSignalsBack sees to it that what was told is over, and recorded.
func (d *Instance) checkSignalsBack(t testing.TB) {
	t.Helper()
	over := d.AwaitEnded(t, "signal_missing")
	d.AwaitSettled(t, over.ID)
	if root, _ := d.Slack.OnlyPost(t, PageChannel, over.ID); !strings.Contains(root.Text, "RESOLVED") {
		t.Errorf("the end is not told: %q", root.Text)
	}
}
