package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"headgate/internal/cli"
)

func TestDemoRefusesNonsense(t *testing.T) {
	for _, c := range []struct {
		args []string
		hint string
	}{
		{[]string{"--speed", "0"}, "--speed: must be 1 to 500"},
		{[]string{"--speed", "NaN"}, "--speed: must be 1 to 500"},
		{[]string{"--speed", "501"}, "--speed: must be 1 to 500"},
		{[]string{"--speed", "fast"}, "--help"},
		{[]string{"--slack", "--speed", "101"}, "--speed: must be at most 100 with Slack"},
		{[]string{"--workers", "0"}, "--workers: must be 1 to 1000"},
		{[]string{"--workers", "-3"}, "--workers: must be 1 to 1000"},
		{[]string{"--service", "slow"}, "uniform:5s-30s"},
		{[]string{"--service", "uniform:30s-5s"}, "the lower end comes first"},
		{[]string{"--seed", "-1"}, "--help"},
		{[]string{"--svg", "no/such/folder/x.svg"}, "--svg: "},
		{[]string{"--no-such-flag"}, "--help"},
		{[]string{"argument"}, "--help"},
	} {
		var out, messages bytes.Buffer
		code := execute(t.Context(), cli.System(), append([]string{"demo"}, c.args...), &out, &messages)
		if code != cli.ExitUsage || !strings.Contains(messages.String(), c.hint) || out.Len() > 0 {
			t.Errorf("%v: exit %d, stdout %q, stderr %q; want %d and a hint with %q",
				c.args, code, out.String(), messages.String(), cli.ExitUsage, c.hint)
		}
	}
}

// TestCalled: what is shown can be pasted into a shell, or is the plain name.
func TestCalled(t *testing.T) {
	for name, want := range map[string]string{
		"headgate": "headgate", "./bin/headgate": "./bin/headgate",
		"/usr/local/bin/headgate-1.2": "/usr/local/bin/headgate-1.2",
		"/home/a b/headgate":          "", "./$(x)": "", "": "",
	} {
		if got := programName(name); got != want {
			t.Errorf("called(%q) = %q, want %q", name, got, want)
		}
	}
}

// Stopped at once, the demo still sums up: JSON alone on stdout, and exit 0.
func TestDemoStoppedAtOnce(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	stop()
	picture := filepath.Join(t.TempDir(), "demo.svg")
	var out, messages bytes.Buffer
	code := execute(ctx, cli.System(), []string{"demo", "--json", "--speed", "100", "--keep", "--svg", picture}, &out,
		&messages)
	if code != cli.ExitOK {
		t.Fatalf("exit %d: %s", code, messages.String())
	}
	var summary map[string]any
	if err := json.Unmarshal(out.Bytes(), &summary); err != nil || summary["ending"] != "interrupted" {
		t.Errorf("stdout %q: %v, want a summary of an interrupted run", out.String(), err)
	}
	if !strings.Contains(messages.String(), "with the gate") {
		t.Errorf("stderr has no introduction: %q", messages.String())
	}
	if b, err := os.ReadFile(picture); err != nil || !bytes.HasPrefix(b, []byte("<svg")) {
		t.Errorf("picture %q, %v", b, err)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// With Slack the burst is longer and the default speed lower; the summary counts the messages, even if there are none.
func TestDemoWithSlack(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	ctx, stop := context.WithCancel(t.Context())
	stop()
	var out, messages bytes.Buffer
	if code := execute(ctx, cli.System(), []string{"demo", "--json", "--slack"}, &out, &messages); code != cli.ExitOK {
		t.Fatalf("exit %d: %s", code, messages.String())
	}
	var summary struct {
		Speed    float64        `json:"speed"`
		Duration float64        `json:"duration_s"`
		Slack    map[string]any `json:"slack"`
	}
	err := json.Unmarshal(out.Bytes(), &summary)
	if err != nil || summary.Speed != 10 || summary.Duration != 600 || summary.Slack["messages"] != 0.0 {
		t.Errorf("%+v, %v", summary, err)
	}
	if !strings.Contains(messages.String(), "open this page in a browser") {
		t.Errorf("no channel in the introduction:\n%s", messages.String())
	}
}

// A file gets plain lines without colour.
func TestDemoScreenOfAFile(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var buffer bytes.Buffer
	for _, flags := range []demoFlags{{}, {json: true}} {
		s := demoScreen(f, &buffer, flags)
		if s.Size != nil || s.Colour {
			t.Errorf("%+v: a file is treated as a terminal", flags)
		}
		if flags.json != (s.Live == &buffer) || s.Out != f {
			t.Errorf("%+v: progress or data goes to the wrong place", flags)
		}
	}
}
