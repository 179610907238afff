package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"headgate/internal/config"
)

// TestReloadDuringTheStart: a SIGHUP that comes while the service still reads its
// settings is not its end; the settings are read again once it serves. A pipe as
// the file makes both reads wait for the test.
func TestReloadDuringTheStart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "settings")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	logs, stderr := io.Pipe()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		s := &server{path: path, ephemeral: true, stderr: stderr}
		err := s.run(ctx)
		_ = stderr.Close() // never fails
		ended <- err
	}()
	file, err := os.OpenFile(path, os.O_WRONLY, 0) // waits for the reader
	if err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	const settings = "listen: localhost:0\nadmin: {listen: \"localhost:0\"}\npools: [{name: a, upstream: \"http://localhost:1/v1\"}]\n"
	_, err = io.WriteString(file, settings)
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	written := make(chan error, 1)
	observed := strings.Replace(settings, "name: a,", "name: a, mode: observe,", 1)
	reported := false
	for lines := bufio.NewScanner(logs); lines.Scan(); {
		switch line := lines.Text(); {
		case strings.Contains(line, "msg=serving"):
			go func() { written <- os.WriteFile(path, []byte(observed), 0) }() // waits for the second read
		case strings.Contains(line, "configuration reloaded"):
			cancel()
		case strings.Contains(line, "configured mode ignored"):
			reported = strings.Contains(line, "pool=a mode=enforce configured=observe")
		}
	}
	if !reported {
		t.Error("no message said that the mode in the settings does not count")
	}
	if err := <-ended; err != nil {
		t.Fatalf("ended with %v", err)
	}
	if err := <-written; err != nil {
		t.Error(err)
	}
}

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
