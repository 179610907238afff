package alerts

import (
	"fmt"
	"testing"
	"time"

	"headgate/engine"
)

// deliveriesFromBytes makes a stream's deliveries from bytes: kind, state and whether it
// pings or is over.
func deliveriesFromBytes(script []byte) (ds []Delivery) {
	kinds := []Kind{Post, Edit, Reply}
	states := []State{Queued, Retry, Uncertain, Sending, Queued, Queued}
	seen := make(map[Key]bool)
	for i, b := range script {
		d := Delivery{
			ID: fmt.Sprint(i), Incident: "i", Seq: 1 + int(b>>5), Kind: kinds[int(b)%3], Destination: ToPage,
			State: states[int(b/3)%len(states)],
		}
		d.Notification.Ping = b&16 > 0
		if b&8 > 0 {
			d.Notification.Incident.Ended = time.Unix(1, 0)
		}
		if !seen[d.Key()] {
			seen[d.Key()] = true
			ds = append(ds, d)
		}
	}
	return ds
}

// FuzzSteps checks what every choice of steps must keep, whatever is pending.
func FuzzSteps(f *testing.F) {
	f.Add([]byte{0, 33, 34, 66}, true)
	f.Add([]byte{0, 33, 34, 66}, false)
	f.Add([]byte{6, 42, 255}, false)
	f.Fuzz(func(t *testing.T, script []byte, stands bool) {
		ds := deliveriesFromBytes(script)
		var root Ref
		if stands {
			root = Ref{Channel: "C", TS: "1.1"}
		}
		all := nextSteps(ds, root)
		if (len(all) == 0) != (len(ds) == 0) {
			t.Fatalf("%d steps for %d deliveries", len(all), len(ds))
		}
		for i, s := range all {
			checkStep(t, ds, s, root)
			if s.lookup && len(all) > 1 {
				t.Error("something is sent beside a look")
			}
			if i > 0 && s.delivery.Kind != Reply {
				t.Errorf("step %d is %s: edits come first", i, s.delivery.Kind)
			}
		}
	})
}

func checkStep(t *testing.T, ds []Delivery, s step, root Ref) {
	t.Helper()
	for _, d := range ds {
		doubtful := (d.State == Uncertain || d.State == Sending) && !d.EditsMessage(root)
		if doubtful && !s.lookup {
			t.Errorf("%+v is in doubt, and %+v is sent", d.Key(), s.delivery.Key())
		}
	}
	ping := false
	for _, x := range s.dropped {
		if x.Key() == s.delivery.Key() || x.State != Dropped || x.Reason == "" {
			t.Errorf("dropped: %+v", x)
		}
		if !s.delivery.StartsThread(root) && x.Kind == Reply {
			t.Errorf("a reply is dropped though the message stands: %+v", x.Key())
		}
		ping = ping || x.Notification.Ping
	}
	if s.lookup {
		return
	}
	if s.delivery.StartsThread(root) {
		if len(s.dropped) != len(ds)-1 {
			t.Errorf("%d of %d are folded into the first message", len(s.dropped)+1, len(ds))
		}
		if ping && !s.delivery.Notification.Ping {
			t.Error("a page is folded into a message that does not ring")
		}
		if s.delivery.Notification.Combined == s.delivery.Notification.Incident.Open() {
			t.Error("want Combined exactly on the first message of a resolved incident")
		}
	}
	for _, a := range s.added {
		if a.Kind != Reply || !a.Notification.Ping || a.State != Queued || a.Attempts != 0 {
			t.Errorf("added: %+v", a)
		}
	}
}

// TestAnnotationsFollowFirstMessage: what was done about an incident before its
// message was there is notified in the thread afterwards.
func TestAnnotationsFollowFirstMessage(t *testing.T) {
	ds := deliveriesFromBytes([]byte{1 << 5, 2<<5 | 1 | 8, 2<<5 | 2 | 8})
	remark := ds[len(ds)-1]
	remark.Seq, remark.Kind = remark.Seq+1, Reply
	remark.Notification.Event.Kind, remark.Notification.Event.Text = engine.EventMode, "automatically"
	remark.Notification.Mode = "passthrough"
	s := nextSteps(append(ds, remark), Ref{})[0]
	if len(s.dropped) != len(ds)-1 || s.delivery.Notification.Mode != "passthrough" {
		t.Errorf("%d of %d are folded, the message says mode %q", len(s.dropped)+1, len(ds)+1, s.delivery.Notification.Mode)
	}
	checkStep(t, ds, s, Ref{})
	next := nextSteps([]Delivery{remark}, Ref{Channel: "C1", TS: "1.1"})
	if len(next) != 1 || next[0].delivery.Kind != Reply || next[0].delivery.Notification.Event.Text != "automatically" {
		t.Errorf("then %+v", next)
	}
}

func TestFirstMessageShowsPresentState(t *testing.T) {
	ds := deliveriesFromBytes([]byte{1 << 5, 2<<5 | 1 | 8, 2<<5 | 2 | 8})
	s := nextSteps(ds, Ref{})[0]
	if s.delivery.Seq != 2 || s.delivery.Notification.Incident.Open() || !s.delivery.Notification.Combined {
		t.Errorf("%+v: it goes under the oldest name and says the newest", s.delivery)
	}
}

func TestBackoff(t *testing.T) {
	tests := []struct {
		attempts int
		r        float64
		want     time.Duration
	}{
		{0, 0.5, 500 * time.Millisecond}, {1, 0.5, 500 * time.Millisecond}, {2, 0.5, time.Second}, {5, 0.5, 8 * time.Second},
		{6, 0.5, 15 * time.Second}, {1_000_000, 0.5, 15 * time.Second}, {3, 0, 0},
	}
	for _, tt := range tests {
		if got := backoff(tt.attempts, tt.r); got != tt.want {
			t.Errorf("after %d, at %v: %s, want %s", tt.attempts, tt.r, got, tt.want)
		}
	}
}

func TestChannelSpacing(t *testing.T) {
	now := time.Unix(1000, 0)
	root := Ref{Channel: "C", TS: "1.1"}
	post, edit, look := step{}, step{delivery: Delivery{Kind: Edit}, thread: root}, step{lookup: true}
	c := &channel{}
	c.reserve(post, now)
	if !c.availableAt(edit).Before(now) || !c.availableAt(post).Equal(now.Add(postInterval)) {
		t.Errorf("after a post: edits at %s, posts at %s", c.availableAt(edit), c.availableAt(post))
	}
	c.reserve(edit, now)
	if !c.availableAt(look).Equal(now.Add(editInterval)) {
		t.Errorf("after an edit: look-ups at %s", c.availableAt(look))
	}
	c.heldUntil = now.Add(time.Hour)
	for _, s := range []step{post, edit, look} {
		if !c.availableAt(s).Equal(c.heldUntil) {
			t.Errorf("held, but free at %s", c.availableAt(s))
		}
	}
}
