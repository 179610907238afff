package rules

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"headgate/engine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// settings are those of one pool with the defaults of headgate.
func settings() Settings {
	return Settings{
		Pools: []Pool{defaultPool()}, Interval: time.Second, SlowEvery: 30 * time.Second, Retention: 7 * 24 * time.Hour,
		Runbooks: []string{"queue_age", "slo_burn"},
	}
}

func builtIn(t testing.TB, s Settings) []engine.Rule {
	t.Helper()
	all, err := BuiltIn(s)
	if err != nil {
		t.Fatal(err)
	}
	return all
}
