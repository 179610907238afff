package rollbacktest

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"headgate/e2e/harness"
)

// What the log says after SIGHUP.
const (
	reloadedMessage = "configuration reloaded"
	rejectedMessage = "configuration reload failed, nothing has changed"
)

// Reload has the gate take over what is in its settings file.
func (r *Instance) Reload(t testing.TB) {
	t.Helper()
	if said := r.sendHUP(t); said["msg"] != reloadedMessage {
		t.Fatalf("the configuration was not reloaded: %v", said["error"])
	}
}

// ReloadRejected has the gate look at its settings file and returns why it does not take
// it over.
func (r *Instance) ReloadRejected(t testing.TB) string {
	t.Helper()
	said := r.sendHUP(t)
	reason, _ := said["error"].(string)
	if said["msg"] != rejectedMessage || reason == "" {
		t.Fatalf("the configuration was reloaded, or rejected without a message: %v", said)
	}
	return reason
}

// sendHUP sends SIGHUP and returns the line in the log that tells what came of it.
func (r *Instance) sendHUP(t testing.TB) map[string]any {
	t.Helper()
	before := len(r.reloads())
	r.Signal(t, syscall.SIGHUP)
	harness.Eventually(t, "the gate has looked at its settings", func() bool { return len(r.reloads()) > before })
	return r.reloads()[before]
}

func (r *Instance) reloads() (all []map[string]any) {
	for line := range strings.Lines(r.Stderr()) {
		var said map[string]any
		if json.Unmarshal([]byte(line), &said) == nil && (said["msg"] == reloadedMessage || said["msg"] == rejectedMessage) {
			all = append(all, said)
		}
	}
	return all
}
