package rig

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"headgate/e2e/harness"
)

// What the log says after SIGHUP.
const (
	taken    = "settings taken over"
	notTaken = "settings were not taken over, nothing has changed"
)

// Reload has the gate take over what is in its settings file.
func (r *Rig) Reload(t testing.TB) {
	t.Helper()
	if said := r.hangUp(t); said["msg"] != taken {
		t.Fatalf("the settings were not taken over: %v", said["error"])
	}
}

// Refuse has the gate look at its settings file and returns why it does not take
// it over.
func (r *Rig) Refuse(t testing.TB) string {
	t.Helper()
	said := r.hangUp(t)
	reason, _ := said["error"].(string)
	if said["msg"] != notTaken || reason == "" {
		t.Fatalf("the settings were taken over, or refused without a word: %v", said)
	}
	return reason
}

// hangUp sends SIGHUP and returns the line in the log that tells what came of it.
func (r *Rig) hangUp(t testing.TB) map[string]any {
	t.Helper()
	before := len(r.reloads())
	r.Signal(t, syscall.SIGHUP)
	harness.Until(t, "the gate has looked at its settings", func() bool { return len(r.reloads()) > before })
	return r.reloads()[before]
}

func (r *Rig) reloads() (all []map[string]any) {
	for line := range strings.Lines(r.Stderr()) {
		var said map[string]any
		if json.Unmarshal([]byte(line), &said) == nil && (said["msg"] == taken || said["msg"] == notTaken) {
			all = append(all, said)
		}
	}
	return all
}
