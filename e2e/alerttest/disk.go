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

// FullDisk tests a data directory without free space.
type FullDisk struct {
	// AwaitAlert waits for the alert that signals are missing, and for its end: some
	// minutes.
	AwaitAlert bool
}

// Run fills the disk of a gate, and frees it again.
func (f FullDisk) Run(t testing.TB) {
	t.Helper()
	dir := t.TempDir()
	if !rollbacktest.SmallDisk(t, dir) {
		return
	}
	slack := StartSlack(t, 1)
	var heartbeats atomic.Int64
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heartbeats.Add(1) }))
	t.Cleanup(receiver.Close)
	Options{
		Rules: []Rule{WorkersRule("workers", 0, 3)}, Upstream: harness.StartStub(t, modelstub.Config{}).URL, Workers: 2,
		Top: "heartbeat: {url: \"" + receiver.URL + "\", interval: 10s}\n",
	}.WriteSettings(t, dir, slack)
	d := Start(t, dir, slack)
	Eventually(t, "a heartbeat arrives", func() bool { return heartbeats.Load() > 0 })
	d.AwaitEvaluations(t, 2)
	free := rollbacktest.FillDisk(t, harness.DataDir(dir))
	Eventually(t, "samples cannot be written", func() bool { return d.Logged("samples cannot be written") })
	d.checkServes(t)
	Eventually(t, "heartbeats are withheld", func() bool { return d.Metric(t, "headgate_heartbeats_total", "result", "withheld") > 0 })
	if n := d.Metric(t, "headgate_samples_append_errors_total"); n == 0 {
		t.Error("no metric reports that samples cannot be written")
	}
	if f.AwaitAlert {
		d.awaitSignalsMissing(t)
	}
	d.checkServes(t)
	free()
	Eventually(t, "samples are written again", func() bool { return d.Logged("samples are written again") })
	d.SetWorkers(t, 2, 3)
	fired := d.AwaitFiring(t, "workers", "page")
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

// awaitSignalsMissing waits for the alert that signals are missing.
func (d *Instance) awaitSignalsMissing(t testing.TB) {
	t.Helper()
	Eventually(t, "the alert that signals are missing is sent", func() bool {
		for _, p := range d.Slack.Posts(t, PageChannel) {
			if text := p.AllText(); strings.Contains(text, "signals are missing") && strings.Contains(text, "*Not recorded:*") {
				return true
			}
		}
		return false
	})
}

// checkSignalsBack checks that the incident has ended, in Slack and in the record.
func (d *Instance) checkSignalsBack(t testing.TB) {
	t.Helper()
	over := d.AwaitEnded(t, "signal_missing")
	d.AwaitSettled(t, over.ID)
	if root, _ := d.Slack.OnlyPost(t, PageChannel, over.ID); !strings.Contains(root.Text, "RESOLVED") {
		t.Errorf("the end is not reported: %q", root.Text)
	}
}
