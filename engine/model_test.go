package engine_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"headgate/engine"
)

// TestJSON: the shapes that API and record share survive a round trip, and have the documented keys.
func TestJSON(t *testing.T) {
	at := time.Date(2026, 1, 31, 10, 29, 0, 250e6, time.UTC)
	key := engine.Key{Rule: "queue_age", Pool: "a"}
	open := engine.Incident{ID: "1", Key: key, Level: engine.LevelPage, Peak: engine.LevelPage, Opened: at, Changed: at, Value: 27.4, Seq: 1}
	ended := open
	ended.Ended, ended.Resolution, ended.AckedBy, ended.AckUntil = at, engine.Recovered, "ana", at
	rule := engine.Rule{Name: "queue_age", Warn: engine.Threshold{At: 15, For: 30 * time.Second, Set: true}, Clear: engine.Clear{Below: 10, For: 1500 * time.Millisecond}}
	roundTrip(t, open, `"rule":"queue_age","pool":"a","level":"page","peak":"page","opened_at":"2026-01-31T10:29:00.25Z"`)
	roundTrip(t, ended, `"end_reason":"recovered"`)
	roundTrip(t, rule, `"warn":{"at":15,"for_s":30},"page":null,"clear":{"below":10,"for_s":1.5}`)
	roundTrip(t, engine.Event{ID: "2", Kind: engine.EventOpened, At: at, Level: engine.LevelWarn}, `"kind":"opened"`)
	roundTrip(t, engine.State{Key: key, Phase: engine.Recovering, WarnFor: 7, FlapTimes: []time.Time{at}}, `"phase":"recovering"`)
	roundTrip(t, engine.Silence{ID: "3", Rule: "x", From: at, Until: at}, `"rule":"x"`)
	for _, bad := range []any{new(engine.Level), new(engine.Phase)} {
		if err := json.Unmarshal([]byte(`"bad"`), bad); err == nil {
			t.Errorf("%T accepts an unknown name", bad)
		}
	}
}

func roundTrip[T any](t *testing.T, v T, want string) {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil || !strings.Contains(string(b), want) {
		t.Errorf("%s, %v; want %s", b, err, want)
	}
	var got T
	if err := json.Unmarshal(b, &got); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(v, got); diff != "" {
		t.Errorf("round trip of %s:\n%s", b, diff)
	}
}
