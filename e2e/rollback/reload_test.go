package rollback

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"headgate/e2e/harness"
	"headgate/e2e/rollbacktest"
)

// awaitPool waits until a pool has these numbers of running and queued tasks.
func awaitPool(t *testing.T, r *harness.Gate, pool string, running, queued int) {
	t.Helper()
	harness.Eventually(t, fmt.Sprintf("%s has %d running, %d queued", pool, running, queued), func() bool {
		p := r.Status(t)[pool]
		return p.InFlight == running && p.QueueDepth == queued
	})
}

// With more workers, queued tasks run at once; with a higher threshold, refused ones are
// admitted. Fewer workers and a lower threshold end no task.
func TestReloadWorkersAndThresholds(t *testing.T) {
	t.Parallel()
	r, upstream, clients := newFullGate(t)
	retrying := clients.StartRetrying(2, time.Millisecond)
	harness.Eventually(t, "the client that retries is refused", func() bool { return retrying.MinRefusals() >= 3 })
	harness.WriteSettings(t, r.Dir(), "", harness.PoolSettings("main", upstream.URL, 2))
	r.Reload(t)
	awaitPool(t, r, "main", 2, 4) // one more runs, and clients were admitted up to the depth limit
	more := clients.StartRetrying(1, time.Millisecond)
	harness.Eventually(t, "another task is admitted", func() bool { return r.Status(t)["main"].QueueDepth == 5 })
	last := clients.StartRetrying(1, time.Millisecond)
	harness.Eventually(t, "the next task is refused", func() bool { return last.MinRefusals() >= 3 && more.MinRefusals() >= 0 })
	harness.WriteSettings(t, r.Dir(), "", strings.Replace(harness.PoolSettings("main", upstream.URL, 1), "max_queue_age: 2h", "max_queue_age: 2h, depth_multiple: 9", 1))
	r.Reload(t)
	awaitPool(t, r, "main", 2, 6) // the threshold admits it; with one worker less no task ends
	if w := r.Status(t)["main"].Workers; w != 1 {
		t.Errorf("%d workers, want 1", w)
	}
	wantAllComplete(t, upstream, clients, 8)
}

// Tasks that run at the old upstream end there; all others go to the new one.
func TestReloadUpstream(t *testing.T) {
	t.Parallel()
	r, before, clients := newFullGate(t)
	after := harness.StartHeldUpstream(t)
	harness.WriteSettings(t, r.Dir(), "", harness.PoolSettings("main", after.URL, 4))
	r.Reload(t)
	harness.Eventually(t, "queued and new tasks run", func() bool { return r.Status(t)["main"].InFlight == 4 })
	clients.Start(1)
	awaitPool(t, r, "main", 4, 1)
	before.Release()
	after.Release()
	answers, err := clients.Wait(harness.Timeout)
	if err != nil || len(answers) != 5 {
		t.Errorf("%d tasks ended, want 5: %v", len(answers), err)
	}
	for _, a := range answers {
		if a.Status != 200 || !a.Complete {
			t.Errorf("a task was lost: %+v", a)
		}
	}
	if before.Disconnected() != 0 || before.Calls() == 0 || after.Calls() == 0 || before.Calls()+after.Calls() != 5 {
		t.Errorf("the old upstream had %d calls and lost %d, the new one had %d", before.Calls(), before.Disconnected(), after.Calls())
	}
}

// When clients need keys after a reload, tasks that were admitted before go on.
func TestReloadClients(t *testing.T) {
	t.Parallel()
	const key = "made-up-client-key"
	r, upstream, clients := newFullGate(t)
	sum := sha256.Sum256([]byte(key))
	harness.WriteSettings(t, r.Dir(), "clients: [{name: one, key_sha256: "+hex.EncodeToString(sum[:])+"}]\n",
		harness.PoolSettings("main", upstream.URL, 8))
	r.Reload(t)
	if a := clients.Send(); a.Status != 401 {
		t.Errorf("without a key: %+v", a)
	}
	known := rollbacktest.NewClients(r.URL)
	known.Key = key
	known.Start(1)
	awaitPool(t, r, "main", 5, 0)
	wantAllComplete(t, upstream, clients, 4)
	wantAllComplete(t, upstream, known, 1)
}

