package harness

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Functions in this file are about a gate that runs in a folder which outlives its
// process: settings in headgate.yaml, the data directory in data.

// SettingsFile is the settings file of a folder.
func SettingsFile(dir string) string { return filepath.Join(dir, "headgate.yaml") }

// DataDir is the data directory of a folder.
func DataDir(dir string) string { return filepath.Join(dir, "data") }

// StartWithPools starts a gate with these pools in a new folder.
func StartWithPools(t testing.TB, pools string) *Gate {
	t.Helper()
	dir := t.TempDir()
	WriteSettings(t, dir, "", pools)
	return StartIn(t, dir)
}

// StartIn starts a gate in a folder that has settings, and waits until it is ready.
func StartIn(t testing.TB, dir string, flags ...string) *Gate {
	t.Helper()
	return AwaitGate(t, Start(t, ServeCommand(dir, flags...)))
}

// ServeCommand is the command that starts a gate in a folder.
func ServeCommand(dir string, flags ...string) Command {
	return Command{Args: append([]string{"serve", "--config", SettingsFile(dir)}, flags...), Dir: dir}
}

// WriteSettings writes the settings of a folder: lines of the top level, and the pools.
func WriteSettings(t testing.TB, dir, top, pools string) {
	t.Helper()
	text := "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nlog: {level: info, format: json}\n" + top + "pools:\n" + pools
	WriteFile(t, SettingsFile(dir), text)
}

// PoolSettings returns the settings of a pool that refuses by depth alone, and whose tasks
// may wait for as long as a test lasts.
func PoolSettings(name, upstream string, workers int, more ...string) string {
	lines := append([]string{
		"name: " + name,
		fmt.Sprintf("upstream: %q", upstream+"/v1"),
		fmt.Sprintf("workers: %d", workers),
		"slo: {turnaround: 4h}",
		"admission: {max_queue_age: 2h}",
	}, more...)
	return "  - " + strings.Join(lines, "\n    ") + "\n"
}

// EditSettings replaces a text that occurs once in the settings of a folder.
func EditSettings(t testing.TB, dir, old, new string) {
	t.Helper()
	text, err := os.ReadFile(SettingsFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), old) != 1 {
		t.Fatalf("%q is not once in %s", old, text)
	}
	WriteFile(t, SettingsFile(dir), strings.Replace(string(text), old, new, 1))
}

// WriteFile writes a file that only the user may read.
func WriteFile(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Log messages after SIGHUP.
const (
	reloadedMessage = "configuration reloaded"
	rejectedMessage = "configuration reload failed"
)

// Reload makes the gate reload its settings file, which must be valid.
func (g *Gate) Reload(t testing.TB) {
	t.Helper()
	if entry := g.sendHUP(t); entry["msg"] != reloadedMessage {
		t.Fatalf("the settings were rejected: %v", entry["error"])
	}
}

// ReloadRejected makes the gate reload its settings file, which must be invalid, and
// returns the error.
func (g *Gate) ReloadRejected(t testing.TB) string {
	t.Helper()
	entry := g.sendHUP(t)
	reason, _ := entry["error"].(string)
	if entry["msg"] != rejectedMessage || reason == "" {
		t.Fatalf("the settings were not rejected with a reason: %v", entry)
	}
	return reason
}

// sendHUP sends SIGHUP and returns the log entry about the reload.
func (g *Gate) sendHUP(t testing.TB) map[string]any {
	t.Helper()
	before := len(g.reloads())
	g.Signal(t, syscall.SIGHUP)
	Eventually(t, "the gate has read its settings", func() bool { return len(g.reloads()) > before })
	return g.reloads()[before]
}

func (g *Gate) reloads() (all []map[string]any) {
	for line := range strings.Lines(g.Stderr()) {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil && (entry["msg"] == reloadedMessage || entry["msg"] == rejectedMessage) {
			all = append(all, entry)
		}
	}
	return all
}

// Kill kills the gate (SIGKILL) and waits for its end.
func (g *Gate) Kill(t testing.TB) {
	t.Helper()
	g.Signal(t, os.Kill)
	g.Wait(t)
}
