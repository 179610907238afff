package rig

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headgate/e2e/harness"
)

// Rig is a gate in a folder of its own, which another one can be started in.
type Rig struct {
	*harness.Gate
	Dir string // working directory: settings and data
}

const settingsName = "headgate.yaml"

// New starts a gate in a new folder.
func New(t testing.TB, pools string) *Rig {
	t.Helper()
	dir := t.TempDir()
	Write(t, dir, "", pools)
	return Start(t, dir)
}

// Start starts a gate in a folder that has settings, and waits until it is ready.
func Start(t testing.TB, dir string, flags ...string) *Rig {
	t.Helper()
	return &Rig{harness.AwaitGate(t, harness.Start(t, Serve(dir, flags...))), dir}
}

// Serve is the command that starts a gate in a folder.
func Serve(dir string, flags ...string) harness.Command {
	return harness.Command{Args: append([]string{"serve", "--config", Settings(dir)}, flags...), Dir: dir}
}

// Settings is the settings file of a folder.
func Settings(dir string) string { return filepath.Join(dir, settingsName) }

// Data is the data directory of a folder.
func Data(dir string) string { return filepath.Join(dir, "data") }

// Write puts settings into a folder: lines for the top, and the pools.
func Write(t testing.TB, dir, top, pools string) {
	t.Helper()
	text := "listen: 127.0.0.1:0\nadmin: {listen: 127.0.0.1:0}\nlog: {level: info, format: json}\n" + top + "pools:\n" + pools
	if err := os.WriteFile(Settings(dir), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Pool is the settings of a pool that refuses by depth alone, and whose tasks may
// wait for as long as a test lasts.
func Pool(name, upstream string, workers int, more ...string) string {
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
func (r *Rig) Kill(t testing.TB) {
	t.Helper()
	r.Signal(t, os.Kill)
	r.Wait(t)
}

// Count is the value of a metric, summed over the series that have the labels.
func (r *Rig) Count(t testing.TB, name string, labels ...string) int {
	t.Helper()
	return int(r.Scrape(t).Sum(name, labels...))
}

// Replace changes a piece of a folder's settings.
func Replace(t testing.TB, dir, old, new string) {
	t.Helper()
	text, err := os.ReadFile(Settings(dir))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Count(string(text), old) != 1 {
		t.Fatalf("%q is not once in %s", old, text)
	}
	if err := os.WriteFile(Settings(dir), []byte(strings.Replace(string(text), old, new, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
}