// Invalid settings change nothing, and the log names the place.
func TestReloadRefused(t *testing.T) {
	t.Parallel()
	r, upstream, clients := newFullGate(t)
	pool := harness.PoolSettings("main", upstream.URL, 8)
	for _, c := range []struct{ name, from, to, at, says string }{
		{"unknown key", "workers: 8", "worker: 8", ":7:", "workers"},
		{"no YAML", "  - name", "  - [name", ":", "YAML"},
		{"impossible", "workers: 8", "workers: 0", ":7:", "at least 1"},
		{"listen", "listen: 127.0.0.1:0\nadmin", "listen: 127.0.0.2:0\nadmin", ":1:", "restart"},
		{"admin.listen", "{listen: 127.0.0.1:0}", "{listen: 127.0.0.2:0}", ":2:", "restart"},
		{"admin.token", "{listen: 127.0.0.1:0}", "{listen: 127.0.0.1:0, token: a-token-of-some-length}", ":2:", "restart"},
		{"log.format", "format: json", "format: text", ":3:", "restart"},
		{"data_dir", "pools:", "data_dir: elsewhere\npools:", ":4:", "restart"},
	} {
		harness.WriteSettings(t, r.Dir(), "", pool)
		harness.EditSettings(t, r.Dir(), c.from, c.to)
		reason := r.ReloadRejected(t)
		if !strings.Contains(reason, harness.SettingsFile(r.Dir())+c.at) || !strings.Contains(reason, c.says) {
			t.Errorf("%s: no file%s and %q in %q", c.name, c.at, c.says, reason)
		}
	}
	if p := r.Status(t)["main"]; p.Workers != 1 || p.InFlight != 1 || p.QueueDepth != 3 {
		t.Errorf("the pool has changed: %+v", p)
	}
	wantAllComplete(t, upstream, clients, 4)
}

// A removed pool admits no tasks and finishes those that it has. When it is added again, it
// has its recorded mode.
func TestReloadWithoutPool(t *testing.T) {
	t.Parallel()
	upstream := harness.StartHeldUpstream(t)
	stays := harness.PoolSettings("main", upstream.URL, 1, "models: [m]")
	goes := harness.PoolSettings("other", upstream.URL, 1, "models: [o]")
	r := harness.StartWithPools(t, stays+goes)
	wantOutput(t, r.Command(t, "rollback", "--pool", "other", "--reason", "it stays"), 0, "other: enforce → passthrough")
	others := rollbacktest.NewClients(r.URL)
	others.Model = "o"
	others.Start(6)
	awaitPool(t, r, "other", 1, 5)
	harness.WriteSettings(t, r.Dir(), "", stays)
	r.Reload(t)
	if a := others.Send(); a.Status != 404 {
		t.Errorf("a task for the removed pool: %+v", a)
	}
	wantOutput(t, r.Command(t, "rollback", "--pool", "other"), 1, `no pool "other"`)
	if _, known := r.Status(t)["other"]; known {
		t.Error("the removed pool is still in the status")
	}
	wantAllComplete(t, upstream, others, 6)
	harness.WriteSettings(t, r.Dir(), "", goes+stays)
	r.Reload(t)
	if p := r.Status(t)["other"]; p.Mode != "passthrough" || p.ModeReason != "it stays" || p.InFlight+p.QueueDepth != 0 {
		t.Errorf("added again, its status is %+v", p)
	}
	if a := others.Send(); a.Status != 200 || !a.Complete {
		t.Errorf("a task for the pool that was added again: %+v", a)
	}
	harness.WriteSettings(t, r.Dir(), "", stays)
	r.Reload(t)
	r.Stop(t)
	harness.WriteSettings(t, r.Dir(), "", stays+goes)
	if p := harness.StartIn(t, r.Dir()).Status(t)["other"]; p.Mode != "passthrough" || p.ModeReason != "it stays" {
		t.Errorf("after a restart its status is %+v", p)
	}
}
