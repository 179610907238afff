package rollbacktest

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headgate/e2e/harness"
)

// Instance is a gate in a folder of its own, which another one can be started in.
type Instance struct {
	*harness.Gate
	Dir string // working directory: settings and data
}

const settingsFile = "headgate.yaml"

// New starts a gate in a new folder.
func New(t testing.TB, pools string) *Instance {
	t.Helper()
	dir := t.TempDir()
	WriteSettings(t, dir, "", pools)
	return Start(t, dir)
}

// Start starts a gate in a folder that has settings, and waits until it is ready.
func Start(t testing.TB, dir string, flags ...string) *Instance {
	t.Helper()
	return &Instance{harness.AwaitGate(t, harness.Start(t, ServeCommand(dir, flags...))), dir}
}

// ServeCommand is the command that starts a gate in a folder.
func ServeCommand(dir string, flags ...string) harness.Command {
	return harness.Command{Args: append([]string{"serve", "--config", SettingsFile(dir)}, flags...), Dir: dir}
}

// SettingsFile is the settings file of a folder.
func SettingsFile(dir string) string { return filepath.Join(dir, settingsFile) }

// DataDir is the data directory of a folder.
func DataDir(dir string) string { return filepath.Join(dir, "data") }

// WriteSettings puts settings into a folder: lines for the top, and the pools.
func WriteSettings(t testing.TB, dir, top, pools string) {
	t.Helper()
	text := "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nlog: {level: info, format: json}\n" + top + "pools:\n" + pools
	if err := os.WriteFile(SettingsFile(dir), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// PoolSettings is the settings of a pool that refuses by depth alone, and whose tasks may
// wait for as long as a test lasts.
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

// Kill ends the gate as kill -9 does, and waits for the end.
func (r *Instance) Kill(t testing.TB) {
	t.Helper()
	r.Signal(t, os.Kill)
	r.Wait(t)
}

// Metric is the value of a metric, summed over the series that have the labels.
func (r *Instance) Metric(t testing.TB, name string, labels ...string) int {
	t.Helper()
	return int(r.Scrape(t).Sum(name, labels...))
}

// EditSettings changes a piece of a folder's settings.
func EditSettings(t testing.TB, dir, old, new string) {
	t.Helper()
	text, err := os.ReadFile(SettingsFile(dir))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), old) != 1 {
		t.Fatalf("%q is not once in %s", old, text)
	}
	if err := os.WriteFile(SettingsFile(dir), []byte(strings.Replace(string(text), old, new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}
