package main

import (
	"context"
	"log/slog"

	"github.com/spf13/cobra"

	"headgate/internal/app"
	"headgate/internal/config"
)

func newServe() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Stand in front of a model endpoint",
		Long: `Stand in front of a model endpoint until SIGINT or SIGTERM. Then those who wait
are answered with a retryable 503, those who run get the drain time to finish,
and the process ends. A second signal ends it at once.

Without --config the built-in defaults count, and of the environment
MC_ENDPOINT (the endpoint), MC_API_KEY (its key) and MC_MODEL (its model).`,
		Example: `  MC_ENDPOINT=http://127.0.0.1:8080/v1 headgate serve
  headgate serve --config /etc/headgate/headgate.yaml`,
		Args: usageArgs(cobra.NoArgs),
	}
	path := configFlag(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		cfg, err := loadSettings(*path, cmd.ErrOrStderr())
		if err != nil {
			return err
		}
		return serve(cmd.Context(), cfg, newLogger(cfg.Log, cmd.ErrOrStderr()))
	}
	return cmd
}

func serve(ctx context.Context, cfg *config.Config, log *slog.Logger) error {
	a, err := app.New(cfg, version(), log)
	if err != nil {
		return err
	}
	if err := a.Start(); err != nil {
		return err
	}
	log.Info("serving", "version", version(), "listen", a.DataAddr(), "admin", a.AdminAddr(), "pools", len(cfg.Pools))
	for _, p := range cfg.Pools {
		log.Info("pool", "name", p.Name, "upstream", p.Upstream, "workers", p.Workers, "mode", p.Mode,
			"policy", p.Admission.Policy, "slo", p.SLO.Turnaround)
	}
	select {
	case <-ctx.Done():
		log.Info("going down", "drain", cfg.Drain)
	case err = <-a.Failed():
		log.Error("listener failed, going down", "error", err)
	}
	// The signal has done its work: the drain has a bound of its own.
	if stopErr := a.Stop(context.WithoutCancel(ctx)); err == nil {
		err = stopErr
	}
	log.Info("down")
	return err
}
