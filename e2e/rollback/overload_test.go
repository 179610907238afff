package rollback

import (
	"strings"
	"testing"
	"time"

	"headgate/e2e/harness"
	"headgate/e2e/rollbacktest"
)

// newFullGate starts a gate and fills it: one task runs and three wait, so that it refuses all
// others.
func newFullGate(t *testing.T) (*harness.Gate, *harness.HeldUpstream, *rollbacktest.Clients) {
	t.Helper()
	upstream := harness.StartHeldUpstream(t)
	r := harness.StartWithPools(t, harness.PoolSettings("main", upstream.URL, 1))
	clients := rollbacktest.NewClients(r.URL)
	for n := range 4 {
		clients.Start(1)
		harness.Eventually(t, "a task is admitted", func() bool {
			p := r.Status(t)["main"]
			return p.InFlight+p.QueueDepth == n+1
		})
	}
	return r, upstream, clients
}

// wantAllComplete lets the upstream answer and checks that all tasks complete.
func wantAllComplete(t *testing.T, upstream *harness.HeldUpstream, clients *rollbacktest.Clients, want int) {
	t.Helper()
	upstream.Release()
	answers, err := clients.Wait(harness.Timeout)
	if err != nil || len(answers) != want {
		t.Errorf("%d tasks ended, want %d: %v", len(answers), want, err)
	}
	for _, a := range answers {
		if a.Status != 200 || !a.Complete {
			t.Errorf("a task was lost: %+v", a)
		}
	}
}

// When the admin plane does not answer, a command leaves a request in the database, and says
// what it waits for.
func TestFallback(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]func(*testing.T, *harness.Gate) string{
		"black hole":  func(t *testing.T, _ *harness.Gate) string { return harness.SilentListener(t) },
		"no listener": func(t *testing.T, _ *harness.Gate) string { return harness.UnusedURL(t) },
		"exhausted": func(t *testing.T, r *harness.Gate) string {
			exhaustFiles(t, r)
			return r.Admin
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, upstream, clients := newFullGate(t)
			retrying := clients.StartRetrying(2, time.Millisecond)
			harness.Eventually(t, "the client that retries is refused", func() bool { return retrying.MinRefusals() >= 3 })
			d := harness.RunCommand(t, r.Dir(), silent(t, r), "rollback", "--reason", "upstream is slow", "--json")
			reply := d.Result(t)
			t.Logf("the command took %v", d.Duration)
			if d.ExitCode != 0 || reply.Path != "request" || reply.Request != 1 || reply.Deferred || len(reply.Changes) != 1 || !reply.Recorded {
				t.Fatalf("exit code %d, %+v, stderr %q", d.ExitCode, reply, d.Stderr)
			}
			if c := reply.Changes[0]; c.From != "enforce" || c.To != "passthrough" || c.Running != 1 || c.Queued != 3 || c.Via != "request" ||
				c.Reason != "upstream is slow" || c.Request != 1 {
				t.Errorf("the change is %+v", c)
			}
			for _, part := range []string{"queued request 1", "instead", "within a second"} {
				if !strings.Contains(d.Stderr, part) {
					t.Errorf("no %q in the output of the command: %s", part, d.Stderr)
				}
			}
			wantAllComplete(t, upstream, clients, 6)
		})
	}
}

// exhaustFiles uses up the files that the gate may open, so that its listeners accept no
// connections.
func exhaustFiles(t *testing.T, r *harness.Gate) {
	t.Helper()
	idle := rollbacktest.NewIdleConns(strings.TrimPrefix(r.Admin, "http://"))
	t.Cleanup(idle.Close)
	open := rollbacktest.LimitFiles(t, r, 24)
	idle.Open(100)
	harness.Eventually(t, "the gate has no free files", func() bool { return open() >= 24 })
}
