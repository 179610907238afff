package main

import (
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"headgate/internal/config"
)

// configFlag adds --config to a command.
func configFlag(cmd *cobra.Command) *string {
	path := cmd.Flags().StringP("config", "c", "", "settings `file`; without it, defaults and environment count")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml") // fails only for a flag that is not there
	return path
}

// loadSettings reads the file, or the defaults and the environment without one,
// and shows warnings.
func loadSettings(path string, stderr io.Writer) (*config.Config, error) {
	load := func() (*config.Config, error) { return config.FromEnvironment(os.LookupEnv) }
	if path != "" {
		load = func() (*config.Config, error) { return config.Load(path, os.LookupEnv) }
	}
	cfg, err := load()
	if err != nil {
		return nil, usageError{err}
	}
	for _, w := range cfg.Warnings() {
		fmt.Fprintln(stderr, "headgate: warning:", w)
	}
	return cfg, nil
}

// newLogger returns the logger that the settings ask for, and the level that a
// reload may change.
func newLogger(c config.Log, w io.Writer) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	setLevel(level, c)
	options := &slog.HandlerOptions{Level: level}
	if c.Format == "json" {
		options.ReplaceAttr = durationsAsSeconds
		return slog.New(slog.NewJSONHandler(w, options)), level
	}
	return slog.New(slog.NewTextHandler(w, options)), level
}

// durationsAsSeconds writes durations as JSON has them everywhere here: seconds, as numbers.
func durationsAsSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.Float64Value(a.Value.Duration().Seconds())
	}
	return a
}

func setLevel(v *slog.LevelVar, c config.Log) {
	var level slog.Level
	if level.UnmarshalText([]byte(c.Level)) == nil { // the settings have been checked
		v.Set(level)
	}
}
