package ui

import (
	"context"
	"testing"
	"time"
)

func TestFactsCache(t *testing.T) {
	reads := 0
	f := factsCache{
		limits: func(pool string) (PoolFacts, bool) { return PoolFacts{Objective: 0.94, Window: time.Hour}, pool == "a" },
		slo: func(ctx context.Context, _ string, _ time.Time) (good, bad int64, err error) {
			reads++
			return 95, 5, ctx.Err()
		},
	}
	now := time.Now()
	for range 2 {
		if got := f.of(t.Context(), now, "a"); got.Good != 95 || got.Bad != 5 || !got.Counted || got.Objective != 0.94 {
			t.Errorf("facts: %+v", got)
		}
	}
	if reads != 1 {
		t.Errorf("the counts were read %d times", reads)
	}
	if got := f.of(t.Context(), now, "none"); got != (PoolFacts{}) {
		t.Errorf("facts of a pool that is none: %+v", got)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if late := f.of(over, now.Add(time.Minute), "a"); late.Counted {
		t.Error("counts that could not be read are shown")
	}
}
