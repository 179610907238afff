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

	"headgate/internal/app"
	"headgate/internal/config"
)

func newServe() *cobra.Command {
	var s server
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Stand in front of a model endpoint",
		Long: `Stand in front of a model endpoint until SIGINT or SIGTERM. Then those who wait
are answered with a retryable 503, those who run get the drain time to finish,
and the process ends. A second signal ends it at once.

SIGHUP reads the settings again. Pools, clients, limits and the log level change
without dropping anything; a file that is not right changes nothing.

Without --config the built-in defaults count, and of the environment
MC_ENDPOINT (the endpoint), MC_API_KEY (its key) and MC_MODEL (its model).`,
		Example: `  MC_ENDPOINT=http://127.0.0.1:8080/v1 headgate serve
  headgate serve --config /etc/headgate/headgate.yaml`,
		Args: usageArgs(cobra.NoArgs),
	}
	path := configFlag(cmd)
	cmd.Flags().BoolVar(&s.ephemeral, "ephemeral", false, "keep the record in memory only: a restart forgets modes and audit")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		s.path, s.stderr = *path, cmd.ErrOrStderr()
		return s.run(cmd.Context())
	}
	return cmd
}

// server is one run of serve.
type server struct {
	path      string
	ephemeral bool
	stderr    io.Writer

	app   *app.App
	log   *slog.Logger
	level *slog.LevelVar
}

func (s *server) run(ctx context.Context) error {
	// From the first moment on: a SIGHUP that nobody listens to ends the process.
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
	// The signal has done its work: the drain has a bound of its own.
	if stopErr := s.app.Stop(context.WithoutCancel(ctx)); err == nil {
		err = stopErr
	}
	s.log.Info("down")
	return err
}

// printLoginLink shows a link to the pages to whoever sits in front of a terminal. In a log
// it would be a way in for whoever reads logs.
func (s *server) printLoginLink(cfg *config.Config) {
	if isTerminal(s.stderr) {
		base := cmp.Or(strings.TrimSuffix(cfg.Admin.ExternalURL, "/"), adminURL(s.app.AdminAddr()))
		fmt.Fprintf(s.stderr, "\n  pages: %s%s\n  (works once, within ten minutes; headgate login makes another)\n\n", base, s.app.LoginPath(whoami()))
	}
}

// wait returns when it is time to go down.
func (s *server) wait(ctx context.Context, reload <-chan os.Signal) error {
	for {
		select {
		case <-ctx.Done():
			s.log.Info("going down")
			return nil
		case err := <-s.app.Failed():
			s.log.Error("a listener failed, going down", "error", err)
			return err
		case <-reload:
			s.reload()
		}
	}
}

// reload takes the settings over, or says why it does not.
func (s *server) reload() {
	cfg, err := loadSettings(s.path, s.stderr)
	if err == nil {
		err = s.app.Reload(cfg)
	}
	if err != nil {
		s.log.Error("settings were not taken over, nothing has changed", "error", err)
		return
	}
	setLevel(s.level, cfg.Log)
	s.log.Info("settings taken over")
	s.logPools(cfg)
}

func (s *server) logPools(cfg *config.Config) {
	for _, p := range s.app.Pools() {
		i := slices.IndexFunc(cfg.Pools, func(c config.Pool) bool { return c.Name == p.Name })
		c := cfg.Pools[i]
		mode := p.Gate.Snapshot(time.Now()).Mode.String()
		s.log.Info("pool", "name", c.Name, "upstream", c.Upstream, "workers", c.Workers, "policy", c.Admission.Policy,
			"slo", c.SLO.Turnaround, "mode", mode)
		if mode != c.Mode {
			s.log.Info("the recorded mode counts, not the one in the settings, which is for a first start; "+
				"headgate rollback, observe and restore change it", "pool", c.Name, "mode", mode, "settings", c.Mode)
		}
	}
}
