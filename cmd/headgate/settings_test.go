package main

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"headgate/internal/config"
)

func TestJSONLogHasSeconds(t *testing.T) {
	var out bytes.Buffer
	log, level := newLogger(config.Log{Level: "warn", Format: "json"}, &out)
	log.Info("not shown")
	log.Warn("shown", "slo", 90*time.Second)
	var line struct {
		Msg string
		SLO float64
	}
	if err := json.Unmarshal(out.Bytes(), &line); err != nil || line.Msg != "shown" || line.SLO != 90 {
		t.Errorf("%s (%v)", out.String(), err)
	}
	out.Reset()
	setLevel(level, config.Log{Level: "debug"})
	if log.Debug("now shown"); !log.Enabled(t.Context(), slog.LevelDebug) || out.Len() == 0 {
		t.Error("the level did not change")
	}
}
