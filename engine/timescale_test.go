package engine_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/engine"
)

func TestTimeScaleEngineConfig(t *testing.T) {
	c := engine.TimeScale(20).Config(engine.DefaultConfig(), time.Second)
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	want := engine.DefaultConfig()
	want.Interval, want.MissingGrace = 50*time.Millisecond, 10*time.Second
	want.IdleClose, want.ReopenWindow, want.Remind.Page = 90*time.Second, 30*time.Second, 3*time.Minute
	want.Flap.Window, want.Flap.Digest = 90*time.Second, 90*time.Second
	if diff := cmp.Diff(want, c); diff != "" {
		t.Errorf("durations at scale 20 (-want +got):\n%s", diff)
	}
	if c := engine.TimeScale(1000).Config(engine.DefaultConfig(), time.Second); c.ReopenWindow != 600*time.Millisecond || c.Validate() != nil {
		t.Errorf("at scale 1000: %+v", c)
	}
}
