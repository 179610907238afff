package app

import (
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"headgate/internal/config"
)

func TestTimeScaleInvalid(t *testing.T) {
	for _, speed := range []float64{0.5, -1, 1001, math.NaN(), math.Inf(1)} {
		if _, err := New(testConfig(t, "http://127.0.0.1:1"), "test", slog.New(slog.DiscardHandler), TimeScale(speed)); err == nil || !strings.Contains(err.Error(), "1 to 1000") {
			t.Errorf("pace %v: %v", speed, err)
		}
	}
}

// An App with a time scale notifies about an incident and its end, and keeps the scale after a reload.
func TestTimeScaleApp(t *testing.T) {
	slack, url := newFakeSlack(t)
	file := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(file, []byte(queueAgeRules), 0o600); err != nil {
		t.Fatal(err)
	}
	r := newFixture(t, func(c *config.Config) {
		useFakeSlack(url)(c)
		c.Rules.File = file
	}, TimeScale(20))
	answer := r.sendChat()
	r.eventually("the message is there", func() bool { return len(slack.Roots("C0123456789")) == 1 })
	close(r.upstream.release)
	<-answer
	r.eventually("the message says that it is over", func() bool {
		roots := slack.Roots("C0123456789")
		return len(roots) == 1 && strings.Contains(roots[0].Text, "RESOLVED")
	})
	if err := r.app.Reload(r.app.config()); err != nil {
		t.Fatal(err)
	}
	for _, rule := range r.app.current.Load().rules {
		if rule.Name == "busy" && rule.Warn.For != 250*time.Millisecond {
			t.Errorf("after a reload it lasts %v, want 250ms", rule.Warn.For)
		}
	}
}
