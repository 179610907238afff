package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/net/http/httpproxy"

	"headgate/internal/app"
	"headgate/internal/cli"
	"headgate/internal/config"
)

func newServe() *cobra.Command {
	var s server
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run the proxy",
		Long: `Run the proxy until SIGINT or SIGTERM. Then queued requests are answered with a
retryable 503, running ones get the drain time to finish, and the process exits. A
second signal exits at once.

SIGHUP reloads the configuration. Pools, clients, limits and the log level change
without dropping anything; an invalid file changes nothing.

Without --config, the built-in defaults apply, and from the environment MC_ENDPOINT
(the endpoint), MC_API_KEY (its key) and MC_MODEL (its model).`,
		Example: `  MC_ENDPOINT=http://127.0.0.1:8080/v1 headgate serve
  headgate serve --config /etc/headgate/headgate.yaml`,
	}
	path := configFlag(cmd)
	cmd.Flags().BoolVar(&s.ephemeral, "ephemeral", false,
		"keep the database in memory only: a restart loses modes and audit log")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s.path, s.stderr = *path, cmd.ErrOrStderr()
		return s.run(cmd.Context())
	}
	return cmd
}

// server is one run of serve. It owns the process-wide parts of a service, which are
// signals, the logger and the terminal; internal/app knows none of them, so that tests and
// the demo can run several services in one process.
type server struct {
	path      string
	ephemeral bool
	stderr    io.Writer

	app   *app.App
	log   *slog.Logger
	level *slog.LevelVar
}

// run starts the service, serves until ctx ends or a listener fails, and stops it.
func (s *server) run(ctx context.Context) error {
	// Before anything else: an unhandled SIGHUP ends the process.
	reload := make(chan os.Signal, 1)
	signal.Notify(reload, syscall.SIGHUP)
	defer signal.Stop(reload)
	cfg, err := loadSettings(s.path, s.stderr)
	if err != nil {
		return err
	}
	s.log, s.level = newLogger(cfg.Log, s.stderr)
	var options []app.Option
	if s.ephemeral {
		options = append(options, app.Ephemeral())
	}
	if s.app, err = app.New(cfg, version(), s.log, options...); err != nil {
		return err
	}
	if err := s.app.Start(); err != nil {
		return err
	}
	s.log.Info("serving", "version", version(), "listen", s.app.DataAddr(), "admin", s.app.AdminAddr())
	s.logPools(cfg)
	s.printLoginLink(cfg)
	err = s.wait(ctx, reload)
	// The drain has its own time limit, independent of the signal.
	if stopErr := s.app.Stop(context.WithoutCancel(ctx)); err == nil {
		err = stopErr
	}
	s.log.Info("stopped")
	return err
}

// printLoginLink shows a link to the pages on a terminal only: in a log it would let
// every reader of the log sign in.
func (s *server) printLoginLink(cfg *config.Config) {
	if cli.IsTerminal(s.stderr) {
		base := cmp.Or(strings.TrimSuffix(cfg.Admin.ExternalURL, "/"), cli.AdminURL(s.app.AdminAddr()))
		fmt.Fprintf(s.stderr, "\n  pages: %s%s\n  (works once, within ten minutes; headgate login makes another)\n\n",
			base, s.app.LoginPath(cli.WhoAmI()))
	}
}

// wait returns when it is time to stop.
func (s *server) wait(ctx context.Context, reload <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			s.log.Info("shutting down")
			return nil
		case err := <-s.app.Failed():
			s.log.Error("listener failed, shutting down", "error", err)
			return err
		case <-reload:
			s.reload()
		}
	}
}

// reload applies the configuration, or logs why it does not.
func (s *server) reload() {
	cfg, err := loadSettings(s.path, s.stderr)
	if err == nil {
		err = s.app.Reload(cfg)
	}
	if err != nil {
		s.log.Error("configuration reload failed", "error", err)
		return
	}
	setLevel(s.level, cfg.Log)
	s.log.Info("configuration reloaded")
	s.logPools(cfg)
}

// logPools says how each pool is configured, and where the recorded mode differs from the
// configured one: a person who edits the mode and reloads would otherwise wait for an effect.
func (s *server) logPools(cfg *config.Config) {
	for _, p := range s.app.Pools() {
		i := slices.IndexFunc(cfg.Pools, func(c config.Pool) bool { return c.Name == p.Name })
		c := cfg.Pools[i]
		mode := p.Gate.Snapshot(time.Now()).Mode.String()
		s.log.Info("pool configured", "pool", c.Name, "upstream", c.Upstream, "workers", c.Workers,
			"policy", c.Admission.Policy, "slo", c.SLO.Turnaround, "mode", mode)
		if mode != c.Mode {
			s.log.Info("configured mode ignored, it applies to the first start only; "+
				"headgate rollback, observe and restore change the mode",
				"pool", c.Name, "mode", mode, "configured", c.Mode)
		}
	}
}

// newCheck returns the command that builds the whole service without starting it: parts
// refuse settings that the configuration alone cannot judge.
func newCheck() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Validate the configuration and print effective values",
		Long: `Validate the configuration exactly as serve does, and print the effective one, with
every default and with secrets redacted, and which proxies of the environment
(HTTP_PROXY, HTTPS_PROXY, NO_PROXY) lead to the upstreams; on stderr, the URL that each
pool asks for. Nothing is opened or changed. Exit status 2 means that serve would refuse it.`,
		Example: `  headgate check --config headgate.yaml
  headgate check                         what serve would use without a file`,
	}
	path := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := loadSettings(*path, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		if _, err := app.New(cfg, version(), slog.New(slog.DiscardHandler)); err != nil {
			return cli.Usage(err)
		}
		for _, line := range cfg.Forwarding() {
			fmt.Fprintln(cmd.ErrOrStderr(), "headgate:", line)
		}
		if err := cfg.Write(cmd.OutOrStdout()); err != nil {
			return err
		}
		return cfg.WriteProxies(cmd.OutOrStdout(), httpproxy.FromEnvironment())
	}
	return cmd
}

// configFlag adds --config to a command that reads the settings itself.
func configFlag(cmd *cobra.Command) *string {
	path := cmd.Flags().StringP("config", "c", "", "settings `file`; without it, defaults and environment apply")
	_ = cmd.MarkFlagFilename("config", "yaml", "yml") // fails only for a flag that does not exist
	return path
}

// loadSettings reads the file, or the defaults and the environment without one, and
// prints warnings.
func loadSettings(path string, stderr io.Writer) (*config.Config, error) {
	load := func() (*config.Config, error) { return config.FromEnvironment(os.LookupEnv) }
	if path != "" {
		load = func() (*config.Config, error) { return config.Load(path, os.LookupEnv) }
	}
	cfg, err := load()
	if err != nil {
		return nil, cli.Usage(err)
	}
	for _, w := range cfg.Warnings() {
		fmt.Fprintln(stderr, "headgate: warning:", w)
	}
	return cfg, nil
}

// newLogger returns the configured logger, and its level, which a reload may change.
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

// durationsAsSeconds writes durations in JSON logs as all JSON here has them: as
// numbers of seconds.
func durationsAsSeconds(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.Float64Value(a.Value.Duration().Seconds())
	}
	return a
}

// setLevel sets the level that the configuration names.
func setLevel(v *slog.LevelVar, c config.Log) {
	var level slog.Level
	if level.UnmarshalText([]byte(c.Level)) == nil { // the configuration has been validated
		v.Set(level)
	}
}
