package rollback

import (
	"strings"
	"testing"
	"time"

	"headgate/e2e/harness"
	"headgate/e2e/rollback/rig"
)

// refusing is a gate with one task that runs and three that wait, so that it
// refuses all others.
func refusing(t *testing.T) (*rig.Rig, *harness.Held, *rig.Crowd) {
	t.Helper()
	upstream := harness.StartHeld(t)
	r := rig.New(t, rig.Pool("main", upstream.URL, 1))
	crowd := rig.NewCrowd(r.URL)
	for n := range 4 {
		crowd.Join(1)
		harness.Until(t, "a task is in", func() bool {
			p := r.Status(t)["main"]
			return p.InFlight+p.QueueDepth == n+1
		})
	}
	return r, upstream, crowd
}

// whole lets the upstream finish and sees to it that so many tasks end whole.
func whole(t *testing.T, upstream *harness.Held, crowd *rig.Crowd, want int) {
	t.Helper()
	upstream.Finish()
	answers, err := crowd.Ended(harness.Patience)
	if err != nil || len(answers) != want {
		t.Errorf("%d tasks ended, want %d: %v", len(answers), want, err)
	}
	for _, a := range answers {
		if a.Status != 200 || !a.Whole {
			t.Errorf("a task was lost: %+v", a)
		}
	}
}

// When the admin plane does not answer, the order goes through the database. What
// a person waits for is told.
func TestFallback(t *testing.T) {
	t.Parallel()
	for name, silent := range map[string]func(*testing.T, *rig.Rig) string{
		"black hole": func(t *testing.T, _ *rig.Rig) string { return rig.BlackHole(t) },
		"nobody":     func(t *testing.T, _ *rig.Rig) string { return rig.Nobody(t) },
		"exhausted": func(t *testing.T, r *rig.Rig) string {
			exhaust(t, r)
			return r.Admin
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, upstream, crowd := refusing(t)
			press := crowd.Press(2, time.Millisecond)
			harness.Until(t, "the press is refused", func() bool { return press.Refused() >= 3 })
			d := rig.RunAt(t, r.Dir, silent(t, r), "rollback", "--reason", "upstream is slow", "--json")
			reply := d.Reply(t)
			t.Logf("the command took %v", d.Took)
			if d.Code != 0 || reply.Way != "request" || reply.Request != 1 || reply.Waits || len(reply.Changes) != 1 || !reply.Recorded {
				t.Fatalf("exit code %d, %+v, stderr %q", d.Code, reply, d.Err)
			}
			if c := reply.Changes[0]; c.From != "enforce" || c.To != "passthrough" || c.Running != 1 || c.Queued != 3 || c.Via != "request" ||
				c.Reason != "upstream is slow" || c.Request != 1 {
				t.Errorf("the change reads %+v", c)
			}
			for _, part := range []string{"left request 1", "instead", "within a second"} {
				if !strings.Contains(d.Err, part) {
					t.Errorf("no %q in what the command said: %s", part, d.Err)
				}
			}
			whole(t, upstream, crowd, 6)
		})
	}
}

// exhaust takes all the files that the gate may open, so that its listeners take
// no connection any more.
func exhaust(t *testing.T, r *rig.Rig) {
	t.Helper()
	hoard := rig.NewHoard(strings.TrimPrefix(r.Admin, "http://"))
	t.Cleanup(hoard.Close)
	open := r.LimitFiles(t, 24)
	hoard.Grow(100)
	harness.Until(t, "no file is left to the gate", func() bool { return open() >= 24 })
}
